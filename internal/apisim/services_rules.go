package apisim

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"reflect"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/homeostat/homeostat/internal/apisim/rules"
)

// firstNodePort and lastNodePort limit the range of node ports. They are the
// defaults of the real server.
const firstNodePort, lastNodePort = int64(30000), int64(32767)

// Errors about a node port, in the real server's words.
const (
	portTaken   = "provided port is already allocated"
	portOutside = "provided port is not in the valid range. The range of valid ports is 30000-32767"
)

// reserved lists addresses of the range 10.0.0.0/16 that no Service gets. The
// default range of the real server is a /24.
var reserved = []string{"10.0.0.0", "10.0.0.1", "10.0.255.255"}

// ranges lists the ranges of addresses that a Service may request. They are the
// ranges of the simulated server, of kubeadm and kind, of k3s, and of EKS.
var ranges = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/16"), netip.MustParsePrefix("10.96.0.0/12"), netip.MustParsePrefix("10.43.0.0/16"),
	netip.MustParsePrefix("172.20.0.0/16"),
}

func inRange(address string) bool {
	ip, err := netip.ParseAddr(address)
	return err == nil && slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// allocateService allocates the addresses and ports of a Service, and refuses
// addresses and ports that the Service cannot have. old is nil for a new
// Service.
func allocateService(x *exchange, obj, old object) error {
	spec, oldSpec, m := asObject(obj["spec"]), asObject(old["spec"]), metaOf(obj)
	used := usedBy(x.t, types.NamespacedName{Namespace: text(m, "namespace"), Name: text(m, "name")})
	if !x.loading && !x.s.opts.Incomplete && spec != nil {
		errs := misplaced(spec, oldSpec)
		if err := doubled(spec, oldSpec != nil); len(errs) == 0 && err != nil {
			invalid, ok := errors.AsType[*field.Error](err)
			if !ok {
				return err
			}
			errs = field.ErrorList{invalid}
		}
		if len(errs) == 0 {
			errs = unavailable(spec, oldSpec, used, x.r.dryRun())
		}
		if len(errs) > 0 {
			return x.invalid(obj, errs)
		}
		if port := number(spec, "healthCheckNodePort"); localOnly(spec) && port != 0 &&
			port != number(oldSpec, "healthCheckNodePort") && (outOfRange(port) || used.ports[port]) {
			reason := portTaken
			if outOfRange(port) {
				reason = portOutside
			}
			return apierrors.NewInternalError(
				fmt.Errorf("failed to allocate requested HealthCheck NodePort %d: %s", port, reason))
		}
	}
	x.s.allocated.allocate(spec, oldSpec, used)
	return nil
}

func outOfRange(port int64) bool { return port < firstNodePort || port > lastNodePort }

// misplaced returns the errors for requested addresses and ports that the
// Service cannot have, even if no other Service has them. For example, a
// Service with node ports cannot have the address None.
func misplaced(spec, oldSpec object) field.ErrorList {
	path, address := field.NewPath("spec"), text(spec, "clusterIP")
	list, _ := spec["clusterIPs"].([]any)
	if address != text(oldSpec, "clusterIP") && reflect.DeepEqual(spec["clusterIPs"], oldSpec["clusterIPs"]) {
		list = nil // it follows from clusterIP
	}
	ip, err := netip.ParseAddr(address)
	switch kind, clusterIPs := text(spec, "type"), path.Child("clusterIPs"); {
	case kind == "ExternalName":
		return external(spec, oldSpec)
	case keepsAddresses(spec, oldSpec):
		return slices.Concat(misplacedPorts(spec, oldSpec), misplacedHealth(spec, oldSpec))
	case len(list) > 0 && list[0] != address, len(list) > 1 && len(list) > len(elements(spec, "ipFamilies")):
		return field.ErrorList{field.Invalid(clusterIPs, list, "must begin with clusterIP, and have one of each family")}
	case address == "None" && rules.OnNodes(kind):
		return field.ErrorList{field.Invalid(clusterIPs.Index(0), address, "may not be set to 'None'")}
	case address != "" && address != "None" && (err != nil || !ip.Is4()):
		return field.ErrorList{field.Invalid(clusterIPs.Index(0), address, "must be a valid IPv4 address")}
	}
	return slices.Concat(misplacedPorts(spec, oldSpec), misplacedHealth(spec, oldSpec), families(spec))
}

// keepsAddresses reports whether an update keeps all fields that determine a
// Service's addresses. A loaded object may have addresses of another cluster.
func keepsAddresses(spec, oldSpec object) bool {
	for _, f := range []string{"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "type"} {
		if !empty(spec[f]) && !reflect.DeepEqual(spec[f], oldSpec[f]) {
			return false
		}
	}
	return oldSpec != nil && empty(spec["selector"]) == empty(oldSpec["selector"])
}

func elements(m object, field string) []any {
	list, _ := m[field].([]any)
	return list
}

// external returns an error for each field that a Service of type ExternalName
// may not have.
func external(spec, oldSpec object) field.ErrorList {
	var errs field.ErrorList
	for key, name := range map[string]string{"clusterIP": "clusterIPs", "ipFamilyPolicy": "ipFamilyPolicy"} {
		if !empty(spec[key]) && spec[key] != oldSpec[key] {
			errs = append(errs, field.Forbidden(field.NewPath("spec", name), "may not be set for ExternalName services"))
		}
	}
	return errs
}

// misplacedPorts returns an error for each node port that is invalid, or that
// this type of Service cannot have.
func misplacedPorts(spec, oldSpec object) field.ErrorList {
	var errs field.ErrorList
	oldPorts := portsByName(oldSpec)
	for i, v := range elements(spec, "ports") {
		p, path := asObject(v), field.NewPath("spec", "ports").Index(i).Child("nodePort")
		port := number(p, "nodePort")
		isKept := rules.OnNodes(text(oldSpec, "type")) && reflect.DeepEqual(p["nodePort"], oldPorts[text(p, "name")])
		switch {
		case port == 0:
		case port < 0 || port > 65535:
			errs = append(errs, field.Invalid(path, port, "must be between 1 and 65535, inclusive"))
		case !rules.OnNodes(text(spec, "type")) && !isKept:
			errs = append(errs, field.Forbidden(path, "may not be used when `type` is 'ClusterIP'"))
		}
	}
	return errs
}

// doubled finds a node port that occurs twice for one protocol. Like the real
// server, it refuses such an update with an error that has no reason.
func doubled(spec object, update bool) error {
	seen := map[string]bool{}
	for i, v := range elements(spec, "ports") {
		p, path := asObject(v), field.NewPath("spec", "ports").Index(i).Child("nodePort")
		port := number(p, "nodePort")
		key := fmt.Sprintf("{%s %d}", cmp.Or(text(p, "protocol"), "TCP"), port)
		switch onNodes := rules.OnNodes(text(spec, "type")); {
		case port == 0 || !seen[key]:
		case onNodes && update:
			return &apierrors.StatusError{ErrStatus: metav1.Status{
				Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: "duplicate nodePort: " + key,
			}}
		case onNodes:
			return field.Invalid(path, port, portTaken)
		default:
			return field.Duplicate(path, port)
		}
		seen[key] = true
	}
	return nil
}

func misplacedHealth(spec, oldSpec object) field.ErrorList {
	path := field.NewPath("spec", "healthCheckNodePort")
	port, oldPort := number(spec, "healthCheckNodePort"), number(oldSpec, "healthCheckNodePort")
	switch {
	case port == 0 || port == oldPort:
	case !localOnly(spec):
		return field.ErrorList{field.Invalid(path, port, "may only be set for a LoadBalancer with local traffic")}
	case oldPort != 0:
		return field.ErrorList{field.Forbidden(path, "field is immutable")}
	}
	return nil
}

// families finds address families that a server with only IPv4 addresses does
// not have. Services without addresses are exempt.
func families(spec object) field.ErrorList {
	var wrong, lacking field.ErrorList
	list, policy, path := elements(spec, "ipFamilies"), text(spec, "ipFamilyPolicy"), field.NewPath("spec")
	for i, f := range list {
		fieldPath := path.Child("ipFamilies").Index(i)
		switch {
		case f != "IPv4" && f != "IPv6":
			wrong = append(wrong, field.NotSupported(fieldPath, f, []string{"IPv4", "IPv6"}))
		case slices.Contains(list[:i], f):
			wrong = append(wrong, field.Duplicate(fieldPath, f))
		case f == "IPv6":
			lacking = append(lacking, field.Invalid(fieldPath, f, "not configured on this cluster"))
		}
	}
	policies := []string{"SingleStack", "PreferDualStack", "RequireDualStack"}
	switch fieldPath := path.Child("ipFamilyPolicy"); {
	case policy != "" && !slices.Contains(policies, policy):
		wrong = append(wrong, field.NotSupported(fieldPath, policy, policies))
	case len(list) > 1 && len(wrong) == 0 && (policy == "" || policy == "SingleStack"):
		wrong = append(wrong, field.Invalid(fieldPath, policy, "must be dual-stack for two families"))
	case policy == "RequireDualStack":
		lacking = append(lacking, field.Invalid(fieldPath, policy, "this cluster is not configured for dual-stack services"))
	}
	address := text(spec, "clusterIP")
	switch {
	case len(wrong) > 0:
		return wrong
	case address == "None" && empty(spec["selector"]):
		return nil
	case address != "" && address != "None" && len(list) > 0 && list[0] == "IPv6":
		return field.ErrorList{field.Invalid(path.Child("clusterIPs").Index(0), address, "must be of the first family")}
	}
	return lacking
}

// unavailable finds a requested address that is out of range or belongs to
// another Service. If there is no such address, it finds requested node ports
// that are out of range or taken. A dry run does not allocate addresses or
// ports, so for a dry run the real server does not report addresses that are
// taken or ports that are out of range.
func unavailable(spec, oldSpec object, used taken, dry bool) field.ErrorList {
	address := text(spec, "clusterIP")
	if chosen := oldSpec == nil || text(oldSpec, "type") == "ExternalName"; chosen && address != "" && address != "None" {
		path := field.NewPath("spec", "clusterIPs")
		switch {
		case !inRange(address) || slices.Contains(reserved, address):
			return field.ErrorList{field.Invalid(path, address, fmt.Sprintf("the provided IP is not in the valid range: "+
				"the simulated server has %v", ranges))}
		case used.addresses[address] && !dry:
			return field.ErrorList{field.Invalid(path, address, "provided IP is already allocated")}
		}
	}
	if !rules.OnNodes(text(spec, "type")) {
		return nil
	}
	oldPorts, newPorts := map[int64]bool{0: true}, map[int64]bool{}
	for _, p := range elements(oldSpec, "ports") {
		oldPorts[number(asObject(p), "nodePort")] = true
	}
	for i, p := range elements(spec, "ports") {
		port, path := number(asObject(p), "nodePort"), field.NewPath("spec", "ports").Index(i).Child("nodePort")
		switch {
		case oldPorts[port]:
		case outOfRange(port) && !dry:
			return field.ErrorList{field.Invalid(path, port, portOutside)}
		case used.ports[port]:
			return field.ErrorList{field.Invalid(path, port, portTaken)}
		}
		newPorts[port] = true
	}
	maps.Copy(used.ports, newPorts)
	return nil
}

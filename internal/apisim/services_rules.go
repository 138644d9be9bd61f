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
)

// The ports of a server that is started with the defaults.
const firstNodePort, lastNodePort = int64(30000), int64(32767)

// Errors about a node port, in the real server's words.
const (
	portTaken   = "provided port is already allocated"
	portOutside = "provided port is not in the valid range. The range of valid ports is 30000-32767"
)

// reserved are addresses of the range, 10.0.0.0/16, that no Service gets: the default of the real server is a /24.
var reserved = []string{"10.0.0.0", "10.0.0.1", "10.0.255.255"}

// ranges are those of the addresses that a Service may choose: that of the simulated server, and those of kubeadm and
// kind, of k3s, and of EKS.
var ranges = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/16"), netip.MustParsePrefix("10.96.0.0/12"), netip.MustParsePrefix("10.43.0.0/16"),
	netip.MustParsePrefix("172.20.0.0/16"),
}

func inRange(address string) bool {
	ip, err := netip.ParseAddr(address)
	return err == nil && slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// serve allocates the addresses and ports of a Service, and refuses those that it cannot have. old is nil for a new
// one.
func serve(x *exchange, obj, old object) error {
	spec, was, m := asObject(obj["spec"]), asObject(old["spec"]), metaOf(obj)
	used := usedBy(x.t, types.NamespacedName{Namespace: text(m, "namespace"), Name: text(m, "name")})
	if !x.loading && !x.s.opts.Incomplete && spec != nil {
		errs := misplaced(spec, was)
		if err := doubled(spec, was != nil); len(errs) == 0 && err != nil {
			invalid, is := errors.AsType[*field.Error](err)
			if !is {
				return err
			}
			errs = field.ErrorList{invalid}
		}
		if len(errs) == 0 {
			errs = unavailable(spec, was, used, x.r.dryRun())
		}
		if len(errs) > 0 {
			return x.invalid(obj, errs)
		}
		if port := number(spec, "healthCheckNodePort"); localOnly(spec) && port != 0 &&
			port != number(was, "healthCheckNodePort") && (outside(port) || used.ports[port]) {
			why := portTaken
			if outside(port) {
				why = portOutside
			}
			return apierrors.NewInternalError(fmt.Errorf("failed to allocate requested HealthCheck NodePort %d: %s", port, why))
		}
	}
	x.s.allocated.allocate(spec, was, used)
	return nil
}

func outside(port int64) bool { return port < firstNodePort || port > lastNodePort }

// misplaced finds values that no Service may ask for, regardless of other Services.
func misplaced(spec, was object) field.ErrorList {
	path, address := field.NewPath("spec"), text(spec, "clusterIP")
	list, _ := spec["clusterIPs"].([]any)
	if address != text(was, "clusterIP") && reflect.DeepEqual(spec["clusterIPs"], was["clusterIPs"]) {
		list = nil // it follows
	}
	ip, err := netip.ParseAddr(address)
	switch kind, first := text(spec, "type"), path.Child("clusterIPs"); {
	case kind == "ExternalName":
		return external(spec, was)
	case keepsAddresses(spec, was):
		return slices.Concat(misplacedPorts(spec, was), misplacedHealth(spec, was))
	case len(list) > 0 && list[0] != address, len(list) > 1 && len(list) > len(elements(spec, "ipFamilies")):
		return field.ErrorList{field.Invalid(first, list, "must begin with clusterIP, and have one of each family")}
	case address == "None" && onNodes(kind):
		return field.ErrorList{field.Invalid(first.Index(0), address, "may not be set to 'None'")}
	case address != "" && address != "None" && (err != nil || !ip.Is4()):
		return field.ErrorList{field.Invalid(first.Index(0), address, "must be a valid IPv4 address")}
	}
	return slices.Concat(misplacedPorts(spec, was), misplacedHealth(spec, was), families(spec))
}

// keepsAddresses reports whether an update keeps all fields that determine a Service's addresses: loaded objects may
// come from another cluster.
func keepsAddresses(spec, was object) bool {
	for _, f := range []string{"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "type"} {
		if !empty(spec[f]) && !reflect.DeepEqual(spec[f], was[f]) {
			return false
		}
	}
	return was != nil && empty(spec["selector"]) == empty(was["selector"])
}

func elements(m object, field string) []any {
	list, _ := m[field].([]any)
	return list
}

// external finds fields that a Service of type ExternalName may not have.
func external(spec, was object) field.ErrorList {
	var errs field.ErrorList
	for from, name := range map[string]string{"clusterIP": "clusterIPs", "ipFamilyPolicy": "ipFamilyPolicy"} {
		if !empty(spec[from]) && spec[from] != was[from] {
			errs = append(errs, field.Forbidden(field.NewPath("spec", name), "may not be set for ExternalName services"))
		}
	}
	return errs
}

// misplacedPorts finds ports of the nodes that are none, that are there twice, or that this type of Service has not.
func misplacedPorts(spec, was object) field.ErrorList {
	var errs field.ErrorList
	had := portsByName(was)
	for i, v := range elements(spec, "ports") {
		p, path := asObject(v), field.NewPath("spec", "ports").Index(i).Child("nodePort")
		port := number(p, "nodePort")
		kept := onNodes(text(was, "type")) && reflect.DeepEqual(p["nodePort"], had[text(p, "name")])
		switch {
		case port == 0:
		case port < 0 || port > 65535:
			errs = append(errs, field.Invalid(path, port, "must be between 1 and 65535, inclusive"))
		case !onNodes(text(spec, "type")) && !kept:
			errs = append(errs, field.Forbidden(path, "may not be used when `type` is 'ClusterIP'"))
		}
	}
	return errs
}

// doubled finds a port of the nodes that is there twice for one protocol. The real server has no reason for an update
// that is refused so.
func doubled(spec object, update bool) error {
	seen := map[string]bool{}
	for i, v := range elements(spec, "ports") {
		p, path := asObject(v), field.NewPath("spec", "ports").Index(i).Child("nodePort")
		port := number(p, "nodePort")
		key := fmt.Sprintf("{%s %d}", cmp.Or(text(p, "protocol"), "TCP"), port)
		switch onNodes := onNodes(text(spec, "type")); {
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

func misplacedHealth(spec, was object) field.ErrorList {
	path := field.NewPath("spec", "healthCheckNodePort")
	port, before := number(spec, "healthCheckNodePort"), number(was, "healthCheckNodePort")
	switch {
	case port == 0 || port == before:
	case !localOnly(spec):
		return field.ErrorList{field.Invalid(path, port, "may only be set for a LoadBalancer with local traffic")}
	case before != 0:
		return field.ErrorList{field.Forbidden(path, "field is immutable")}
	}
	return nil
}

// families finds families that a server with only IPv4 addresses does not have. Services without addresses are exempt.
func families(spec object) field.ErrorList {
	var wrong, lacking field.ErrorList
	list, policy, path := elements(spec, "ipFamilies"), text(spec, "ipFamilyPolicy"), field.NewPath("spec")
	for i, f := range list {
		at := path.Child("ipFamilies").Index(i)
		switch {
		case f != "IPv4" && f != "IPv6":
			wrong = append(wrong, field.NotSupported(at, f, []string{"IPv4", "IPv6"}))
		case slices.Contains(list[:i], f):
			wrong = append(wrong, field.Duplicate(at, f))
		case f == "IPv6":
			lacking = append(lacking, field.Invalid(at, f, "not configured on this cluster"))
		}
	}
	policies := []string{"SingleStack", "PreferDualStack", "RequireDualStack"}
	switch at := path.Child("ipFamilyPolicy"); {
	case policy != "" && !slices.Contains(policies, policy):
		wrong = append(wrong, field.NotSupported(at, policy, policies))
	case len(list) > 1 && len(wrong) == 0 && (policy == "" || policy == "SingleStack"):
		wrong = append(wrong, field.Invalid(at, policy, "must be dual-stack for two families"))
	case policy == "RequireDualStack":
		lacking = append(lacking, field.Invalid(at, policy, "this cluster is not configured for dual-stack services"))
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

// unavailable finds an address, or else ports of the nodes, that are out of range or that another Service has. Dry
// runs do not reserve: they find addresses that are out of range, and ports that are taken.
func unavailable(spec, was object, used taken, dry bool) field.ErrorList {
	address := text(spec, "clusterIP")
	if chosen := was == nil || text(was, "type") == "ExternalName"; chosen && address != "" && address != "None" {
		path := field.NewPath("spec", "clusterIPs")
		switch {
		case !inRange(address) || slices.Contains(reserved, address):
			return field.ErrorList{field.Invalid(path, address, fmt.Sprintf("the provided IP is not in the valid range: "+
				"the simulated server has %v", ranges))}
		case used.addresses[address] && !dry:
			return field.ErrorList{field.Invalid(path, address, "provided IP is already allocated")}
		}
	}
	if !onNodes(text(spec, "type")) {
		return nil
	}
	had, own := map[int64]bool{0: true}, map[int64]bool{}
	for _, p := range elements(was, "ports") {
		had[number(asObject(p), "nodePort")] = true
	}
	for i, p := range elements(spec, "ports") {
		port, path := number(asObject(p), "nodePort"), field.NewPath("spec", "ports").Index(i).Child("nodePort")
		switch {
		case had[port]:
		case outside(port) && !dry:
			return field.ErrorList{field.Invalid(path, port, portOutside)}
		case used.ports[port]:
			return field.ErrorList{field.Invalid(path, port, portTaken)}
		}
		own[port] = true
	}
	maps.Copy(used.ports, own)
	return nil
}

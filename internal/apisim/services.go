package apisim

import (
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/internal/apisim/rules"
)

// allocator counts the addresses and ports that it has tried for Services, so
// that it tries the next one for the next Service.
type allocator struct{ addresses, ports int64 }

// taken holds the addresses and node ports that Services use. It does not
// include node ports in Services whose type does not use them.
type taken struct {
	addresses map[string]bool
	ports     map[int64]bool
}

// usedBy returns the addresses and ports of a table's Services, except for one
// Service.
func usedBy(services *table, excluded types.NamespacedName) taken {
	used := taken{map[string]bool{}, map[int64]bool{}}
	for key, have := range services.objects {
		spec := asObject(have.obj["spec"])
		if key == excluded || spec == nil {
			continue
		}
		used.addresses[text(spec, "clusterIP")] = true
		if !rules.OnNodes(text(spec, "type")) {
			continue
		}
		used.ports[number(spec, "healthCheckNodePort")] = true
		for _, p := range elements(spec, "ports") {
			used.ports[number(asObject(p), "nodePort")] = true
		}
	}
	return used
}

// localOnly reports whether a Service needs a health check node port, on which
// load balancers find out whether a node has Pods of the Service.
func localOnly(spec object) bool {
	return text(spec, "type") == "LoadBalancer" && text(spec, "externalTrafficPolicy") == "Local"
}

// allocate sets the fields of a Service's spec that the server chooses. These
// are an address and node ports that no other Service has. It keeps the values
// of oldSpec, the spec before an update, and removes the ones that a Service of
// the new type cannot have. oldSpec may be nil.
func (a *allocator) allocate(spec, oldSpec object, used taken) {
	if spec == nil {
		return
	}
	kind := text(spec, "type")
	if kind == "ExternalName" {
		deleteUnchanged(spec, oldSpec, "clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy",
			"externalTrafficPolicy")
		a.nodePorts(spec, oldSpec, used)
		return
	}
	if !rules.OnNodes(kind) && rules.OnNodes(text(oldSpec, "type")) {
		deleteUnchanged(spec, oldSpec, "externalTrafficPolicy")
	}
	if localOnly(oldSpec) && !localOnly(spec) {
		deleteUnchanged(spec, oldSpec, "healthCheckNodePort")
	}
	if kind != "LoadBalancer" {
		deleteUnchanged(spec, oldSpec, "allocateLoadBalancerNodePorts")
	}
	if oldSpec != nil && text(oldSpec, "type") != "ExternalName" {
		for _, f := range []string{"clusterIP", "clusterIPs"} {
			if empty(spec[f]) {
				carry(spec, oldSpec, f)
			}
		}
	}
	if empty(spec["clusterIP"]) {
		spec["clusterIP"] = a.address(used)
	}
	addressDefaults(spec)
	a.nodePorts(spec, oldSpec, used)
	if localOnly(spec) && number(spec, "healthCheckNodePort") == 0 {
		spec["healthCheckNodePort"] = a.port(used)
	}
}

// addressDefaults sets the fields that follow from the address of a Service.
func addressDefaults(spec object) {
	families, policy := []any{"IPv4"}, "SingleStack"
	if spec["clusterIP"] == "None" && empty(spec["selector"]) {
		families, policy = []any{"IPv4", "IPv6"}, "RequireDualStack"
	}
	for f, v := range map[string]any{
		"clusterIPs": []any{spec["clusterIP"]}, "ipFamilies": families, "ipFamilyPolicy": policy,
	} {
		if empty(spec[f]) {
			spec[f] = v
		}
	}
}

// address returns an address that no Service has, unless all are in use. It
// avoids the addresses that tests choose themselves.
func (a *allocator) address(used taken) string {
	for {
		a.addresses++
		address := fmt.Sprintf("10.0.%d.%d", 128+a.addresses/250%128, a.addresses%250+1)
		if !used.addresses[address] || a.addresses > maxAddresses {
			return address
		}
	}
}

const maxAddresses = 128 * 250

// port returns a node port that no Service has, or 0 if all are in use.
func (a *allocator) port(used taken) int64 {
	for range lastNodePort - firstNodePort + 1 {
		a.ports++
		port := firstNodePort + a.ports%(lastNodePort-firstNodePort+1)
		if !used.ports[port] {
			used.ports[port] = true
			return port
		}
	}
	return 0
}

// portsByName returns the node ports of a Service, by the name of the Service's
// port.
func portsByName(spec object) object {
	ports := object{}
	for _, p := range elements(spec, "ports") {
		ports[text(asObject(p), "name")] = asObject(p)["nodePort"]
	}
	return ports
}

// nodePorts gives a node port to each port of a Service whose type has node
// ports, unless allocateLoadBalancerNodePorts is false. A port keeps the node
// port that oldSpec has for the port of the same name. If an update changes the
// type to one without node ports, nodePorts removes them.
func (a *allocator) nodePorts(spec, oldSpec object, used taken) {
	kind, oldPorts, given := text(spec, "type"), portsByName(oldSpec), map[int64]bool{}
	for _, v := range elements(spec, "ports") {
		given[number(asObject(v), "nodePort")] = true
	}
	for _, v := range elements(spec, "ports") {
		p := asObject(v)
		found := oldPorts[text(p, "name")]
		switch {
		case p == nil:
		case !rules.OnNodes(kind) && rules.OnNodes(text(oldSpec, "type")) && reflect.DeepEqual(p["nodePort"], found):
			delete(p, "nodePort")
		case !rules.OnNodes(kind) || number(p, "nodePort") != 0 || spec["allocateLoadBalancerNodePorts"] == false:
		case found != nil && !given[number(oldPorts, text(p, "name"))]:
			p["nodePort"] = found
		default:
			p["nodePort"] = a.port(used)
		}
	}
}

// deleteUnchanged deletes the fields that an update has not changed.
func deleteUnchanged(spec, oldSpec object, fields ...string) {
	for _, f := range fields {
		if reflect.DeepEqual(spec[f], oldSpec[f]) {
			delete(spec, f)
		}
	}
}

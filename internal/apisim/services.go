package apisim

import (
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/types"
)

// onNodes reports whether a type of Service has ports on the nodes.
func onNodes(kind string) bool { return kind == "NodePort" || kind == "LoadBalancer" }

// allocator counts the addresses and ports that it has given to Services.
type allocator struct{ addresses, ports int64 }

// taken are the addresses, and the ports of the nodes, that Services use. A port that one of another type keeps is not
// in use.
type taken struct {
	addresses map[string]bool
	ports     map[int64]bool
}

// usedBy returns the addresses and ports of a table's Services, except for one key.
func usedBy(services *table, but types.NamespacedName) taken {
	all := taken{map[string]bool{}, map[int64]bool{}}
	for key, have := range services.objects {
		spec := asObject(have.obj["spec"])
		if key == but || spec == nil {
			continue
		}
		all.addresses[text(spec, "clusterIP")] = true
		if !onNodes(text(spec, "type")) {
			continue
		}
		all.ports[number(spec, "healthCheckNodePort")] = true
		for _, p := range elements(spec, "ports") {
			all.ports[number(asObject(p), "nodePort")] = true
		}
	}
	return all
}

// localOnly reports whether a Service has a port of the nodes on which balancers check the health of its Pods.
func localOnly(spec object) bool {
	return text(spec, "type") == "LoadBalancer" && text(spec, "externalTrafficPolicy") == "Local"
}

// allocate gives the spec of a Service the fields that the server chooses and no other Service has: an address, and
// ports on the nodes. It keeps those of was, the spec before an update, which may be nil.
func (a *allocator) allocate(spec, was object, used taken) {
	if spec == nil {
		return
	}
	kind := text(spec, "type")
	if kind == "ExternalName" {
		forgetSame(spec, was, "clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy",
			"externalTrafficPolicy")
		a.nodePorts(spec, was, used)
		return
	}
	if !onNodes(kind) && onNodes(text(was, "type")) {
		forgetSame(spec, was, "externalTrafficPolicy")
	}
	if localOnly(was) && !localOnly(spec) {
		forgetSame(spec, was, "healthCheckNodePort")
	}
	if kind != "LoadBalancer" {
		forgetSame(spec, was, "allocateLoadBalancerNodePorts")
	}
	if was != nil && text(was, "type") != "ExternalName" {
		for _, f := range []string{"clusterIP", "clusterIPs"} {
			if empty(spec[f]) {
				carry(spec, was, f)
			}
		}
	}
	if empty(spec["clusterIP"]) {
		spec["clusterIP"] = a.address(used)
	}
	addressDefaults(spec)
	a.nodePorts(spec, was, used)
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

// address is one that no Service has, beyond those that tests choose themselves.
func (a *allocator) address(used taken) string {
	for {
		a.addresses++
		address := fmt.Sprintf("10.0.%d.%d", 128+a.addresses/250%128, a.addresses%250+1)
		if !used.addresses[address] || a.addresses > mostAddresses {
			return address
		}
	}
}

const mostAddresses = 128 * 250

// port is one of the nodes that no Service has.
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

// portsByName are the ports of the nodes that a Service has.
func portsByName(spec object) object {
	all := object{}
	for _, p := range elements(spec, "ports") {
		all[text(asObject(p), "name")] = asObject(p)["nodePort"]
	}
	return all
}

// nodePorts gives the ports of a Service of some types one on the nodes, and those that it had by their names.
func (a *allocator) nodePorts(spec, was object, used taken) {
	kind, had, given := text(spec, "type"), portsByName(was), map[int64]bool{}
	for _, v := range elements(spec, "ports") {
		given[number(asObject(v), "nodePort")] = true
	}
	for _, v := range elements(spec, "ports") {
		p := asObject(v)
		known := had[text(p, "name")]
		switch {
		case p == nil:
		case !onNodes(kind) && onNodes(text(was, "type")) && reflect.DeepEqual(p["nodePort"], known):
			delete(p, "nodePort")
		case !onNodes(kind) || number(p, "nodePort") != 0 || spec["allocateLoadBalancerNodePorts"] == false:
		case known != nil && !given[number(had, text(p, "name"))]:
			p["nodePort"] = known
		default:
			p["nodePort"] = a.port(used)
		}
	}
}

// forgetSame takes fields away that an update has left as they were.
func forgetSame(spec, was object, fields ...string) {
	for _, f := range fields {
		if reflect.DeepEqual(spec[f], was[f]) {
			delete(spec, f)
		}
	}
}

package apisim

import (
	"fmt"
	"reflect"
)

// onNodes reports whether a type of Service has ports on the nodes.
func onNodes(kind string) bool { return kind == "NodePort" || kind == "LoadBalancer" }

// allocator counts the addresses and ports that it has given to Services.
type allocator struct{ addresses, ports int64 }

// allocate gives the spec of a Service what the server chooses: an address, and ports on the nodes. It keeps those of
// was, the spec before an update, which may be nil.
func (a *allocator) allocate(spec, was object) {
	if spec == nil {
		return
	}
	kind := text(spec, "type")
	if kind == "ExternalName" {
		forgetSame(spec, was, "clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy",
			"externalTrafficPolicy")
		return
	}
	if !onNodes(kind) && onNodes(text(was, "type")) {
		forgetSame(spec, was, "externalTrafficPolicy")
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
		a.addresses++
		// Beyond what tests choose themselves.
		spec["clusterIP"] = fmt.Sprintf("10.0.%d.%d", 128+a.addresses/250%128, a.addresses%250+1)
	}
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
	a.nodePorts(spec, was, kind)
}

// nodePorts gives the ports of a Service of some types one on the nodes, and those that it had by their names.
func (a *allocator) nodePorts(spec, was object, kind string) {
	had := object{}
	before, _ := was["ports"].([]any)
	for _, p := range before {
		had[text(asObject(p), "name")] = asObject(p)["nodePort"]
	}
	ports, _ := spec["ports"].([]any)
	for _, v := range ports {
		p := asObject(v)
		known := had[text(p, "name")]
		switch {
		case p == nil:
		case !onNodes(kind) && onNodes(text(was, "type")) && reflect.DeepEqual(p["nodePort"], known):
			delete(p, "nodePort")
		case !onNodes(kind) || number(p, "nodePort") != 0 || spec["allocateLoadBalancerNodePorts"] == false:
		case known != nil:
			p["nodePort"] = known
		default:
			a.ports++
			p["nodePort"] = 30000 + a.ports%2768
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

// Package selectable knows the fields by which API servers select objects, and
// the values of these fields. Some fields are booleans or numbers, some have a
// different name in the object, and some have a default value.
//
// The table is the table of Kubernetes 1.36. A test compares it with a real
// server. The informer uses it to evaluate field selectors on its own writes,
// and the simulated API server to answer lists.
package selectable

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// table has the fields of each built-in kind, apart from metadata.name and
// metadata.namespace. A line is resource.group followed by its fields, each of
// which has one of these forms:
//
//	field             the field has the same path in the object
//	field=path        the field has a different path in the object
//	field=path|other  if the value at path is empty, the value at other is used
//	field=-           the field is always empty
//	field:value       value is the default
const table = `
pods spec.nodeName spec.host=spec.nodeName spec.restartPolicy spec.schedulerName spec.serviceAccountName
 spec.hostNetwork:false status.phase status.podIP status.podIPs=- status.nominatedNodeName
nodes spec.unschedulable:false
namespaces status.phase
secrets type
services spec.clusterIP spec.type
replicationcontrollers status.replicas:0
events involvedObject.kind involvedObject.namespace involvedObject.name involvedObject.uid involvedObject.apiVersion
 involvedObject.resourceVersion involvedObject.fieldPath reason reportingComponent
 source=source.component|reportingComponent type
events.events.k8s.io reason regarding.kind regarding.namespace regarding.name regarding.uid regarding.apiVersion
 regarding.resourceVersion regarding.fieldPath reportingController type
jobs.batch status.successful=status.succeeded:0
certificatesigningrequests.certificates.k8s.io spec.signerName
clustertrustbundles.certificates.k8s.io spec.signerName
podcertificaterequests.certificates.k8s.io spec.signerName spec.podName spec.nodeName
resourceslices.resource.k8s.io spec.nodeName spec.driver
`

// unnamespaced lists the kinds of the table that refuse metadata.namespace. All
// other kinds accept it.
const unnamespaced = "nodes namespaces certificatesigningrequests.certificates.k8s.io " +
	"clustertrustbundles.certificates.k8s.io podcertificaterequests.certificates.k8s.io resourceslices.resource.k8s.io "

// groups lists the groups whose kinds are built into the API server.
const groups = " apps autoscaling batch extensions policy admissionregistration.k8s.io apiextensions.k8s.io " +
	"apiregistration.k8s.io authentication.k8s.io authorization.k8s.io certificates.k8s.io coordination.k8s.io " +
	"discovery.k8s.io events.k8s.io flowcontrol.apiserver.k8s.io internal.apiserver.k8s.io networking.k8s.io " +
	"node.k8s.io rbac.authorization.k8s.io resource.k8s.io scheduling.k8s.io storage.k8s.io storagemigration.k8s.io "

// Rule says where in an object the value of a selectable field is found.
type Rule struct {
	paths [][]string
	unset string // the value if the object does not have the field
}

var parsed = sync.OnceValue(func() map[schema.GroupResource]map[string]Rule {
	byResource := map[schema.GroupResource]map[string]Rule{}
	for line := range strings.SplitSeq(strings.ReplaceAll(strings.TrimSpace(table), "\n ", " "), "\n") {
		words := strings.Fields(line)
		rules := map[string]Rule{}
		for _, word := range words[1:] {
			text, unset, _ := strings.Cut(word, ":")
			field, path, renamed := strings.Cut(text, "=")
			if !renamed {
				path = field
			}
			rule := Rule{unset: unset}
			for alternative := range strings.SplitSeq(path, "|") {
				if alternative != "-" {
					rule.paths = append(rule.paths, strings.Split(alternative, "."))
				}
			}
			rules[field] = rule
		}
		byResource[schema.ParseGroupResource(words[0])] = rules
	}
	return byResource
})

// Builtin reports whether the kinds of a group are built into the API server.
func Builtin(group string) bool { return group == "" || strings.Contains(groups, " "+group+" ") }

// Of returns the rules of a built-in kind, by field. It returns nil for a custom
// kind, and for a kind that is selected by its metadata only. The map is shared;
// do not modify it.
func Of(resource schema.GroupResource) map[string]Rule { return parsed()[resource] }

// TakesNamespace reports whether a kind can be selected by metadata.namespace.
func TakesNamespace(resource schema.GroupResource) bool {
	return !slices.Contains(strings.Fields(unnamespaced), resource.String())
}

// RuleFor returns the rule of a field of a kind. known is false if this package
// does not know the field. A field of a custom kind is known if its name is a
// plain path in the object, such as "spec.color". The kind's definition decides
// which fields can be selected.
func RuleFor(resource schema.GroupResource, field string) (rule Rule, known bool) {
	if resource.Resource == "" {
		return Rule{}, false
	}
	if Builtin(resource.Group) {
		rule, known = parsed()[resource][field]
		return rule, known
	}
	return RuleOfCustom(field)
}

// RuleOfCustom returns the rule of a field of a custom kind, as [RuleFor] does.
// All custom kinds have the same rules.
func RuleOfCustom(field string) (rule Rule, known bool) {
	if field == "" || strings.ContainsAny(field, `[]()"'\ *`) {
		return Rule{}, false
	}
	return Rule{paths: [][]string{strings.Split(field, ".")}}, true
}

// Value returns the value of the field in an object that was decoded from JSON.
// found is false if the object does not have the field. known is false if the
// field is not a single value.
func (r Rule) Value(object map[string]any) (value string, found, known bool) {
	for _, path := range r.paths {
		value, found, known = read(object, path)
		if !known || value != "" {
			return value, found, known
		}
	}
	return r.unset, found, true
}

func read(object map[string]any, path []string) (value string, found, known bool) {
	var v any = object
	for _, step := range path {
		node, ok := v.(map[string]any)
		if !ok {
			return "", false, v == nil
		}
		v = node[step]
	}
	switch v := v.(type) {
	case nil:
		return "", false, true
	case string:
		return v, true, true
	case bool:
		return strconv.FormatBool(v), true, true
	case int64, int32, int:
		return fmt.Sprint(v), true, true
	default: // a list, a map, or a number that is printed in one of several ways
		return "", true, false
	}
}

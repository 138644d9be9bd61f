// Package selectable knows the fields by which API servers select objects, and their values: some are booleans or
// numbers, some have other names than in the object, and some have a value where the object has none.
//
// The table is that of Kubernetes 1.36. A test of package apisim compares it with a real server.
package selectable

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// table has the fields of each built-in kind beside metadata.name and metadata.namespace: resource.group, then fields.
// field=path has another path in the object, field=path|other takes the second where the first is empty, field=- is
// always empty, and field:value has a value where the object has none.
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

// unnamespaced are the kinds of the table that refuse metadata.namespace. All others take it.
const unnamespaced = "nodes namespaces certificatesigningrequests.certificates.k8s.io " +
	"clustertrustbundles.certificates.k8s.io podcertificaterequests.certificates.k8s.io resourceslices.resource.k8s.io "

// groups are those of the server's own kinds.
const groups = " apps autoscaling batch extensions policy admissionregistration.k8s.io apiextensions.k8s.io " +
	"apiregistration.k8s.io authentication.k8s.io authorization.k8s.io certificates.k8s.io coordination.k8s.io " +
	"discovery.k8s.io events.k8s.io flowcontrol.apiserver.k8s.io internal.apiserver.k8s.io networking.k8s.io " +
	"node.k8s.io rbac.authorization.k8s.io resource.k8s.io scheduling.k8s.io storage.k8s.io storagemigration.k8s.io "

// A Rule says where the value of a field is in an object.
type Rule struct {
	paths [][]string
	unset string // the value where the object has none
}

var parsed = sync.OnceValue(func() map[schema.GroupResource]map[string]Rule {
	all := map[schema.GroupResource]map[string]Rule{}
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
			for one := range strings.SplitSeq(path, "|") {
				if one != "-" {
					rule.paths = append(rule.paths, strings.Split(one, "."))
				}
			}
			rules[field] = rule
		}
		all[schema.ParseGroupResource(words[0])] = rules
	}
	return all
})

// Builtin reports whether a group is one of the server's own kinds.
func Builtin(group string) bool { return group == "" || strings.Contains(groups, " "+group+" ") }

// Of returns the rules of a built-in kind, by field: none for a kind that is selected by its metadata only. Shared; do
// not modify them.
func Of(resource schema.GroupResource) map[string]Rule { return parsed()[resource] }

// TakesNamespace reports whether a kind can be selected by metadata.namespace.
func TakesNamespace(resource schema.GroupResource) bool {
	return !slices.Contains(strings.Fields(unnamespaced), resource.String())
}

// RuleFor returns the rule of a field of a kind. known is false if the server has none, as far as this package knows.
// The fields of custom kinds are those of their definition, under the same path.
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

// RuleOfCustom is RuleFor for custom kinds.
func RuleOfCustom(field string) (rule Rule, known bool) {
	if field == "" || strings.ContainsAny(field, `[]()"'\ *`) {
		return Rule{}, false
	}
	return Rule{paths: [][]string{strings.Split(field, ".")}}, true
}

// Value returns the value of the field in an object as JSON decodes it. known is false if it is no single value, and
// found if the object has one.
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

// Package rules collects the RBAC rules that a program needs.
package rules

import (
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/homeostat/homeostat/internal/apisim"
)

// Set holds what a program did: group and resource → verbs.
type Set map[[2]string]map[string]bool

// Add records a call.
func (s Set) Add(c apisim.Call) {
	resource := c.Resource.Resource
	if c.Subresource != "" {
		resource += "/" + c.Subresource
	}
	s.add([2]string{c.Resource.Group, resource}, map[string]bool{c.Verb: true})
}

// AddAll records the calls of another set.
func (s Set) AddAll(other Set) {
	for at, verbs := range other {
		s.add(at, verbs)
	}
}

func (s Set) add(at [2]string, verbs map[string]bool) {
	if s[at] == nil {
		s[at] = map[string]bool{}
	}
	maps.Copy(s[at], verbs)
}

// Rules returns the fewest rules with which the program can do what it did.
func (s Set) Rules() []rbacv1.PolicyRule {
	keys := slices.SortedFunc(maps.Keys(s), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	var all []rbacv1.PolicyRule
	for _, at := range keys {
		all = append(all, rbacv1.PolicyRule{
			APIGroups: []string{at[0]}, Resources: []string{at[1]}, Verbs: slices.Sorted(maps.Keys(s[at])),
		})
	}
	return all
}

// Compare returns what is needed and not granted, and what is granted and not needed, as "verb resource.group".
func Compare(needed, granted []rbacv1.PolicyRule) (missing, unused []string) {
	need, have := permissions(needed), permissions(granted)
	for _, p := range need {
		if !slices.ContainsFunc(have, func(a permission) bool { return a.covers(p) }) {
			missing = append(missing, p.String())
		}
	}
	for _, a := range have {
		if !slices.ContainsFunc(need, a.covers) {
			unused = append(unused, a.String())
		}
	}
	return missing, unused
}

// permission is one verb on one resource.
type permission struct{ verb, group, resource string }

func permissions(rules []rbacv1.PolicyRule) []permission {
	var all []permission
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					all = append(all, permission{verb: verb, group: group, resource: resource})
				}
			}
		}
	}
	return all
}

func (p permission) covers(o permission) bool {
	same := func(have, want string) bool { return have == want || have == rbacv1.VerbAll }
	return same(p.verb, o.verb) && same(p.group, o.group) && same(p.resource, o.resource)
}

func (p permission) String() string {
	text := p.verb + " " + p.resource
	if p.group != "" {
		text += "." + p.group
	}
	return text
}

// Package rules collects the RBAC rules that a program needs, and compares them
// with the rules that it has.
package rules

import (
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/homeostat/homeostat/internal/apisim"
)

// Set maps each permission that the calls of a program need to the objects of
// these calls.
type Set map[permission]*reach

// Add records a call.
func (s Set) Add(c apisim.Call) { s.reachOf(permissionOf(c)).add(c) }

// AddAll records the calls of another set.
func (s Set) AddAll(other Set) {
	for p, reach := range other {
		s.reachOf(p).addAll(reach)
	}
}

func (s Set) reachOf(p permission) *reach {
	if s[p] == nil {
		s[p] = newReach()
	}
	return s[p]
}

func (s Set) contains(matches func(permission) bool) bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(s)), matches)
}

// Rules returns one rule for each resource, with exactly the verbs that the
// program's calls need.
func (s Set) Rules() []rbacv1.PolicyRule {
	verbs := map[[2]string][]string{}
	for p := range s {
		key := [2]string{p.group, p.resource}
		verbs[key] = append(verbs[key], p.verb)
	}
	var rules []rbacv1.PolicyRule
	keys := slices.SortedFunc(maps.Keys(verbs), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	for _, key := range keys {
		slices.Sort(verbs[key])
		rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{key[0]}, Resources: []string{key[1]}, Verbs: verbs[key]})
	}
	return rules
}

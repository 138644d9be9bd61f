// Package rules collects the RBAC rules that a program needs, and holds them
// against those that it has.
package rules

import (
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/homeostat/homeostat/internal/apisim"
)

// Set holds the calls of a program.
type Set map[permission]*reach

// Add records a call.
func (s Set) Add(c apisim.Call) { s.of(permissionOf(c)).add(c) }

// AddAll records the calls of another set.
func (s Set) AddAll(other Set) {
	for p, reach := range other {
		s.of(p).addAll(reach)
	}
}

func (s Set) of(p permission) *reach {
	if s[p] == nil {
		s[p] = newReach()
	}
	return s[p]
}

func (s Set) some(is func(permission) bool) bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(s)), is)
}

// Rules returns the fewest rules that allow all calls of the program.
func (s Set) Rules() []rbacv1.PolicyRule {
	verbs := map[[2]string][]string{}
	for p := range s {
		at := [2]string{p.group, p.resource}
		verbs[at] = append(verbs[at], p.verb)
	}
	var all []rbacv1.PolicyRule
	keys := slices.SortedFunc(maps.Keys(verbs), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	for _, at := range keys {
		slices.Sort(verbs[at])
		all = append(all, rbacv1.PolicyRule{APIGroups: []string{at[0]}, Resources: []string{at[1]}, Verbs: verbs[at]})
	}
	return all
}

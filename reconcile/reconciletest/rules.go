package reconciletest

import (
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/homeostat/homeostat/internal/apisim"
)

// ruleSet collects what a program does: group and resource → verbs.
type ruleSet map[[2]string]map[string]bool

func (s ruleSet) add(c apisim.Call) {
	resource := c.Resource.Resource
	if c.Subresource != "" {
		resource += "/" + c.Subresource
	}
	at := [2]string{c.Resource.Group, resource}
	if s[at] == nil {
		s[at] = map[string]bool{}
	}
	s[at][c.Verb] = true
}

func (s ruleSet) addAll(other ruleSet) {
	for at, verbs := range other {
		if s[at] == nil {
			s[at] = map[string]bool{}
		}
		maps.Copy(s[at], verbs)
	}
}

// rules are the fewest with which the program can do what it did.
func (s ruleSet) rules() []rbacv1.PolicyRule {
	keys := slices.SortedFunc(maps.Keys(s), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	var all []rbacv1.PolicyRule
	for _, at := range keys {
		all = append(all, rbacv1.PolicyRule{
			APIGroups: []string{at[0]}, Resources: []string{at[1]}, Verbs: slices.Sorted(maps.Keys(s[at])),
		})
	}
	return all
}

// Compare holds the rules of a Role or ClusterRole against what the program did: missing are the calls that the
// rules do not allow, unused the verbs that they allow and no run needed, as "verb resource.group".
func (r *Report) Compare(granted []rbacv1.PolicyRule) (missing, unused []string) {
	needed, allowed := permissions(r.Rules), permissions(granted)
	for _, p := range needed {
		if !slices.ContainsFunc(allowed, func(a permission) bool { return a.covers(p) }) {
			missing = append(missing, p.String())
		}
	}
	for _, a := range allowed {
		if !slices.ContainsFunc(needed, func(p permission) bool { return a.covers(p) }) {
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

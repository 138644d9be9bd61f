package resource

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// wanted is a parsed name: NAME, NAME.GROUP or NAME.VERSION.GROUP.
type wanted struct{ name, qualifier string }

func parse(name string) wanted {
	short, qualifier, _ := strings.Cut(strings.ToLower(name), ".")
	return wanted{short, qualifier}
}

// best returns the candidate with the highest rank. candidates are in the order
// of preference. If resources of several groups have that rank, the first
// built-in group wins. If none of the groups is built in, the name is
// ambiguous, and best returns one candidate for each group, in the version that
// comes first in that order.
func (w wanted) best(candidates []candidate) (best []candidate) {
	rank := 0
	for _, c := range candidates {
		switch r := w.rank(c); {
		case r > rank:
			best, rank = []candidate{c}, r
		case r == 0 || r < rank:
		case !slices.ContainsFunc(best, func(b candidate) bool { return b.gvr.Group == c.gvr.Group }):
			best = append(best, c)
		}
	}
	for _, c := range best {
		if isBuiltIn(c.gvr.Group) {
			return []candidate{c}
		}
	}
	return best
}

// open returns the versions in silent that could have a resource of the same
// rank as best, or of a better one. silent contains the versions for which the
// server has not answered. If best is a resource of the core group that was
// found by its plural name alone, without a version or group, open returns
// nothing, because such a resource is preferred to all others.
func (w wanted) open(best []candidate, silent []schema.GroupVersion) (open []string) {
	if w.qualifier == "" && len(best) == 1 && best[0].gvr.Group == "" && w.name == best[0].Name {
		return nil
	}
	for _, gv := range silent {
		group := strings.ToLower(gv.Group)
		version, groupOfVersion, _ := strings.Cut(w.qualifier, ".")
		if w.qualifier == "" || w.qualifier == group || version == gv.Version && groupOfVersion == group {
			open = append(open, gv.String())
		}
	}
	return open
}

// isBuiltIn reports whether a group is part of Kubernetes. The server's order
// is meaningful only for these groups. All other groups have the same priority,
// and the server sorts them by name.
func isBuiltIn(group string) bool { return scheme.Scheme.IsGroupRegistered(group) }

// rank returns how well a candidate fits the wanted name. 0 means that the
// candidate does not fit. A larger rank means a better fit.
func (w wanted) rank(c candidate) int {
	group := strings.ToLower(c.gvr.Group)
	version, groupOfVersion, _ := strings.Cut(w.qualifier, ".") // pods.v1 and pods.v1. name the core group
	if w.qualifier != "" && w.qualifier != group && (version != c.gvr.Version || groupOfVersion != group) {
		return 0
	}
	switch {
	case w.name == c.Name:
		return 4
	case w.name == strings.ToLower(c.SingularName):
		return 3
	case w.name == strings.ToLower(c.Kind):
		return 2
	case slices.Contains(c.ShortNames, w.name):
		return 1
	}
	return 0
}

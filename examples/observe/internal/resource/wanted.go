package resource

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// wanted is a parsed name: NAME alone, NAME.GROUP or NAME.VERSION.GROUP.
type wanted struct{ name, rest string }

func parse(name string) wanted {
	short, rest, _ := strings.Cut(strings.ToLower(name), ".")
	return wanted{short, rest}
}

// best returns the candidate that is meant, of all in the order of preference.
// Several are ambiguous, each the preferred version of another group.
func (w wanted) best(all []candidate) (best []candidate) {
	rank := 0
	for _, c := range all {
		switch r := w.rank(c); {
		case r > rank:
			best, rank = []candidate{c}, r
		case r == 0 || r < rank:
		case !slices.ContainsFunc(best, func(b candidate) bool { return b.gvr.Group == c.gvr.Group }):
			best = append(best, c)
		}
	}
	for _, c := range best {
		if own(c.gvr.Group) {
			return []candidate{c}
		}
	}
	return best
}

// open returns the silent versions that could have a resource which is meant instead of
// best, or besides it. A plural name of the core group is never open: it goes before
// all others.
func (w wanted) open(best []candidate, silent []schema.GroupVersion) (open []string) {
	if w.rest == "" && len(best) == 1 && best[0].gvr.Group == "" && w.name == best[0].Name {
		return nil
	}
	for _, gv := range silent {
		group := strings.ToLower(gv.Group)
		version, groupOfVersion, _ := strings.Cut(w.rest, ".")
		if w.rest == "" || w.rest == group || version == gv.Version && groupOfVersion == group {
			open = append(open, gv.String())
		}
	}
	return open
}

// own reports whether a group is Kubernetes' own. The server's order is meaningful only
// for these: others have one priority, and are sorted by name.
func own(group string) bool { return scheme.Scheme.IsGroupRegistered(group) }

// rank says how well a candidate fits: 0 is not at all.
func (w wanted) rank(c candidate) int {
	group := strings.ToLower(c.gvr.Group)
	version, groupOfVersion, _ := strings.Cut(w.rest, ".") // pods.v1 and pods.v1. are of the core group
	if w.rest != "" && w.rest != group && (version != c.gvr.Version || groupOfVersion != group) {
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

package resource

import (
	"slices"
	"strings"
)

// wanted is what a name may mean: NAME alone, NAME.GROUP or NAME.VERSION.GROUP.
type wanted struct{ name, rest string }

func parse(name string) wanted {
	short, rest, _ := strings.Cut(strings.ToLower(name), ".")
	return wanted{short, rest}
}

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

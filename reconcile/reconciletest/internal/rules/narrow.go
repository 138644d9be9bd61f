package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/homeostat/homeostat/internal/apisim"
)

// reach describes the objects of the calls that need one permission.
type reach struct {
	everywhere bool            // whether a call is for all namespaces, or for the cluster
	namespaces map[string]bool // the namespaces of the calls that are for one namespace
	unnamed    bool            // whether a call does not name an object
}

func (r *reach) add(c apisim.Call) {
	r.everywhere = r.everywhere || c.Namespace == ""
	r.unnamed = r.unnamed || c.Name == ""
	if c.Namespace != "" {
		r.namespaces[c.Namespace] = true
	}
}

func (r *reach) addAll(other *reach) {
	r.everywhere, r.unnamed = r.everywhere || other.everywhere, r.unnamed || other.unnamed
	maps.Copy(r.namespaces, other.namespaces)
}

func newReach() *reach { return &reach{namespaces: map[string]bool{}} }

// Narrower describes the lists and watches that a ClusterRole grants without
// resourceNames although a narrower grant is enough. Roles are enough for a
// resource if all of its lists and watches are in namespaces. If, in addition,
// all of them name an object, the Roles may be limited by resourceNames.
func (g Granted) Narrower(needed Set) []string {
	texts := map[string]bool{}
	for _, r := range g {
		for _, rule := range r.rules {
			for _, have := range permissions(&rule) {
				for p := range needed {
					if r.cluster && len(rule.ResourceNames) == 0 && have.covers(p) {
						texts[needed.narrower(p)] = true
					}
				}
			}
		}
	}
	delete(texts, "")
	return slices.Sorted(maps.Keys(texts))
}

// narrower describes a grant that is enough for the lists and watches of a
// resource. It returns "" if they need a grant for all namespaces, or if wanted
// is neither a list nor a watch.
func (s Set) narrower(wanted permission) string {
	reads := newReach()
	for p, reach := range s {
		if (p.verb == "list" || p.verb == "watch") && p.group == wanted.group && p.resource == wanted.resource {
			reads.addAll(reach)
		}
	}
	if reads.everywhere || len(reads.namespaces) == 0 || wanted.verb != "list" && wanted.verb != "watch" {
		return ""
	}
	wanted.verb = "list and watch"
	text := fmt.Sprintf("to %s, Roles in the namespaces of the calls are enough (here %s)", wanted,
		strings.Join(slices.Sorted(maps.Keys(reads.namespaces)), ", "))
	if !reads.unnamed {
		text += ", and they may be limited by resourceNames to the objects that are read"
	}
	return text
}

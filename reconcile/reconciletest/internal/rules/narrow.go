package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/homeostat/homeostat/internal/apisim"
)

// reach is how far the calls for one permission go.
type reach struct {
	all        bool            // some are for all namespaces, or for the cluster
	namespaces map[string]bool // of the others
	unnamed    bool            // some name no object
}

func (r *reach) add(c apisim.Call) {
	r.all = r.all || c.Namespace == ""
	r.unnamed = r.unnamed || c.Name == ""
	if c.Namespace != "" {
		r.namespaces[c.Namespace] = true
	}
}

func (r *reach) addAll(other *reach) {
	r.all, r.unnamed = r.all || other.all, r.unnamed || other.unnamed
	maps.Copy(r.namespaces, other.namespaces)
}

func newReach() *reach { return &reach{namespaces: map[string]bool{}} }

// Narrower says of which resources the lists and watches that ClusterRoles
// allow could be granted by less: by Roles, if all are in namespaces, and with
// resourceNames, if all name an object.
func (g Granted) Narrower(needed Set) []string {
	all := map[string]bool{}
	for _, r := range g {
		for _, rule := range r.rules {
			for _, have := range permissions(&rule) {
				for p := range needed {
					if r.cluster && len(rule.ResourceNames) == 0 && have.covers(p) {
						all[needed.narrower(p)] = true
					}
				}
			}
		}
	}
	delete(all, "")
	return slices.Sorted(maps.Keys(all))
}

// narrower says what is enough for the lists and watches of a resource; "" if
// nothing less than all namespaces is.
func (s Set) narrower(of permission) string {
	reads := newReach()
	for p, reach := range s {
		if (p.verb == "list" || p.verb == "watch") && p.group == of.group && p.resource == of.resource {
			reads.addAll(reach)
		}
	}
	if reads.all || len(reads.namespaces) == 0 || of.verb != "list" && of.verb != "watch" {
		return ""
	}
	of.verb = "list and watch"
	text := fmt.Sprintf("to %s, Roles are enough, in the namespaces where that is done (here %s)", of,
		strings.Join(slices.Sorted(maps.Keys(reads.namespaces)), ", "))
	if !reads.unnamed {
		text += ", and so are ones with the resourceNames of what is read there"
	}
	return text
}

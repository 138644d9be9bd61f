package status

import (
	"fmt"
	"slices"
	"strings"

	"github.com/homeostat/homeostat/reconcile/inspect"
)

// verdict returns the badge of the page: its class, which is "good", "warn" or
// "bad", and a text such as "ready, but 2 keys fail". A process that is ready
// need not be well: the process stays ready with a problem of one part, and
// with keys that fail. title is the title of the page.
func (r *report) verdict() (class, text, title string) {
	checks, problems, keys := 0, 0, 0
	for _, p := range r.Problems {
		if p.Mild {
			problems++
		} else {
			checks++
		}
	}
	for i := range r.Controllers {
		keys += r.Controllers[i].Failing
	}
	standby := slices.ContainsFunc(r.Controllers, func(c controllerReport) bool { return c.Phase == inspect.Standby })
	var failing []string
	for _, n := range []struct {
		count            int
		singular, plural string
	}{{checks, "check fails", "checks fail"}, {problems, "problem", "problems"}, {keys, "key fails", "keys fail"}} {
		switch {
		case n.count == 1:
			failing = append(failing, "1 "+n.singular)
		case n.count > 1:
			failing = append(failing, fmt.Sprintf("%d %s", n.count, n.plural))
		}
	}
	list := strings.Join(failing, ", ")
	switch {
	case checks > 0:
		return "bad", "not ready: " + list, "Homeostat (not ready)"
	case problems > 0:
		return "bad", "ready, but not well: " + list, "Homeostat (not well)"
	case keys > 0:
		return "warn", "ready, but " + list, "Homeostat (keys fail)"
	case standby:
		return "good", "ready, on standby: no problem is known", "Homeostat"
	}
	return "good", "ready: no problem is known, and no key fails", "Homeostat"
}

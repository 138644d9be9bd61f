package state

import (
	"maps"
	"slices"

	"github.com/homeostat/homeostat/internal/apisim"
)

// Rest has the objects of a server while the program is at rest. Its State is
// computed only when needed: comparing two rests with the same objects, as most
// are, does not need it.
//
// Concurrency: use by one goroutine at a time.
type Rest struct {
	objects []Located
	ignore  *Ignore
	state   State // nil: not made yet
}

// At returns a rest with these objects, in the order of their creation, grouped
// by resource. They must not change afterwards.
func At(objects []Located, ignore *Ignore) *Rest { return &Rest{objects: objects, ignore: ignore} }

// OfServer returns the present state of a simulated server.
func OfServer(sim *apisim.Server, ignore *Ignore) *Rest {
	var all []Located
	for _, r := range sim.Resources() {
		if Ignored(r.GVR().GroupResource()) {
			continue
		}
		for _, o := range sim.ByAge(r.GVR()) {
			all = append(all, Located{Resource: r.GVR().GroupResource().String(), Object: o})
		}
	}
	return At(all, ignore)
}

// State returns all fields of all objects. It is shared; do not modify it.
func (r *Rest) State() State {
	if r.state == nil {
		r.state = Of(slices.Clone(r.objects), r.ignore)
	}
	return r.state
}

// Diff lists how r differs from want, as [State.Diff] does.
func (r *Rest) Diff(want *Rest, masked map[string]bool) []string {
	return linesOf(r.changes(want, masked))
}

func (r *Rest) changes(want *Rest, masked map[string]bool) []change {
	if r.same(want) {
		return nil
	}
	return r.State().changes(want.State(), masked)
}

// same reports whether r certainly has the same State as other: the objects
// differ only in values that no State shows. Identifiers and names count, since
// placeholders depend on them.
func (r *Rest) same(other *Rest) bool {
	return slices.EqualFunc(r.objects, other.objects, func(a, b Located) bool {
		return a.Resource == b.Resource && sameObject(a.Object.Object, b.Object.Object)
	})
}

// unseen fields of the metadata are in no State, and nothing in a State follows
// from them.
var unseen = []string{"resourceVersion", "creationTimestamp", "managedFields", "selfLink", "deletionTimestamp"}

func sameObject(a, b map[string]any) bool {
	if len(a) != len(b) {
		return false
	}
	for field, x := range a {
		y, has := b[field]
		m, isMap := x.(map[string]any)
		n, too := y.(map[string]any)
		if field == "metadata" && isMap && too {
			if !sameMeta(m, n) {
				return false
			}
			continue
		}
		if !has || !sameValue(x, y) {
			return false
		}
	}
	return true
}

func sameMeta(a, b map[string]any) bool {
	differs := func(a, b map[string]any) bool {
		for field, x := range a {
			if y, has := b[field]; !slices.Contains(unseen, field) && (!has || !sameValue(x, y)) {
				return true
			}
		}
		return false
	}
	return !differs(a, b) && !differs(b, a)
}

// sameValue reports whether two values look the same in a State: all times do.
func sameValue(a, b any) bool {
	switch x := a.(type) {
	case map[string]any:
		y, is := b.(map[string]any)
		return is && maps.EqualFunc(x, y, sameValue)
	case []any:
		y, is := b.([]any)
		return is && slices.EqualFunc(x, y, sameValue)
	case string:
		y, is := b.(string)
		return is && (x == y || timestamp.MatchString(x) && timestamp.MatchString(y))
	case nil, bool, int64, float64:
		return a == b
	}
	return false
}

package state

import (
	"maps"
	"slices"

	"github.com/homeostat/homeostat/internal/apisim"
)

// Rest has the objects of a server while the program is at rest. Its State is
// computed only when it is needed. It is usually not needed, because most rests
// that are compared have the same objects.
//
// Concurrency: only one goroutine at a time may use a Rest.
type Rest struct {
	objects []Located
	ignore  *Ignore
	state   State // nil until it is computed
}

// NewRest returns a Rest with the given objects. They must be grouped and
// sorted as for [New], and must not change afterwards.
func NewRest(objects []Located, ignore *Ignore) *Rest { return &Rest{objects: objects, ignore: ignore} }

// OfServer returns a Rest with the present objects of a simulated server. It
// leaves out Events, Leases, and what a mutating webhook has added.
func OfServer(sim *apisim.Server, ignore *Ignore, foreign ForeignFields) *Rest {
	var objects []Located
	for _, r := range sim.Resources() {
		if Ignored(r.GVR().GroupResource()) {
			continue
		}
		for _, o := range sim.ByAge(r.GVR()) {
			resource := r.GVR().GroupResource().String()
			objects = append(objects, Located{Resource: resource, Object: unmutated(foreign[resource], resource, o)})
		}
	}
	return NewRest(objects, ignore)
}

// State returns the state of the objects. It is shared; do not modify it.
func (r *Rest) State() State {
	if r.state == nil {
		r.state = New(slices.Clone(r.objects), r.ignore)
	}
	return r.state
}

// Diff lists how r differs from want, as [State.Diff] does.
func (r *Rest) Diff(want *Rest, masked map[string]bool) []string {
	return linesOf(r.changes(want, masked))
}

func (r *Rest) changes(want *Rest, masked map[string]bool) []change {
	if r.sameObjects(want) {
		return nil
	}
	return r.State().changes(want.State(), masked)
}

// sameObjects reports whether r certainly has the same State as other, because
// the objects differ only in values that no State contains. Identifiers and
// names must be equal, since placeholders depend on them.
func (r *Rest) sameObjects(other *Rest) bool {
	return slices.EqualFunc(r.objects, other.objects, func(a, b Located) bool {
		return a.Resource == b.Resource && sameObject(a.Object.Object, b.Object.Object)
	})
}

// unseen lists the fields of the metadata that do not affect a State.
var unseen = []string{"resourceVersion", "creationTimestamp", "managedFields", "selfLink", "deletionTimestamp"}

func sameObject(a, b map[string]any) bool {
	if len(a) != len(b) {
		return false
	}
	for field, x := range a {
		y, ok := b[field]
		m, isMap := x.(map[string]any)
		n, isMapToo := y.(map[string]any)
		if field == "metadata" && isMap && isMapToo {
			if !sameMeta(m, n) {
				return false
			}
			continue
		}
		if !ok || !sameValue(x, y) {
			return false
		}
	}
	return true
}

func sameMeta(a, b map[string]any) bool {
	differs := func(a, b map[string]any) bool {
		for field, x := range a {
			if y, ok := b[field]; !slices.Contains(unseen, field) && (!ok || !sameValue(x, y)) {
				return true
			}
		}
		return false
	}
	return !differs(a, b) && !differs(b, a)
}

// sameValue reports whether two values have the same form in a State. For
// example, any two times have the same form.
func sameValue(a, b any) bool {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		return ok && maps.EqualFunc(x, y, sameValue)
	case []any:
		y, ok := b.([]any)
		return ok && slices.EqualFunc(x, y, sameValue)
	case string:
		y, ok := b.(string)
		return ok && (x == y || timestamp.MatchString(x) && timestamp.MatchString(y))
	case nil, bool, int64, float64:
		return a == b
	}
	return false
}

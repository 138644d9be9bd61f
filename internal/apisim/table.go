package apisim

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// table holds the objects of one resource and their history.
type table struct {
	res       Resource
	name      string // the name of the resource, by which tables are ordered
	objects   map[types.NamespacedName]*stored
	born      map[types.NamespacedName]int64 // the version that created each object
	sorted    []types.NamespacedName         // nil if the keys must be sorted again
	history   []*entry
	compacted int64 // the resourceVersion below which a watch gets 410
}

func newTable(r Resource) *table {
	return &table{
		res: r, name: r.GVR().String(), objects: map[types.NamespacedName]*stored{},
		born: map[types.NamespacedName]int64{},
	}
}

func (t *table) apply(e *entry, history int) {
	switch {
	case e.new == nil:
		delete(t.objects, e.old.key)
		delete(t.born, e.old.key)
		t.sorted = nil
	case e.old == nil:
		t.sorted = nil
		t.born[e.new.key] = e.version
		fallthrough
	default:
		t.objects[e.new.key] = e.new
	}
	t.history = append(t.history, e)
	if len(t.history) > history+history/4 {
		cut := len(t.history) - history
		t.compacted = t.history[cut-1].version
		t.history = slices.Clone(t.history[cut:])
	}
}

func (t *table) keys() []types.NamespacedName {
	if t.sorted == nil {
		t.sorted = sortedKeys(t.objects)
	}
	return t.sorted
}

func sortedKeys(m map[types.NamespacedName]*stored) []types.NamespacedName {
	return slices.SortedFunc(maps.Keys(m), compareKeys)
}

func compareKeys(a, b types.NamespacedName) int {
	if c := strings.Compare(a.Namespace, b.Namespace); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}

// objectsAt returns the objects at a version, sorted by their keys. It undoes
// the later history in a copy, and does not change t.
func (t *table) objectsAt(version int64) []*stored {
	if len(t.history) == 0 || t.history[len(t.history)-1].version <= version {
		if len(t.objects) == 0 { // most tables are empty
			return nil
		}
		objects := make([]*stored, 0, len(t.objects))
		for _, k := range t.keys() {
			objects = append(objects, t.objects[k])
		}
		return objects
	}
	restored := maps.Clone(t.objects)
	for _, e := range slices.Backward(t.history) {
		if e.version <= version {
			break
		}
		if e.old == nil {
			delete(restored, e.new.key)
		} else {
			restored[e.old.key] = e.old
		}
	}
	objects := make([]*stored, 0, len(restored))
	for _, k := range sortedKeys(restored) {
		objects = append(objects, restored[k])
	}
	return objects
}

// historyAfter returns the history after a version. It returns false if a part
// of that history is compacted.
func (t *table) historyAfter(version int64) ([]*entry, bool) {
	if version < t.compacted {
		return nil, false
	}
	i, _ := slices.BinarySearchFunc(t.history, version+1, func(e *entry, v int64) int { return int(e.version - v) })
	return t.history[i:], true
}

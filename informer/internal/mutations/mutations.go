// Package mutations finds cached objects that were modified in place. It keeps
// a copy of each object and compares the two. This costs memory and time. So an
// informer does it in tests by default, and otherwise not at all.
package mutations

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/informer/internal/tree"
	"github.com/homeostat/homeostat/internal/intern"
)

const (
	mostMutations = 100 // the most mutations in one result of Found
	mostFields    = 10  // the most fields in one Mutation
)

// Object is any API object, as informer.Object is.
type Object interface {
	metav1.Object
	runtime.Object
}

// Mutation is an object that was modified in place.
type Mutation struct {
	Key types.NamespacedName
	// Fields are paths such as "metadata.labels.app", at most ten.
	Fields []string
}

// Detector keeps a copy of each object of a store. The methods of a nil
// Detector have no effect. It is safe for concurrent use.
type Detector[T Object] struct {
	mu     sync.Mutex // guards the fields below
	copies map[*tree.Item[T]]T
	found  []Mutation
}

// New returns a Detector of a store that is empty.
func New[T Object]() *Detector[T] { return &Detector[T]{copies: map[*tree.Item[T]]T{}} }

// Update checks the objects that changes remove from the store, for the last
// time, and copies the objects that they add. Call it before other code can
// read the new objects.
func (d *Detector[T]) Update(changes ...tree.Change[T]) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range changes {
		if c.Old != nil {
			_, _ = d.checkLocked(c.Old) // Found returns the mutation
			delete(d.copies, c.Old)
		}
		if c.New != nil {
			d.copies[c.New] = c.New.Object.DeepCopyObject().(T)
		}
	}
}

// Check returns a Mutation for each of items whose object was modified in place
// since the last check.
func (d *Detector[T]) Check(items ...*tree.Item[T]) (modified []Mutation) {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, item := range items {
		if m, ok := d.checkLocked(item); ok {
			modified = append(modified, m)
		}
	}
	return modified
}

// checkLocked compares an item with its copy. If they differ, it makes a new
// copy, to report each mutation only once. mu must be held.
func (d *Detector[T]) checkLocked(item *tree.Item[T]) (m Mutation, modified bool) {
	copied, ok := d.copies[item]
	if !ok || intern.Alike(copied, item.Object) || equality.Semantic.DeepEqual(copied, item.Object) {
		return m, false // intern.Alike skips the fields of a Quantity that change when it is read
	}
	m = Mutation{item.Key, differences(copied, item.Object)}
	d.copies[item] = item.Object.DeepCopyObject().(T)
	if len(d.found) < mostMutations {
		d.found = append(d.found, m)
	}
	return m, true
}

// Found returns the mutations that were found since its last call, at most
// mostMutations of them.
func (d *Detector[T]) Found() []Mutation {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	found := d.found
	d.found = nil
	return found
}

// differences returns the paths of the first mostFields fields in which two
// objects of one type differ, such as "spec.containers[0].image". It returns
// "unknown fields" if the difference is not in the JSON.
func differences(a, b Object) []string {
	original, _ := runtime.DefaultUnstructuredConverter.ToUnstructured(a)
	modified, _ := runtime.DefaultUnstructuredConverter.ToUnstructured(b)
	paths := compare(nil, "", original, modified)
	if len(paths) == 0 { // the difference is not in the JSON
		return []string{"unknown fields"}
	}
	return paths[:min(len(paths), mostFields)]
}

// compare appends the paths below path in which two decoded JSON values differ.
func compare(paths []string, path string, a, b any) []string {
	oldMembers, newMembers := membersOf(a), membersOf(b)
	if oldMembers == nil || newMembers == nil {
		if !reflect.DeepEqual(a, b) {
			paths = append(paths, path)
		}
		return paths
	}
	names := maps.Clone(oldMembers)
	maps.Copy(names, newMembers)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		paths = compare(paths, strings.TrimPrefix(path+name, "."), oldMembers[name], newMembers[name])
	}
	return paths
}

// membersOf returns the members of a decoded JSON object or array by path
// suffix, such as ".spec" and "[0]". It returns nil for other values.
func membersOf(value any) map[string]any {
	members := map[string]any{}
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			members["."+name] = member
		}
	case []any:
		for n, member := range v {
			members[fmt.Sprintf("[%d]", n)] = member
		}
	default:
		return nil
	}
	return members
}

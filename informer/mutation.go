package informer

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/informer/internal/tree"
	"github.com/homeostat/homeostat/internal/intern"
	"github.com/homeostat/homeostat/internal/simhook"
)

const (
	mostMutations = 100 // reported by one Run
	mostFields    = 10  // named by one MutationError
)

// MutationError reports that a cached object was modified in place. Run and
// [Informer.CheckMutations] may return several, joined: errors.AsType finds the
// first.
type MutationError struct {
	// Kind and Key identify the object. It is not known which code modified it.
	Kind string
	Key  types.NamespacedName
	// Fields are paths such as "metadata.labels.app", at most ten.
	Fields []string
}

// Error names the object and the fields, and what to do instead.
func (e *MutationError) Error() string {
	return fmt.Sprintf("the cached %s %q was modified in place (%s): modify a DeepCopy, or use package patch",
		e.Kind, strings.TrimPrefix(e.Key.String(), "/"), strings.Join(e.Fields, ", "))
}

// Is lets package reconciletest, which does not import this package, find the
// error with errors.Is.
func (e *MutationError) Is(target error) bool { return target == simhook.ErrModified }

// checksMutations reports whether cached objects are checked for modifications.
func (o *Options) checksMutations() bool {
	inTest := flag.Lookup("test.v") != nil // every test binary has it, no other program does
	return o.MutationCheck == checkAlways || o.MutationCheck == checkInTests && inTest
}

// detector keeps a copy of each object of the store. The methods of a nil
// detector have no effect.
type detector[T Object] struct {
	identity *identity

	mu     sync.Mutex // guards the fields below
	copies map[*tree.Item[T]]T
	found  []error
}

// update checks the objects that changes remove from the store, for the last
// time, and copies the objects that they add.
func (d *detector[T]) update(changes ...tree.Change[T]) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range changes {
		if c.Old != nil {
			_ = d.checkLocked(c.Old) // Run returns it
			delete(d.copies, c.Old)
		}
		if c.New != nil {
			d.copies[c.New] = c.New.Object.DeepCopyObject().(T)
		}
	}
}

// check returns one joined [MutationError] per item that was modified in place
// since the last check.
func (d *detector[T]) check(items ...*tree.Item[T]) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for _, it := range items {
		if it != nil {
			errs = append(errs, d.checkLocked(it))
		}
	}
	return errors.Join(errs...)
}

// checkLocked compares an item with its copy. If they differ, it makes a new
// copy, so that each mutation is reported once. mu must be held.
func (d *detector[T]) checkLocked(it *tree.Item[T]) error {
	copied, ok := d.copies[it]
	if !ok || intern.Alike(copied, it.Object) || equality.Semantic.DeepEqual(copied, it.Object) {
		return nil // intern.Alike skips the fields of a Quantity that change when it is read
	}
	err := &MutationError{Kind: d.identity.Kind(), Key: it.Key, Fields: differences(copied, it.Object)}
	d.copies[it] = it.Object.DeepCopyObject().(T)
	if len(d.found) < mostMutations {
		d.found = append(d.found, err)
	}
	return err
}

// finish logs and returns all mutations that were found since it was last
// called.
func (d *detector[T]) finish(ctx context.Context) error {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	errs := d.found
	d.found = nil
	d.mu.Unlock()
	for _, err := range errs {
		klog.FromContext(ctx).Error(err, "cached object was modified in place", "informer", d.identity.Name())
	}
	return errors.Join(errs...)
}

// differences returns the paths of the fields in which two objects of one type
// differ. For example, "spec.containers[0].image".
func differences(a, b Object) []string {
	old, _ := runtime.DefaultUnstructuredConverter.ToUnstructured(a)
	new, _ := runtime.DefaultUnstructuredConverter.ToUnstructured(b)
	paths := compare(nil, "", old, new)
	if len(paths) == 0 { // the difference is not in the JSON
		return []string{"unknown fields"}
	}
	return paths[:min(len(paths), mostFields)]
}

// compare appends the paths below path in which two decoded JSON values differ.
func compare(paths []string, path string, a, b any) []string {
	before, after := membersOf(a), membersOf(b)
	if before == nil || after == nil {
		if !reflect.DeepEqual(a, b) {
			paths = append(paths, path)
		}
		return paths
	}
	names := maps.Clone(before)
	maps.Copy(names, after)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		paths = compare(paths, strings.TrimPrefix(path+name, "."), before[name], after[name])
	}
	return paths
}

// membersOf returns the members of a decoded JSON object or array by path
// suffix, such as ".spec" and "[0]". It returns nil for other values.
func membersOf(value any) map[string]any {
	members := map[string]any{}
	switch of := value.(type) {
	case map[string]any:
		for name, member := range of {
			members["."+name] = member
		}
	case []any:
		for n, member := range of {
			members[fmt.Sprintf("[%d]", n)] = member
		}
	default:
		return nil
	}
	return members
}

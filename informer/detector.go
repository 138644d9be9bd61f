package informer

import (
	"context"
	"errors"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/internal/intern"
)

// checksMutations reports whether to look for cached objects that were modified
// in place.
func (o *Options) checksMutations() bool {
	return o.MutationCheck == checkAlways || o.MutationCheck == checkInTests && inTest()
}

// A detector knows what each object of the store was when it came.
type detector[T Object] struct {
	mu     sync.Mutex // guards what follows
	copies map[*item[T]]T
	found  []error
}

// mostFound bounds how many mutations are remembered.
const mostFound = 100

func (d *detector[T]) remember(it *item[T]) {
	if d == nil || it == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.copies[it] = it.object.DeepCopyObject().(T)
}

// forget looks at what leaves the store for the last time.
func (d *detector[T]) forget(i *Informer[T], it *item[T]) {
	if d == nil || it == nil {
		return
	}
	_ = d.check(i, it) // it is remembered for Run's error
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.copies, it)
}

// note keeps the copies as they must be after changes.
func (d *detector[T]) note(i *Informer[T], changes ...change[T]) {
	if d == nil {
		return
	}
	for _, c := range changes {
		d.forget(i, c.old)
		d.remember(c.it)
	}
}

// check compares it with its copy, and with that begins anew, so that one
// mutation is reported once.
func (d *detector[T]) check(i *Informer[T], it *item[T]) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	before, ok := d.copies[it]
	if !ok || intern.Alike(before, it.object) || equality.Semantic.DeepEqual(before, it.object) {
		return nil // the former does not touch what the readers of a quantity write to
	}
	err := &MutationError{Kind: i.Kind(), Key: it.key, Fields: differences(before, it.object)}
	d.copies[it] = it.object.DeepCopyObject().(T)
	if len(d.found) < mostFound {
		d.found = append(d.found, err)
	}
	return err
}

// CheckMutations compares the objects of keys, or all objects if there are
// none, with what they were when they came from the server. Its error is made
// of a [MutationError] for each object that somebody has edited in place since
// the last check. It is nil if Options.MutationCheck does not say to look.
//
// Controllers call it after each turn, to know whose turn it was. Run returns
// all that has been found, too.
func (i *Informer[T]) CheckMutations(keys ...types.NamespacedName) error {
	if i.detector == nil {
		return nil
	}
	var found []error
	if len(keys) == 0 {
		for _, it := range i.state().root.appendItems(nil) {
			found = append(found, i.detector.check(i, it))
		}
	}
	for _, key := range keys {
		if it := i.newest.get(key); it != nil {
			found = append(found, i.detector.check(i, it))
		}
	}
	return errors.Join(found...)
}

// last logs and returns everything that has been found, and begins anew.
func (d *detector[T]) last(ctx context.Context, i *Informer[T]) error {
	if d == nil {
		return nil
	}
	_ = i.CheckMutations() // adds to what is read here
	d.mu.Lock()
	found := d.found
	d.found = nil
	d.mu.Unlock()
	for _, err := range found {
		klog.FromContext(ctx).Error(err, "a cached object was edited", "informer", i.Name())
	}
	return errors.Join(found...)
}

// clear forgets the copies of all objects.
func (d *detector[T]) clear() {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.copies)
}

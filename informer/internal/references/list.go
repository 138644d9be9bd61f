package references

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/informer/internal/requests"
	"github.com/homeostat/homeostat/informer/internal/versions"
	"github.com/homeostat/homeostat/internal/bound"
)

// ensureWatch makes sure that a reference is watched: by the shared watch of
// its namespace if that is open, and otherwise by its own watch. It also lists
// the object, unless its own watch begins where the last one ended.
func (r *Set) ensureWatch(s *session, f *reference) error {
	if f.isShared() {
		return r.openShared(s, f)
	}
	r.mu.Lock()
	open := f.watch != nil || f.shares || r.join(f)
	resumes, start := f.resumes && f.epoch == r.epoch, f.received
	r.mu.Unlock()
	fake := f.source.IsFake
	if !open && resumes && !fake {
		switch err := r.watch(s, f, start); {
		case err == nil:
			return nil
		case !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err):
			return err
		}
	}
	if !open && fake { // the watches of a fake begin at the state at which they are opened
		if err := r.watch(s, f, ""); err != nil {
			return err
		}
		open = true
	}
	rv, _, err := r.list(s.ctx, s, f)
	if err != nil {
		return err
	}
	if !open {
		return r.watch(s, f, rv)
	}
	r.mu.Lock()
	f.gap = false
	r.mu.Unlock()
	return nil
}

// Confirm reads the object of key from the server, stores it unless a watch has
// delivered a newer state, and returns when the handlers have been called.
// comparable is false for fakes, because their answers prove nothing.
//
// Confirm returns an error if the set does not hold the key (see [Set.Holds])
// or does not run, if the read fails, or if ctx ends.
func (r *Set) Confirm(ctx context.Context, key types.NamespacedName) (comparable bool, err error) {
	r.mu.Lock()
	f, s := r.refs[key], r.session
	r.mu.Unlock()
	switch {
	case f == nil:
		return false, errNotHeld
	case s == nil:
		return false, requests.ErrNotRunning
	case f.wrong != nil:
		return false, f.wrong
	}
	_, delivered, err := r.list(ctx, s, f)
	if err != nil {
		return false, err
	}
	select {
	case <-delivered:
		return !f.source.IsFake, nil
	case <-s.ended:
		return false, requests.ErrNotRunning
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// list asks the server for the newest state of a reference and stores it,
// unless a watch has delivered a newer one. rv is the resourceVersion of the
// list. delivered is closed when the handlers have been called.
func (r *Set) list(
	ctx context.Context, s *session, f *reference,
) (rv string, delivered chan struct{}, err error) {
	r.mu.Lock()
	asked := listing{epoch: r.epoch, breaks: f.breaks, received: f.received}
	if f.shares {
		asked.shared = f.source.shared.received
	}
	r.mu.Unlock()
	found, rv, err := r.find(ctx, f)
	if err != nil {
		return "", nil, err
	}
	r.options.Counters.Lists.Add(1)
	delivered = make(chan struct{})
	restored, err := r.storeList(s, f, found, listed{rv, asked, delivered})
	if restored && asked.shared != "" && err == nil {
		// In the meantime, events of the shared watch may have looked older
		// than the received state.
		return r.list(ctx, s, f)
	}
	return rv, delivered, err
}

// find lists the object of a reference, and returns the server's current object
// and the resourceVersion of the list. The object is nil if it does not exist.
func (r *Set) find(ctx context.Context, f *reference) (found metav1.Object, rv string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, referenceTimeout, requests.ErrNoAnswer)
	defer cancel()
	list := func(o metav1.ListOptions) (runtime.Object, error) { return r.request(ctx, f, o) }
	rv, err = requests.EachObject(f.selecting(metav1.ListOptions{}), list, func(obj runtime.Object) error {
		object, err := f.source.Object(obj)
		// A gateway may have joined pages of different moments.
		newest := found == nil || err == nil && !versions.Older(object.GetResourceVersion(), found.GetResourceVersion())
		if err == nil && bound.KeyOf(object) == f.key && newest {
			found = object
		}
		return err
	})
	return found, rv, err
}

// listing records what was known when a list was requested.
type listing struct {
	epoch, breaks    int
	received, shared string // resourceVersions of the reference and of the watch that it shares
}

// listed is a list of one object.
type listed struct {
	rv    string // the list's resourceVersion
	asked listing
	// delivered is to be closed when the handlers have been called.
	delivered chan struct{}
}

// selecting returns opts with a field selector for the name of the object. For
// the watch of a namespace it returns opts unchanged.
func (f *reference) selecting(opts metav1.ListOptions) metav1.ListOptions {
	if f.isShared() {
		return opts
	}
	opts.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, f.key.Name).String()
	return opts
}

// storeList stores the object that a list has found, and removes the cached one
// if found is nil. A list has no effect if a watch has delivered a newer state,
// unless the server was restored from a backup. restored reports such a
// restore.
func (r *Set) storeList(s *session, f *reference, found metav1.Object, l listed) (restored bool, err error) {
	rv, asked := l.rv, l.asked
	f.storing.Lock()
	defer f.storing.Unlock()
	comparable := !f.source.IsFake
	r.mu.Lock()
	if f.dropped {
		r.mu.Unlock()
		return false, errNotHeld
	}
	isBefore := func(received string) bool { return comparable && rv != "" && versions.Older(rv, received) }
	restored = isBefore(asked.received)
	current := restored || !comparable || !versions.Older(rv, f.received)
	if current {
		f.received = rv
	}
	w := f.watch
	if f.shares && isBefore(asked.shared) {
		r.lose(f.source.shared)
		if w := f.source.shared.watch; w != nil {
			r.end(f.source.shared, w, requests.ErrRestored)
		}
		r.session.wakeUp()
	}
	r.mu.Unlock()
	if restored { // the server may have lost what the cache has, and what a watch would deliver
		r.options.Counters.Restores.Add(1)
		s.log.Info("the server was restored to an earlier state, or is a different server, listing again",
			"seen", asked.received, "resourceVersion", rv, "namespace", f.key.Namespace, "name", f.key.Name)
		r.cache.Forget(f.key)
		if w != nil {
			r.ended(f, w, requests.ErrRestored)
		}
	}
	switch {
	case !current:
	case found == nil:
		r.cache.Forget(f.key)
	default:
		if err := f.source.Put(found); err != nil {
			return restored, err
		}
	}
	r.cache.OnDelivered(func() {
		r.listed(f, rv, asked, restored)
		close(l.delivered)
	})
	return restored, nil
}

// listed records that a list at rv has been delivered.
func (r *Set) listed(f *reference, rv string, asked listing, restored bool) {
	r.mu.Lock()
	known := f.listed && f.epoch == r.epoch
	f.listed, f.epoch, f.sure = true, max(f.epoch, asked.epoch), max(f.sure, asked.breaks)
	complete := f.listed && f.epoch == r.epoch
	r.mu.Unlock()
	r.delivered(f, rv, restored)
	if !known && complete {
		r.Notify(f.key)
	}
}

// delivered records that everything up to rv has been delivered.
func (r *Set) delivered(f *reference, rv string, restored bool) {
	r.mu.Lock()
	if restored || !versions.Older(rv, f.delivered) {
		f.delivered = rv
	}
	if restored || !versions.Older(rv, r.newest) {
		r.newest = rv
	}
	due := f.takeDue(false)
	r.mu.Unlock()
	for _, w := range due {
		w.call()
	}
}

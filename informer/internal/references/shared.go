package references

import (
	"context"
	"errors"
	"iter"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/homeostat/homeostat/informer/internal/requests"
)

// The references of a namespace share one watch if there are many of them. For
// example, 300 Secrets of one namespace are one watch instead of 300.
//
// The shared watch begins at the present state. A reference joins it at the
// moment at which it would open a watch of its own, and its object is then
// listed once more by its name. So the whole namespace is never listed.
// Everything except the watch still belongs to the single reference: its state,
// its errors and the calls that wait for it.
//
// If the shared watch cannot be opened, the objects are watched by their names.
// If the shared watch is no longer needed, watches by name begin at the point
// that it had reached.

// forbiddenPause is the pause after which a watch of a namespace is tried again
// that the server has refused, for example because it is forbidden. A program
// may lack the permission for this watch for long, because it can watch each
// object by its name instead.
const forbiddenPause = 10 * time.Minute

// source is the connection to a namespace, and the watch of the namespace.
type source struct {
	Connection

	// Set.mu guards the fields below.

	used int // number of references that use the source
	// shared is the watch of the namespace, a reference without a name. It is
	// nil while the references are few.
	shared *reference
	told   bool // whether it was logged that watching the namespace failed
}

// sourceOf returns the source of a namespace for one more reference. mu is
// held.
func (r *Set) sourceOf(namespace string) *source {
	s := r.sources[namespace]
	if s == nil {
		s = &source{Connection: r.cache.Connect(namespace)}
		r.sources[namespace] = s
	}
	s.used++
	r.updateShared(s, namespace)
	return s
}

// leaveSource undoes one call of sourceOf. mu is held.
func (r *Set) leaveSource(namespace string) {
	if s := r.sources[namespace]; s != nil {
		s.used--
		r.updateShared(s, namespace)
		if s.used == 0 {
			r.dropShared(s)
			delete(r.sources, namespace)
		}
	}
}

// isShared reports whether f is the watch of a namespace.
func (f *reference) isShared() bool { return f.key.Name == "" }

// isAwaited reports whether references wait for f, because it is not yet known
// whether they can share it. Set.mu is held.
func (f *reference) isAwaited() bool {
	return f != nil && f.holds > 0 && f.watch == nil && f.err == nil
}

// isWatchedBy reports whether w is the watch of the object. Set.mu is held.
func (f *reference) isWatchedBy(w *openWatch) bool {
	return f.watch == w || f.shares && f.source.shared.watch == w
}

// watched yields the shared watches of the namespaces, and after them all
// references. mu is held.
func (r *Set) watched() iter.Seq[*reference] {
	return func(yield func(*reference) bool) {
		for _, s := range r.sources {
			if s.shared != nil && !yield(s.shared) {
				return
			}
		}
		for _, f := range r.refs {
			if !yield(f) {
				return
			}
		}
	}
}

// updateShared starts or stops the shared watch of a namespace after the number
// of references has changed. The watch starts when the number exceeds
// WatchNamespaceAbove, and stops a minute (keepUnheld) after the number has
// fallen to half of it. For example, with a limit of 100, a namespace with 80
// references has a shared watch if it had more than 100 before. mu is held.
func (r *Set) updateShared(s *source, namespace string) {
	limit := r.options.WatchNamespaceAbove
	switch f := s.shared; {
	case s.used > limit && f == nil && s.Err == nil:
		s.shared = &reference{key: types.NamespacedName{Namespace: namespace}, source: s, holds: 1}
	case s.used > limit && f != nil:
		f.holds = 1
	case f != nil && f.holds > 0 && s.used <= limit/2:
		f.holds, f.unheld = 0, time.Now()
		r.session.wakeUp()
	}
}

// dropShared ends the watch that the references of a source share. mu is held.
func (r *Set) dropShared(s *source) {
	f := s.shared
	if f == nil {
		return
	}
	r.part(f, true)
	f.dropped, s.shared = true, nil
	if f.watch != nil {
		f.watch.stop()
		f.watch = nil
	}
}

// part makes the references that share the watch of f stop sharing it. They
// then have no watch. If resumes is true, a reference that has missed no change
// opens its own watch at the point that the shared one had reached. Otherwise
// it is listed first. mu is held.
func (r *Set) part(f *reference, resumes bool) {
	for _, ref := range r.refs {
		if ref.shares && ref.source == f.source {
			ref.resumes = resumes && ref.listed && !ref.gap
			if !resumes {
				ref.breaks++
			}
			ref.shares, ref.gap, ref.retryAt = false, false, time.Time{}
		}
	}
}

// lose records that the next watch of f cannot begin where the last one ended.
// mu is held.
func (r *Set) lose(f *reference) {
	f.resumes = false
	f.breaks++
	if f.isShared() {
		r.part(f, false)
	}
}

// join lets f share the watch of its namespace if that watch is open, and
// reports whether it is. mu is held.
func (r *Set) join(f *reference) bool {
	if shared := f.source.shared; shared == nil || shared.watch == nil {
		return false
	}
	f.shares, f.gap, f.resumes = true, true, false
	return true
}

// openShared opens the watch of a namespace: where the last one ended if that
// is possible, and otherwise at the present state.
func (r *Set) openShared(s *session, f *reference) error {
	if f.source.IsFake {
		return r.watch(s, f, "")
	}
	r.mu.Lock()
	resumes, start := f.resumes, f.received
	r.mu.Unlock()
	if resumes {
		if err := r.watch(s, f, start); !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
			return err
		}
		r.mu.Lock()
		r.lose(f)
		r.mu.Unlock()
	}
	list, err := r.request(s.ctx, f, metav1.ListOptions{Limit: 1}) // for its resourceVersion
	if err != nil {
		return err
	}
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return err
	}
	r.mu.Lock()
	f.received = accessor.GetResourceVersion()
	r.mu.Unlock()
	return r.watch(s, f, accessor.GetResourceVersion())
}

// request asks the server for a list. It fails with ErrNoAnswer if there is no
// answer in time.
func (r *Set) request(ctx context.Context, f *reference, o metav1.ListOptions) (runtime.Object, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, referenceTimeout, requests.ErrNoAnswer)
	defer cancel()
	list, err := f.source.List(ctx, o)
	if err != nil && errors.Is(context.Cause(ctx), requests.ErrNoAnswer) {
		err = requests.ErrNoAnswer
	}
	return list, err
}

// openedShared records how an attempt to open the watch of a namespace has
// ended. mu is held.
func (r *Set) openedShared(s *session, f *reference) {
	if !f.refused {
		f.source.told = f.source.told && f.err != nil
		return
	}
	f.retryAt = time.Now().Add(wait.Jitter(forbiddenPause, 0.1))
	if !f.source.told {
		f.source.told = true
		s.log.Info("watching the namespace failed, watching each referenced object by its name instead",
			"namespace", f.key.Namespace, "references", f.source.used, "error", f.err.Error())
	}
}

// target returns the reference to which an event of the watch of f belongs. It
// returns nil if nothing refers to the object of the event, or if its reference
// does not share f.
func (r *Set) target(f *reference, key types.NamespacedName) *reference {
	if key == f.key || !f.isShared() {
		if key != f.key {
			return nil // fakes do not know field selectors
		}
		return f
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if ref := r.refs[key]; ref != nil && ref.shares {
		return ref
	}
	return nil
}

// advanceShared records that the watch w of the namespace has reached rv. After
// a bookmark, the references that share the watch have also reached rv, except
// for references with a gap.
func (r *Set) advanceShared(f *reference, w *openWatch, rv string, bookmark bool) {
	r.mu.Lock()
	if f.watch != w {
		r.mu.Unlock()
		return
	}
	f.received = rv
	var sharing []*reference
	for _, ref := range r.refs {
		if bookmark && ref.shares && ref.source == f.source && !ref.gap {
			sharing = append(sharing, ref)
		}
	}
	r.mu.Unlock()
	for _, ref := range sharing {
		r.advance(ref, w, rv)
	}
}

// leaveShared records an error of one object as the error of its reference. The
// reference then leaves the shared watch. So the error does not affect the
// others.
func (r *Set) leaveShared(f *reference, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f.shares, f.gap, f.resumes = false, false, false
	r.failed(f, err)
	r.session.wakeUp()
}

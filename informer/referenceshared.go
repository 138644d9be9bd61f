package informer

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
)

// A namespace with many references has one watch that they share. It begins at
// the state of now, and each reference joins it when it would open a watch of
// its own: it is then listed once more by its name. So no list of the whole
// namespace is read, and nothing else changes for a reference: its state, its
// errors and what waits for it stay its own. If the shared watch cannot be
// opened, the references are watched by their names. When it is no longer
// needed, they go on by name where they are.

// askAgain is when a watch of a namespace is tried again that is not allowed.
// It may stay so for ever: a Role for names is enough.
const askAgain = 10 * time.Minute

// isShared reports whether f is the watch of a namespace.
func (f *reference[T]) isShared() bool { return f.key.Name == "" }

// isAwaited reports whether references wait until it is known whether they can
// share f. References.mu is held.
func (f *reference[T]) isAwaited() bool {
	return f != nil && f.holds > 0 && f.watch == nil && f.err == nil
}

// isWatchedBy reports whether w is the watch of the object. References.mu is held.
func (f *reference[T]) isWatchedBy(w *referenceWatch) bool {
	return f.watch == w || f.shares && f.through.shared.watch == w
}

// watched returns all references, and before them the watches that they share.
// mu is held.
func (r *References[T]) watched() iter.Seq[*reference[T]] {
	return func(yield func(*reference[T]) bool) {
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

// countUsers begins or ends the need for a shared watch after a change of the
// number of references. Between the half of the limit and the limit, all stays
// as it is. mu is held.
func (r *References[T]) countUsers(s *referenceSource[T], namespace string) {
	limit := r.in.options.WatchNamespaceAbove
	switch f := s.shared; {
	case s.used > limit && f == nil && s.source.err == nil:
		s.shared = &reference[T]{key: types.NamespacedName{Namespace: namespace}, through: s, holds: 1}
	case s.used > limit && f != nil:
		f.holds = 1
	case f != nil && f.holds > 0 && s.used <= limit/2:
		f.holds, f.unheld = 0, time.Now()
		r.session.wakeUp()
	}
}

// dropShared ends the watch that the references of a source share. mu is held.
func (r *References[T]) dropShared(s *referenceSource[T]) {
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

// part leaves those that share f without a watch. If nothing is missing of one
// and resumes is true, its own watch begins where the shared one was. mu is
// held.
func (r *References[T]) part(f *reference[T], resumes bool) {
	for _, of := range r.refs {
		if of.shares && of.through == f.through {
			of.resumes = resumes && of.listed && !of.gap
			if !resumes {
				of.breaks++
			}
			of.shares, of.gap, of.again = false, false, time.Time{}
		}
	}
}

// lose notes that the watch of f does not go on where it ended. mu is held.
func (r *References[T]) lose(f *reference[T]) {
	f.resumes = false
	f.breaks++
	if f.isShared() {
		r.part(f, false)
	}
}

// join lets f share the watch of its namespace, if that is open. mu is held.
func (r *References[T]) join(f *reference[T]) bool {
	if shared := f.through.shared; shared == nil || shared.watch == nil {
		return false
	}
	f.shares, f.gap, f.resumes = true, true, false
	return true
}

// bringShared opens a watch of a namespace, at the state of now unless it can
// be resumed.
func (r *References[T]) bringShared(s *referenceSession[T], f *reference[T]) error {
	if f.through.source.fake {
		return r.watch(s, f, "")
	}
	r.mu.Lock()
	resumes, from := f.resumes, f.received
	r.mu.Unlock()
	if resumes {
		if err := r.watch(s, f, from); !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
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
	of, err := meta.ListAccessor(list)
	if err != nil {
		return err
	}
	r.mu.Lock()
	f.received = of.GetResourceVersion()
	r.mu.Unlock()
	return r.watch(s, f, of.GetResourceVersion())
}

// request asks the server for a list.
func (r *References[T]) request(ctx context.Context, f *reference[T], o metav1.ListOptions) (runtime.Object, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, referenceTimeout, errNoAnswer)
	defer cancel()
	list, err := f.through.source.list(ctx, o)
	if err != nil && errors.Is(context.Cause(ctx), errNoAnswer) {
		err = errNoAnswer
	}
	return list, err
}

// openedShared notes how an attempt to open the watch of a namespace has ended.
// mu is held.
func (r *References[T]) openedShared(f *reference[T]) {
	if !f.refused {
		f.through.told = f.through.told && f.err != nil
		return
	}
	f.again = time.Now().Add(wait.Jitter(askAgain, 0.1))
	if !f.through.told {
		f.through.told = true
		r.in.feed.log().Info("the namespace cannot be watched, watching each object that others refer to by its name",
			"namespace", f.key.Namespace, "references", f.through.used, "error", f.err.Error())
	}
}

// target returns the reference to which an event of the watch w of f belongs;
// nil if it is not referred to, or does not share f.
func (r *References[T]) target(f *reference[T], key types.NamespacedName) *reference[T] {
	if key == f.key || !f.isShared() {
		if key != f.key {
			return nil // fakes do not know field selectors
		}
		return f
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if of := r.refs[key]; of != nil && of.shares {
		return of
	}
	return nil
}

// advanceShared notes that the watch w of the namespace has come to rv.
// bookmark says that nothing has happened until then to any of those of which
// nothing is missing.
func (r *References[T]) advanceShared(f *reference[T], w *referenceWatch, rv string, bookmark bool) {
	r.mu.Lock()
	if f.watch != w {
		r.mu.Unlock()
		return
	}
	f.received = rv
	var sharing []*reference[T]
	for _, of := range r.refs {
		if bookmark && of.shares && of.through == f.through && !of.gap {
			sharing = append(sharing, of)
		}
	}
	r.mu.Unlock()
	for _, of := range sharing {
		r.advance(of, w, rv)
	}
}

// leaveShared makes an error that one object causes the error of this object.
func (r *References[T]) leaveShared(f *reference[T], err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f.shares, f.gap, f.resumes = false, false, false
	r.failed(f, err)
	r.session.wakeUp()
}

package references

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/homeostat/homeostat/informer/internal/requests"
	"github.com/homeostat/homeostat/informer/internal/versions"
	"github.com/homeostat/homeostat/internal/absent"
	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/internal/rvorder"
)

// watch opens a watch of a reference at rv.
func (r *Set) watch(s *session, f *reference, rv string) error {
	lasts := wait.Jitter(shortestWatch, 1)
	seconds := int64(lasts.Seconds())
	opts := f.selecting(metav1.ListOptions{ResourceVersion: rv, TimeoutSeconds: &seconds, AllowWatchBookmarks: true})
	opened, err := requests.OpenInTime(s.ctx, func(ctx context.Context) (watch.Interface, error) {
		return f.source.Watch(ctx, opts)
	}, nil)
	if err != nil {
		return err
	}
	w := &openWatch{Interface: opened, opened: time.Now(), closing: &s.closing}
	w.markActive()
	if !f.source.IsFake {
		w.deadline = w.opened.Add(lasts + requests.EndGrace)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if f.dropped || s.ctx.Err() != nil {
		s.closing.Go(opened.Stop)
		return errNotHeld
	}
	r.options.Counters.Watches.Add(1)
	f.watch, f.resumes, f.shares, f.gap = w, false, false, f.source.IsFake
	w.stopReading = s.readers.Read(opened.ResultChan(), func(event watch.Event, open bool) {
		r.receive(f, w, event, open)
	})
	return nil
}

// receive handles an event of a watch, or the end of the watch.
func (r *Set) receive(f *reference, w *openWatch, event watch.Event, open bool) {
	w.markActive()
	switch {
	case !open:
		r.ended(f, w, nil)
	case event.Type == watch.Error:
		r.ended(f, w, apierrors.FromObject(event.Object))
	case event.Type == watch.Bookmark:
		w.bookmarks.Store(true)
		if object, err := meta.Accessor(event.Object); err != nil {
			return
		} else if rv := object.GetResourceVersion(); f.isShared() {
			r.advanceShared(f, w, rv, true)
		} else {
			r.advance(f, w, rv)
		}
	default:
		if err := r.takeEvent(f, w, event); err != nil {
			r.ended(f, w, err)
		}
	}
}

// takeEvent stores an event of a watch, for the reference to which it belongs.
func (r *Set) takeEvent(f *reference, w *openWatch, event watch.Event) error {
	object, err := f.source.Object(event.Object)
	if err != nil {
		return err
	}
	rv := object.GetResourceVersion()
	if target := r.target(f, bound.KeyOf(object)); target != nil {
		err = r.store(target, w, event.Type, object)
		if err != nil && target != f {
			r.leaveShared(target, err)
			err = nil
		}
	}
	if f.isShared() {
		r.advanceShared(f, w, rv, false)
	}
	return err
}

// store stores an event of the watch w. It ignores the event if w no longer
// watches the object, or if the event is not newer than the state that was
// received.
func (r *Set) store(f *reference, w *openWatch, kind watch.EventType, object metav1.Object) error {
	f.storing.Lock()
	defer f.storing.Unlock()
	var err error
	rv := object.GetResourceVersion()
	r.mu.Lock()
	current := !f.dropped && f.isWatchedBy(w) && (f.source.IsFake || !isPast(kind, rv, f.received))
	r.mu.Unlock()
	if !current {
		return nil
	}
	if kind == watch.Deleted {
		err = f.source.Remove(object)
	} else {
		err = f.source.Put(object)
	}
	if err != nil {
		return err
	}
	r.advance(f, w, rv)
	return nil
}

// isPast reports whether an event at rv is not newer than the state that has
// been received. A deletion at the same resourceVersion is newer.
func isPast(kind watch.EventType, rv, received string) bool {
	return rvorder.Older(rv, received) || rv == received && rvorder.Comparable(rv) && kind != watch.Deleted
}

// advance records that a watch has reached rv.
func (r *Set) advance(f *reference, w *openWatch, rv string) {
	r.mu.Lock()
	current := f.isWatchedBy(w) && !versions.Older(rv, f.received)
	if current {
		f.received = rv
	}
	r.mu.Unlock()
	if current {
		r.cache.OnDelivered(func() { r.delivered(f, rv, false) })
	}
}

// ended records the end of a watch. err is nil if its channel was closed.
func (r *Set) ended(f *reference, w *openWatch, err error) {
	r.mu.Lock()
	r.end(f, w, err)
	r.session.wakeUp()
	r.mu.Unlock()
}

// end is like ended, for a caller that holds mu. The next watch begins where
// this one ended if the server ended it at its timeout. After any other end the
// object is listed, because the server may have been restored from a backup: a
// watch that begins where this one ended would then begin at a state that the
// server has lost.
func (r *Set) end(f *reference, w *openWatch, err error) {
	w.stop()
	if f.watch != w {
		return
	}
	f.watch = nil
	now := time.Now()
	if now.Sub(w.opened) >= requests.Steady {
		f.failures = 0
	}
	switch {
	case err == nil && !w.deadline.IsZero() && !now.Before(w.deadline.Add(-requests.EndGrace-requests.TimelyEnd)):
		f.resumes, f.retryAt = true, now
	case now.Sub(w.opened) >= requests.Steady || absent.IsExpired(err):
		r.lose(f)
		f.retryAt = now.Add(wait.Jitter(r.options.BackoffBase/2, 1))
	default:
		if err == nil {
			err = errWatchEnd
		}
		r.lose(f)
		r.failed(f, err)
	}
}

// drop removes an object that is no longer held. If the object is held again by
// now, drop keeps it.
func (r *Set) drop(f *reference) {
	f.storing.Lock()
	defer f.storing.Unlock()
	r.mu.Lock()
	f.dropping = false
	if f.dropped || f.holds > 0 { // it is held again
		r.session.wakeUp()
		r.mu.Unlock()
		return
	}
	f.dropped = true
	if f.watch != nil {
		f.watch.stop()
		f.watch = nil
	}
	due := f.takeDue(true)
	r.mu.Unlock()
	r.cache.Forget(f.key)
	r.mu.Lock()
	delete(r.refs, f.key)
	r.leaveSource(f.key.Namespace)
	if f.holds > 0 { // it is held again
		renewed := r.newReference(f.key)
		renewed.holds = f.holds
		r.refs[f.key] = renewed
		r.session.wakeUp()
	}
	r.mu.Unlock()
	for _, w := range due {
		w.call()
	}
}

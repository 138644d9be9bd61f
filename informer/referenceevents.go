package informer

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/homeostat/homeostat/informer/internal/versions"
	"github.com/homeostat/homeostat/internal/absent"
	"github.com/homeostat/homeostat/internal/bound"
)

// watch opens a watch at rv.
func (r *References[T]) watch(s *referenceSession[T], f *reference[T], rv string) error {
	lasts := wait.Jitter(shortestWatch, 1)
	seconds := int64(lasts.Seconds())
	opts := f.selecting(metav1.ListOptions{ResourceVersion: rv, TimeoutSeconds: &seconds, AllowWatchBookmarks: true})
	opened, err := openInTime(s.ctx, func(ctx context.Context) (watch.Interface, error) {
		return f.through.source.watch(ctx, opts)
	})
	if err != nil {
		return err
	}
	w := &referenceWatch{Interface: opened, opened: time.Now(), closing: &s.closing}
	w.markActive()
	if !f.through.source.fake {
		w.deadline = w.opened.Add(lasts + endGrace)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if f.dropped || s.ctx.Err() != nil {
		s.closing.Go(opened.Stop)
		return errNotHeld
	}
	r.in.counted.watches.Add(1)
	f.watch, f.resumes, f.shares, f.gap = w, false, false, f.through.source.fake
	w.stopReading = s.readers.Read(opened.ResultChan(), func(event watch.Event, open bool) {
		r.receive(f, w, event, open)
	})
	return nil
}

// receive takes an event of a watch, or its end.
func (r *References[T]) receive(f *reference[T], w *referenceWatch, event watch.Event, open bool) {
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

// takeEvent stores an event of a watch.
func (r *References[T]) takeEvent(f *reference[T], w *referenceWatch, event watch.Event) error {
	object, ok := event.Object.(T)
	if !ok {
		return wrongType[T](event.Object)
	}
	rv := object.GetResourceVersion()
	var err error
	if of := r.target(f, bound.KeyOf(object)); of != nil {
		err = r.store(of, w, event.Type, object)
		if err != nil && of != f {
			r.leaveShared(of, err)
			err = nil
		}
	}
	if f.isShared() {
		r.advanceShared(f, w, rv, false)
	}
	return err
}

// store stores an event of a watch, unless a list has brought a newer state.
func (r *References[T]) store(f *reference[T], w *referenceWatch, of watch.EventType, object T) error {
	f.storing.Lock()
	defer f.storing.Unlock()
	rv := object.GetResourceVersion()
	r.mu.Lock()
	current := !f.dropped && f.isWatchedBy(w) && (f.through.source.fake || !isPast(of, rv, f.received))
	r.mu.Unlock()
	if !current {
		return nil
	}
	if of == watch.Deleted {
		last, _, err := f.through.typed(object)
		if err != nil {
			return err
		}
		r.in.store.remove(last)
	} else {
		it, err := f.through.prepare(object)
		if err != nil {
			return err
		}
		r.in.store.put(it)
	}
	r.advance(f, w, rv)
	return nil
}

// isPast reports whether an event at rv was before what has been received.
func isPast(of watch.EventType, rv, received string) bool {
	order, err := resourceversion.CompareResourceVersion(rv, received)
	return err == nil && (order < 0 || order == 0 && of != watch.Deleted)
}

// advance notes that a watch has come to rv.
func (r *References[T]) advance(f *reference[T], w *referenceWatch, rv string) {
	r.mu.Lock()
	current := f.isWatchedBy(w) && !versions.Older(rv, f.received)
	if current {
		f.received = rv
	}
	r.mu.Unlock()
	if current {
		r.in.store.delivery.after(func() { r.delivered(f, rv, false) })
	}
}

// ended notes the end of a watch: err is nil if its channel was closed.
func (r *References[T]) ended(f *reference[T], w *referenceWatch, err error) {
	r.mu.Lock()
	r.end(f, w, err)
	r.session.wakeUp()
	r.mu.Unlock()
}

// end is ended for a caller that holds mu. A watch that has come to its end in
// time is resumed. After any other end the object is listed: a server that was
// restored would resume at a state that it has lost.
func (r *References[T]) end(f *reference[T], w *referenceWatch, err error) {
	w.stop()
	if f.watch != w {
		return
	}
	f.watch = nil
	now := time.Now()
	if now.Sub(w.opened) >= steady {
		f.failures = 0
	}
	switch {
	case err == nil && !w.deadline.IsZero() && !now.Before(w.deadline.Add(-endGrace-timelyEnd)):
		f.resumes, f.again = true, now
	case now.Sub(w.opened) >= steady || absent.IsExpired(err):
		r.lose(f)
		f.again = now.Add(wait.Jitter(r.in.options.BackoffBase/2, 1))
	default:
		if err == nil {
			err = errWatchEnd
		}
		r.lose(f)
		r.failed(f, err)
	}
}

// drop forgets an object that is no longer held.
func (r *References[T]) drop(f *reference[T]) {
	f.storing.Lock()
	defer f.storing.Unlock()
	r.mu.Lock()
	f.dropping = false
	if f.dropped || f.holds > 0 { // again, meanwhile
		r.session.wakeUp()
		r.mu.Unlock()
		return
	}
	f.dropped = true
	if f.watch != nil {
		f.watch.stop()
		f.watch = nil
	}
	due := f.due(true)
	r.mu.Unlock()
	r.in.store.forget(f.key)
	r.mu.Lock()
	delete(r.refs, f.key)
	r.leaveSource(f.key.Namespace)
	if f.holds > 0 { // again, meanwhile
		again := r.newReference(f.key)
		again.holds = f.holds
		r.refs[f.key] = again
		r.session.wakeUp()
	}
	r.mu.Unlock()
	for _, w := range due {
		w.call()
	}
}

package reconcile

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/internal/ownwrites"
	"github.com/homeostat/homeostat/internal/rvorder"
	"github.com/homeostat/homeostat/queue"
)

// hold holds item's key until the caches have seen writes, and reports whether
// the key has to wait. Call it before the item ends, because after that the key
// may be dispatched.
func (f *freshness) hold(item queue.Item[Key], writes []write) bool {
	if len(writes) == 0 {
		return false
	}
	w := &heldKey{key: item.Key(), pending: 1} // 1 for this function, so that the key is not released before it ends
	f.mu.Lock()
	if f.held == nil {
		f.held = map[Key]*heldKey{}
	}
	f.held[w.key] = w
	f.mu.Unlock()
	for i := range writes {
		f.await(w, writes, i)
	}
	item.Hold(f.deadline)
	return !f.donePending(w)
}

// await makes w wait until the caches show writes[i]. If that write has not
// been answered yet, await decides what to wait for when the answer arrives.
func (f *freshness) await(w *heldKey, writes []write, i int) {
	written := writes[i]
	if written.whenAnswered == nil {
		f.expect(w, &written, writes[:i])
		f.dropBaselines(written.baselines)
		return
	}
	release := f.addPending(w)
	written.whenAnswered(func(answered write) {
		f.expect(w, &answered, writes[:i])
		f.dropBaselines(answered.baselines)
		release()
	})
}

// expect makes w wait for each cache that must show the write in written.
// earlier contains the writes of the same reconcile before that one.
//
//	outcome    the cache has seen the write when it
//	─────────  ────────────────────────────────────────────────────────────────
//	Written    has reached the answer's resourceVersion and shows the object,
//	           if that is in scope before or after the write
//	Removed    has removed the object with that UID
//	Accepted   has removed the object, or shows it as being deleted
//	Uncertain  is as new as the server was when the answer arrived, or was lost
func (f *freshness) expect(w *heldKey, written *write, earlier []write) {
	for i, s := range f.sources {
		if written.outcome == ownwrites.Refused || !s.matches(written) {
			continue
		}
		ref := objectRef{i, written.key()}
		switch written.outcome {
		case ownwrites.Written:
			f.expectVersion(w, ref, written, earlier)
		case ownwrites.Removed, ownwrites.Accepted:
			f.expectRemoval(w, ref, written)
		default:
			f.askAbout(w, ref)
		}
	}
}

// expectVersion makes w wait until the cache has reached the resourceVersion of
// the answer to a write, and shows the object. If the resourceVersion cannot be
// compared, w waits for an event of the object. If the object is out of scope
// before and after the write, w waits for nothing.
func (f *freshness) expectVersion(w *heldKey, ref objectRef, written *write, earlier []write) {
	s := f.sources[ref.source]
	if !f.wasShown(ref, written, earlier) {
		switch covered, known := s.covers(written); {
		case !known:
			f.askAbout(w, ref)
			return
		case !covered:
			return
		}
	}
	version := written.object.GetResourceVersion()
	if !rvorder.Comparable(version, s.LastResourceVersion()) {
		f.expectContent(w, ref, written.object)
		return
	}
	release, baselines := f.addPending(w), []*baseline{f.takeBaseline(ref)}
	f.onEnd(w, func() { f.dropBaselines(baselines) })
	f.onEnd(w, onSeen(s, ref.key, version, func() {
		if !f.shows(ref, written, baselines) {
			f.expectShown(w, ref, written)
		}
		release()
	}))
}

// shows reports whether a cache that has reached the resourceVersion of an
// answer shows that write, or has removed the object since baselines were
// taken. It also reports true if the object is now out of the cache's scope. If
// shows returns false, the object may have been deleted before, or the cache
// has reached that resourceVersion in a history that the server lost when its
// storage was restored.
func (f *freshness) shows(ref objectRef, written *write, baselines []*baseline) bool {
	s, uid, version := f.sources[ref.source], written.object.GetUID(), written.object.GetResourceVersion()
	for _, n := range written.baselines {
		if n.source == ref.source && n.uid == uid && rvorder.Older(version, n.rv) {
			return false // a later write has an older resourceVersion: the server was restored
		}
	}
	cached := s.cached(ref.key)
	if cached != nil && cached.GetUID() == uid {
		return !rvorder.Older(cached.GetResourceVersion(), version)
	}
	if f.removedSince(baselines, ref.source, uid) || f.removedSince(written.baselines, ref.source, uid) ||
		!s.matches(written) {
		return true
	}
	covered, known := s.covers(written)
	return known && !covered
}

// expectShown makes w wait until the cache is known to be as new as the server,
// or has delivered an event that shows the write or removes the object.
func (f *freshness) expectShown(w *heldKey, ref objectRef, written *write) {
	s, uid, version := f.sources[ref.source], written.object.GetUID(), written.object.GetResourceVersion()
	endWait := f.expectEvent(w, ref, func(oldObject, newObject metav1.Object) bool {
		if newObject == nil {
			return oldObject.GetUID() == uid
		}
		return newObject.GetUID() == uid && !rvorder.Older(newObject.GetResourceVersion(), version)
	})
	f.query(w, func(ctx context.Context) error { return s.WaitForObject(ctx, ref.key) }, endWait)
}

// wasShown reports whether the cache had the object before the write, or will
// have it because of an earlier write of the same reconcile.
func (f *freshness) wasShown(ref objectRef, written *write, earlier []write) bool {
	uid := written.object.GetUID()
	if cached := f.sources[ref.source].cached(ref.key); cached != nil && cached.GetUID() == uid {
		return true
	}
	for _, n := range written.baselines {
		if n.source == ref.source && n.uid == uid && uid != "" {
			return true
		}
	}
	for i := range earlier {
		if previous := &earlier[i]; previous.key() == ref.key && previous.object.GetUID() == uid {
			return true
		}
	}
	return false
}

// expectContent makes w wait for the event of an object whose resourceVersion
// cannot be compared, unless the cache has that object already.
func (f *freshness) expectContent(w *heldKey, ref objectRef, object metav1.Object) {
	endWait := f.expectEvent(w, ref, func(_, newObject metav1.Object) bool {
		return newObject == nil || newObject.GetUID() == object.GetUID()
	})
	cached := f.sources[ref.source].cached(ref.key)
	if cached == nil || cached.GetUID() != object.GetUID() ||
		cached.GetResourceVersion() != object.GetResourceVersion() {
		return
	}
	if object.GetResourceVersion() != "" {
		endWait()
	} else if len(changes(cached, object)) == 0 {
		endWait()
	}
}

// expectRemoval makes w wait until the cache has removed an object or, if that
// is enough, shows it as being deleted.
func (f *freshness) expectRemoval(w *heldKey, ref objectRef, written *write) {
	s, uid := f.sources[ref.source], written.object.GetUID()
	knownUID := types.UID("")
	for _, n := range written.baselines {
		if n.source == ref.source {
			knownUID = n.uid
		}
	}
	if written.resource.Resource != "" && uid == "" {
		if uid = knownUID; uid == "" {
			f.askAbout(w, ref)
			return
		}
	}
	marked := func(o metav1.Object) bool {
		return written.outcome == ownwrites.Accepted && o.GetUID() == uid && o.GetDeletionTimestamp() != nil
	}
	endWait := f.expectEvent(w, ref, func(oldObject, newObject metav1.Object) bool {
		return newObject == nil && oldObject.GetUID() == uid || newObject != nil && marked(newObject)
	})
	switch cached := s.cached(ref.key); {
	case cached != nil && cached.GetUID() == uid:
		if marked(cached) {
			endWait()
		}
	case f.removedSince(written.baselines, ref.source, uid), knownUID == uid && written.resource.Resource != "":
		endWait()
	default:
		f.expectUnseen(w, ref, written, endWait)
	}
}

// expectUnseen makes w wait for the removal of an object that the cache does
// not have. For example, the cache may not have seen the object yet, may have
// removed it already, or may not have it in scope. expectUnseen calls endWait
// when the cache cannot show the object any more. endWait ends the wait.
func (f *freshness) expectUnseen(w *heldKey, ref objectRef, written *write, endWait func()) {
	s := f.sources[ref.source]
	covered, known := s.covers(written)
	version := written.object.GetResourceVersion()
	switch {
	case known && !covered:
		endWait()
	case rvorder.Comparable(version, s.LastResourceVersion()):
		f.onEnd(w, onSeen(s, ref.key, version, func() {
			if cached := s.cached(ref.key); cached == nil || cached.GetUID() != written.object.GetUID() {
				endWait()
			}
		}))
	case written.resource.Resource == "":
		endWait() // fakes have no usable resourceVersion, but their watch is never late
	case !known:
		endWait()
		f.askAbout(w, ref)
	}
}

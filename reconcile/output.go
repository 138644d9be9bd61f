package reconcile

import (
	"maps"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// output is the record of one object that the controller writes. The
// loopDetector's mu guards it.
type output struct {
	uid       types.UID
	ownWrites [4]ownWrite // the last writes
	writes    int         // the number of writes without a calmPeriod in between
	lastWrite time.Time   // when the object was last written
	writers   map[Key]*writer
	newest    metav1.Object // the object after the last write whose request is unknown, to compare the next one

	repeats    int           // writes since the last reset that asked for the same as the previous write of their key
	selfCaused int           // number of reconciles that only writes of their key have caused, and that wrote new values
	stalledAt  time.Time     // when a write last made no progress
	stalledIn  uint64        // the number of the reconcile that last made a write without progress
	slowed     time.Duration // the delay of the reaction; 0 without a loop
	slowedAt   time.Time     // when the delay of the reaction starts
	whole      bool          // whether the object is created or deleted again and again
	text       string        // describes the loop
}

// ownWrite is one write of the controller. It is used to recognise the write's
// event.
type ownWrite struct {
	key     Key
	version string    // the resourceVersion of the object in the answer, or empty
	deleted types.UID // the UID of the object, if the write was a deletion
}

// writer is the record of a key that writes an output.
type writer struct {
	asked         asked  // for each field, the value that was last asked for
	lastReconcile uint64 // the number of the reconcile that wrote last
	stalled       bool   // whether a write of the key made no progress
}

// record adds a write of key. It returns false if the write had no effect.
func (o *output) record(key Key, w *write, now time.Time) bool {
	version, uid := w.object.GetResourceVersion(), w.object.GetUID()
	if w.cached != nil && w.cached.GetUID() != uid && uid != "" {
		w.cached = nil // it is another object
	}
	if !w.deleted && (w.cached != nil && w.cached.GetResourceVersion() == version || o.wroteVersion(version)) {
		return false
	}
	o.expire(now)
	if uid != "" && o.uid != "" && uid != o.uid {
		o.recreated()
	}
	if uid != "" {
		o.uid = uid
	}
	written := ownWrite{key: key, version: version}
	if w.deleted {
		written.deleted = o.uid
	}
	copy(o.ownWrites[1:], o.ownWrites[:])
	o.ownWrites[0] = written
	o.writes++
	o.lastWrite = now
	return true
}

// wroteVersion reports whether one of the last writes has led to this
// resourceVersion.
func (o *output) wroteVersion(version string) bool {
	for i := range o.ownWrites {
		if o.ownWrites[i].version == version && version != "" {
			return true
		}
	}
	return false
}

// isEcho reports whether one of the last writes of key has caused the event.
func (o *output) isEcho(key Key, e *change) bool {
	for i := range o.ownWrites {
		w := &o.ownWrites[i]
		if w.key == key && (!e.deleted && e.version != "" && w.version == e.version ||
			e.deleted && w.deleted != "" && w.deleted == e.uid) {
			return true
		}
	}
	return false
}

// recreated forgets which fields were asked for, because they belong to the old
// object. It ends the hot loop, unless the loop creates or deletes the object
// again and again.
func (o *output) recreated() {
	for _, w := range o.writers {
		maps.DeleteFunc(w.asked, func(path string, _ uint64) bool { return path != wholeObject })
	}
	if !o.whole {
		o.reset()
	}
}

// expire clears the record if the object has not been written for long enough,
// and ends the loop if its time is over.
func (o *output) expire(now time.Time) {
	switch {
	case now.After(o.forgettable()):
		o.writes, o.writers, o.newest = 0, nil, nil
		o.reset()
	case !o.stalledAt.IsZero() && now.After(o.end()):
		o.reset()
	}
}

// end returns when the loop ends, unless another write without progress
// prolongs it.
func (o *output) end() time.Time { return o.stalledAt.Add(o.slowed + calmPeriod) }

// forgettable returns when the record may be deleted, because the next write
// would not count as a repetition any more.
func (o *output) forgettable() time.Time {
	if last := o.lastWrite.Add(calmPeriod); last.After(o.end()) {
		return last
	}
	return o.end()
}

// reset ends the hot loop about the object.
func (o *output) reset() {
	o.repeats, o.selfCaused, o.slowed, o.whole, o.text = 0, 0, 0, false, ""
	o.stalledAt, o.slowedAt = time.Time{}, time.Time{}
	for _, w := range o.writers {
		w.stalled = false
	}
}

// slows reports whether, at the time now, a change of this object leads only to
// a delayed reconcile of key.
func (o *output) slows(key Key, now time.Time) bool {
	if o.slowed == 0 || now.After(o.end()) {
		return false
	}
	w := o.writers[key]
	return w != nil && w.stalled
}

// due returns when key may react to changes of the object. If several keys are
// in the loop, they react one after the other, beginning with the one that has
// waited longest. Each waits twice as long after the previous one as that one
// did, but at most longestDelay.
func (o *output) due(key Key) time.Time {
	due, delay, own := o.slowedAt.Add(o.slowed), o.slowed, o.writers[key]
	for _, w := range o.writers {
		if w.stalled && w != own && w.lastReconcile < own.lastReconcile {
			delay = min(2*delay, longestDelay)
			due = due.Add(delay)
		}
	}
	return due
}

// writerOf returns the record of a key, and makes one if necessary.
func (o *output) writerOf(key Key) *writer {
	w := o.writers[key]
	if w == nil {
		if o.writers == nil {
			o.writers = map[Key]*writer{}
		}
		w = &writer{asked: asked{}}
		o.writers[key] = w
	}
	return w
}

// note records what a write asks for. repeats reports whether each field was
// asked for with the same value before, and rewrites whether any field was
// asked for before.
func (w *writer) note(asks asked) (repeats, rewrites bool) {
	repeats = true
	for path, value := range asks {
		previous, ok := w.asked[path]
		repeats = repeats && ok && previous == value
		rewrites = rewrites || ok
	}
	for path, value := range asks {
		if _, ok := w.asked[path]; !ok {
			maps.DeleteFunc(w.asked, func(known string, _ uint64) bool { return overlap(path, known) })
			if len(w.asked) > 4*maxFields {
				clear(w.asked)
			}
		}
		w.asked[path] = value
	}
	return repeats, rewrites
}

// overlap reports whether one of two fields contains the other.
func overlap(a, b string) bool {
	return a != wholeObject && b != wholeObject && (strings.HasPrefix(a, b+".") || strings.HasPrefix(b, a+"."))
}

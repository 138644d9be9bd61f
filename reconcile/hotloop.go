package reconcile

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/internal/ownwrites"
	"github.com/homeostat/homeostat/queue"
)

// The thresholds of a hot loop.
const (
	// patience is the number of writes without progress at which the reaction
	// is delayed. The first two writes of an object do not count, because they
	// are only recorded. If the writes ask for new values, one more of them is
	// allowed.
	patience = 3
	// calmPeriod is the time without writes after which an object is forgotten.
	// An edit by another client after that time counts as isolated, and is
	// repaired at once. Time in which the reaction was delayed does not count.
	calmPeriod = 10 * time.Second
	// shortestDelay is the first delay of the reaction, and longestDelay the
	// largest one. The delay doubles each time.
	shortestDelay = 4 * time.Second
	longestDelay  = time.Minute
	// maxTracked bounds the number of objects with a record.
	maxTracked = 10_000
)

// loopDetector detects hot loops, and delays the reaction to changes of the
// objects in them. Two kinds of writes make no progress:
//
//   - A write that asks for the same as the previous write of its key, because
//     another client, or another key, has undone that write.
//   - A write that asks for a new value, although its key has only seen events
//     of its own writes since the last one.
//
// All other causes, such as an input, another output or a timer, start a
// reconcile at once. It then writes once more if the object still differs.
type loopDetector struct {
	manager string
	sources sources
	queue   *queue.Queue[Key]

	mu      sync.Mutex // guards the fields below
	outputs map[objectRef]*output
	looping map[Key][]*output // the hot loops that a key is part of
	running map[Key]*arrivals // the keys that are being reconciled
	swept   time.Time         // when sweep was last called
	ended   uint64            // the number of the last reconcile that observe has judged
}

// hotLoop is a hot loop about one object.
type hotLoop struct {
	object     metav1.Object
	paths      []string
	rival      string // the other field manager, if there is one
	repeats    int    // number of writes that made no progress, without a calmPeriod in between
	delay      time.Duration
	selfCaused bool // whether only writes of the key have caused the repetition
	deletes    bool
}

// String returns a text that names the object, the fields and the other field
// manager. The text contains no values of fields.
func (l hotLoop) String() string {
	action := fmt.Sprintf("fields %q were written", l.paths)
	if len(l.paths) == 1 {
		action = fmt.Sprintf("field %q was written", l.paths[0])
	}
	switch {
	case l.deletes:
		action = "it was deleted"
	case slices.Equal(l.paths, []string{wholeObject}):
		action = "it was created"
	}
	text := fmt.Sprintf("%s/%s: %s %d times in a row", l.object.GetNamespace(), l.object.GetName(), action, l.repeats+1)
	if l.selfCaused {
		text += ", each time only because of the write before"
	}
	if l.rival != "" {
		text += fmt.Sprintf("; field manager %q writes them too", l.rival)
	}
	return text
}

// delayOf returns how long the reaction is delayed after a number of writes
// that made no progress.
func delayOf(repeats int) time.Duration {
	const maxDoublings = 10
	if repeats < patience {
		return 0
	}
	return min(shortestDelay<<min(repeats-patience, maxDoublings), longestDelay)
}

// loopReport describes the hot loops to which the writes of a reconcile belong.
type loopReport struct {
	worst hotLoop // the loop with the longest delay among the objects written
	// loops describes the loop of the key that ends last, and has the number of
	// its other loops. It is empty if the key is in no loop. endsAt is when
	// that loop ends, unless there is another write.
	loops  string
	endsAt time.Time
}

// observe records the writes of a reconcile, and enqueues its key for the
// events that have arrived since the reconcile began. The item must not have
// ended.
func (d *loopDetector) observe(item queue.Item[Key], writes []write) (seen loopReport) {
	key := item.Key()
	d.mu.Lock()
	arrived := d.end(key)
	if len(writes) == 0 && len(arrived) == 0 && len(d.looping) == 0 { // the usual case
		d.mu.Unlock()
		return loopReport{}
	}
	own, now := len(writes) > 0 && item.Own(), time.Now()
	d.ended++
	for i := range writes {
		w := &writes[i]
		o := d.outputOf(w, now)
		if o == nil {
			continue
		}
		if l := d.judge(o, key, w, own, now); cmp.Compare(l.repeats, seen.worst.repeats) > 0 {
			seen.worst = l
		}
	}
	seen.loops, seen.endsAt = d.loopsOf(key, now)
	additions := make([]queue.AddOptions, len(arrived))
	for i := range arrived {
		additions[i] = arrived[i].addition
		d.judgeEvent(key, &arrived[i].change, &additions[i], now)
	}
	d.mu.Unlock()
	for _, a := range additions {
		d.queue.AddWithOptions(key, a)
	}
	return seen
}

// judge adds w to the record of its object. It returns the loop that w is part
// of, or the zero value. own reports whether writes of the key were the only
// cause of the reconcile.
func (d *loopDetector) judge(o *output, key Key, w *write, own bool, now time.Time) hotLoop {
	if !o.record(key, w, now) {
		return hotLoop{}
	}
	if o.writes < 2 {
		return hotLoop{}
	}
	newest := o.newest
	if w.content.Method == "" && !w.deleted {
		o.newest = w.object
	}
	asks := w.asks(newest)
	if len(asks) == 0 {
		return hotLoop{} // it asks for no change that another client could undo
	}
	author := o.writerOf(key)
	repeats, rewrites := author.note(asks)
	author.lastReconcile = d.ended
	switch {
	case repeats:
		o.repeats++
	case own && rewrites:
		if o.stalledIn != d.ended { // a reconcile counts once
			o.selfCaused++
		}
	default:
		if !own {
			o.selfCaused = 0
		}
		o.slowedAt = o.stalledAt
		return hotLoop{}
	}
	author.stalled, o.stalledAt, o.stalledIn, o.slowedAt, o.whole = true, now, d.ended, now, asks.isWhole()
	l := hotLoop{
		object: w.object, paths: asks.paths(), deletes: w.deleted,
		repeats: max(o.repeats, o.selfCaused-1), selfCaused: !repeats,
	}
	if l.delay = delayOf(l.repeats); l.delay > 0 {
		l.rival = rivalOf(w.cached, d.manager, l.paths)
		o.slowed, o.text = l.delay, l.String()
		d.enlist(o)
	}
	return l
}

// enlist records the loop for each key that is part of it.
func (d *loopDetector) enlist(o *output) {
	for key, w := range o.writers {
		if w.stalled && !slices.Contains(d.looping[key], o) {
			d.looping[key] = append(d.looping[key], o)
		}
	}
}

// loopsOf describes the hot loop of key that ends last, with the number of its
// other loops, and returns when that loop ends.
func (d *loopDetector) loopsOf(key Key, now time.Time) (text string, endsAt time.Time) {
	active := slices.DeleteFunc(d.looping[key], func(o *output) bool { return !o.slows(key, now) })
	if len(active) == 0 {
		delete(d.looping, key)
		return "", endsAt
	}
	d.looping[key] = active
	for _, o := range active {
		if end := o.end(); end.After(endsAt) {
			text, endsAt = o.text, end
		}
	}
	if len(active) > 1 {
		text += fmt.Sprintf(" (and %d more)", len(active)-1)
	}
	return "hot loop: " + text, endsAt
}

// outputOf returns the record of the object that w has changed. It returns nil
// if w is not known to have changed an object whose events lead to reconciles,
// or if there are too many records.
func (d *loopDetector) outputOf(w *write, now time.Time) *output {
	key := w.key()
	unidentified := w.object.GetUID() == "" && (!w.deleted || w.resource.Resource == "")
	if w.outcome == ownwrites.Refused || w.outcome == ownwrites.Uncertain ||
		w.whenAnswered != nil || key.Name == "" || unidentified {
		return nil
	}
	var found *output
	for i, s := range d.sources {
		ref := objectRef{i, key}
		switch o := d.outputs[ref]; {
		case o != nil:
			return o
		case !s.matches(w):
		case found != nil:
			d.outputs[ref] = found // a second informer has the same kind
		default:
			if found = d.newOutput(now); found == nil {
				return nil
			}
			d.outputs[ref] = found
		}
	}
	return found
}

// newOutput returns a new record of an object, or nil if there are too many
// records.
func (d *loopDetector) newOutput(now time.Time) *output {
	if len(d.outputs) >= maxTracked && now.Sub(d.swept) > time.Second {
		d.swept = now
		d.sweep(now)
	}
	switch {
	case d.outputs == nil:
		d.outputs, d.looping = map[objectRef]*output{}, map[Key][]*output{}
	case len(d.outputs) >= maxTracked:
		return nil
	}
	return &output{}
}

// sweep deletes records of objects that are no longer written, and loops that
// have ended.
func (d *loopDetector) sweep(now time.Time) {
	for ref, o := range d.outputs {
		if now.After(o.forgettable()) {
			delete(d.outputs, ref)
		}
	}
	for key := range d.looping {
		d.loopsOf(key, now)
	}
}

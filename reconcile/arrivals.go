package reconcile

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/queue"
)

// change describes an event of an object, with the fields that show whether the
// controller's own write caused the event.
type change struct {
	objectRef
	uid     types.UID
	version string // the resourceVersion after the event
	deleted bool
	// earlier are the events of the object that the event also stands for.
	// unknown is true if there were more of them.
	earlier []change
	unknown bool
}

// maxEarlier is how many earlier events a change names. A reconcile seldom
// writes one object more often.
const maxEarlier = 3

// after returns c as an event that also stands for an earlier one.
func (c change) after(first change) change {
	before := first.earlier
	first.earlier = nil
	all := slices.Concat(before, []change{first}, c.earlier)
	c.unknown = c.unknown || first.unknown || len(all) > maxEarlier
	c.earlier = all[max(0, len(all)-maxEarlier):]
	return c
}

func changeOf[O informer.Object](source int, e informer.Event[O]) change {
	object := objectOf(e)
	return change{
		objectRef: objectRef{source, bound.KeyOf(object)},
		uid:       object.GetUID(), version: object.GetResourceVersion(), deleted: e.Type == informer.Deleted,
	}
}

// arrivals are the events that require another reconcile of a key while it is
// being reconciled. They are added to the queue when the reconcile ends. Only
// then is it known which of them the reconcile's own writes have caused,
// because the watch may be faster than the answer to a write.
type arrivals struct{ list []arrival }

// arrival is an event, and the addition to the queue to which it leads.
type arrival struct {
	change
	addition queue.AddOptions
}

// maxArrivals bounds the events that wait for the end of one reconcile.
const maxArrivals = 10_000

// begin records that key is being reconciled, until end is called.
func (d *loopDetector) begin(key Key, a *arrivals) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.running == nil {
		d.running = map[Key]*arrivals{}
	}
	d.running[key] = a
}

// end returns the events that have arrived for key since begin. d.mu must be
// held.
func (d *loopDetector) end(key Key) []arrival {
	a := d.running[key]
	delete(d.running, key)
	if a == nil {
		return nil
	}
	return a.list
}

// add adds key to the queue because of an event. It does so at once or, if the
// key is being reconciled, at the end of the reconcile. If maxArrivals events
// already wait for that end, it does so at once, too. If the key is in a hot
// loop about the object of the event, it is dispatched after the loop's delay.
func (d *loopDetector) add(key Key, e *change, addition queue.AddOptions) {
	d.mu.Lock()
	if a := d.running[key]; a != nil && len(a.list) < maxArrivals {
		a.list = append(a.list, arrival{*e, addition})
		d.mu.Unlock()
		return
	}
	if len(d.outputs) > 0 {
		d.judgeEvent(key, e, &addition, time.Now())
	}
	d.mu.Unlock()
	d.queue.AddWithOptions(key, addition)
}

// judgeEvent sets addition.Own if writes of key have caused the event, and all
// events that it also stands for. It sets addition.After if the key is in a hot
// loop about the object of the event.
func (d *loopDetector) judgeEvent(key Key, e *change, addition *queue.AddOptions, now time.Time) {
	o := d.outputs[e.objectRef]
	if o == nil {
		return
	}
	addition.Own = !e.unknown && o.isEcho(key, e) &&
		!slices.ContainsFunc(e.earlier, func(e change) bool { return !o.isEcho(key, &e) })
	if !o.slows(key, now) || !o.whole && e.uid != o.uid {
		return
	}
	addition.After = max(o.due(key).Sub(now), 0)
}

// sending restarts the delay of a hot loop when a write to its object is about
// to be sent. Otherwise a key would react too early if the event of the write
// arrived before the answer.
func (d *loopDetector) sending(baselines []*baseline) {
	if len(baselines) == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, n := range baselines {
		if o := d.outputs[n.objectRef]; o != nil && o.slowed > 0 {
			o.slowedAt = time.Now()
		}
	}
}

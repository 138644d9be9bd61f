package reconcile

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/queue"
)

// change is an event of an object, as far as its own cause can be found with it.
type change struct {
	objectRef
	uid     types.UID
	version string // the new one
	deleted bool
	merged  bool // it stands for several events, of which only the last is known
}

func changeOf[O informer.Object](source int, e informer.Event[O]) change {
	object := objectOf(e)
	return change{
		objectRef: objectRef{source, bound.KeyOf(object)},
		uid:       object.GetUID(), version: object.GetResourceVersion(), deleted: e.Type == informer.Deleted,
	}
}

// arrivals are the events that lead to a key while that is being reconciled. They are
// added to the queue at its end, when it is known which of them its own writes have
// caused: the watch may be faster than the answer.
type arrivals struct{ list []arrival }

type arrival struct {
	change
	addition queue.AddOptions
}

// maxArrivals bounds the events that wait for the end of one reconcile.
const maxArrivals = 10_000

// begin notes that key is being reconciled, until end.
func (d *loopDetector) begin(key Key, a *arrivals) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.running == nil {
		d.running = map[Key]*arrivals{}
	}
	d.running[key] = a
}

// end returns what has arrived for key since begin. d.mu is held.
func (d *loopDetector) end(key Key) []arrival {
	a := d.running[key]
	delete(d.running, key)
	if a == nil {
		return nil
	}
	return a.list
}

// add adds key to the queue because of an event: now, at the end of its reconcile, or
// when the delay of a hot loop about the object has passed.
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

// judgeEvent finds out whether an event is that of a write of key, and delays the
// reaction of a key that is in a hot loop about the object.
func (d *loopDetector) judgeEvent(key Key, e *change, addition *queue.AddOptions, now time.Time) {
	o := d.outputs[e.objectRef]
	if o == nil {
		return
	}
	addition.Own = !e.merged && o.isEcho(key, e)
	if !o.slows(key, now) || !o.whole && e.uid != o.uid {
		return
	}
	addition.After = max(o.due(key).Sub(now), 0)
}

// sending notes that a write to an object is about to be sent: the delay begins again,
// for keys that hear of the write before it is answered.
func (d *loopDetector) sending(baselines []*baseline) {
	if len(baselines) == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, n := range baselines {
		if o := d.outputs[n.objectRef]; o != nil && o.slowed > 0 {
			o.since = time.Now()
		}
	}
}

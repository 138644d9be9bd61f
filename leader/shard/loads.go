package shard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/internal/slots"
	"github.com/homeostat/homeostat/leader/internal/record"
)

// load is what a slot costs its owner, as that has published it.
type load struct {
	objects int64 // that are cached
	busy    int64 // microseconds of each second that its reconciles take; those that run at once add up
	known   bool  // some owner has published it
}

// loadBits bounds the numbers of a load, so that no sum of them overflows or loses digits.
const loadBits = 40

const (
	// idle is a twentieth of each second. While the reconciles of a replica take less, mostly the objects count: so
	// little time is not worth a move, and is measured badly.
	idle = 50_000
	// few objects are added to the recorded ones of each range where loads are estimated by them: of a cluster that was
	// nearly empty then, they say little.
	few = 10
)

// formatLoads returns what is written to the API server: the mark of the ranges that the loads are about, and a list of
// slot:objects:busy.
func (d *division) formatLoads(of map[int]load) string {
	var b strings.Builder
	b.WriteString(d.mark)
	for _, slot := range slices.Sorted(maps.Keys(of)) {
		fmt.Fprintf(&b, " %d:%d:%d", slot, of[slot].objects, of[slot].busy)
	}
	return b.String()
}

// parseLoads reads what formatLoads has written. It returns nil if that is about other ranges, or if another client has
// edited it: then no load is known.
func (d *division) parseLoads(text string) map[int]load {
	mark, list, _ := strings.Cut(text, " ")
	if mark != d.mark {
		return nil
	}
	of := map[int]load{}
	for field := range strings.FieldsSeq(list) {
		slot, numbers, _ := strings.Cut(field, ":")
		objects, busy, _ := strings.Cut(numbers, ":")
		n, err := strconv.ParseUint(slot, 10, 16)
		o, err2 := strconv.ParseUint(objects, 10, loadBits)
		b, err3 := strconv.ParseUint(busy, 10, loadBits)
		if errors.Join(err, err2, err3) != nil || n >= uint64(len(d.bounds)) || of[int(n)].known {
			return nil
		}
		of[int(n)] = load{int64(o), int64(b), true}
	}
	return of
}

// weigh returns the weight of each slot, by what is known of its load: the mean of its part of all objects and of its
// part of all time in reconciles. To that time idle is added for each member, divided as the objects are.
//
// A slot whose load is not known counts as though it had changed as the others have on average since the ranges were
// chosen. If none is known, the weights are those of then.
func (d *division) weigh(of []load, members int) []float64 {
	var objects, busy, recorded float64 // of the slots whose load is known
	for slot, l := range of {
		if l.known {
			objects, busy, recorded = objects+float64(l.objects), busy+float64(l.busy), recorded+d.weights[slot]+few
		}
	}
	if recorded == 0 {
		return d.weights
	}
	all := make([]struct{ objects, busy float64 }, len(d.weights))
	var allObjects, allBusy float64
	for slot := range all {
		then := (d.weights[slot] + few) / recorded
		all[slot].objects, all[slot].busy = then*objects, then*busy
		if of[slot].known {
			all[slot].objects, all[slot].busy = float64(of[slot].objects), float64(of[slot].busy)
		}
		allObjects += all[slot].objects
		allBusy += all[slot].busy
	}
	weights := make([]float64, len(all))
	little := idle * float64(max(1, members))
	for slot, l := range all {
		part := l.objects / max(allObjects, 1)
		weights[slot] = part/2 + (l.busy+little*part)/(allBusy+little)/2
	}
	return weights
}

// knownLoads is what the records say about loads, as this replica last saw them.
type knownLoads struct {
	members map[string]publishedLoads // by identity
	slots   []publishedLoads
	of      []load // of each slot, by both
	old     bool   // a member of an older build plans by the recorded weights
}

// publishedLoads are the loads in a record.
type publishedLoads struct {
	text    string
	of      map[int]load
	renewed *metav1.MicroTime // the renewTime of the record
}

// read returns the loads in a record as its owner has renewed it: what other clients edit meanwhile does not count.
func (p publishedLoads) read(d *division, lease *coordinationv1.Lease) publishedLoads {
	if lease == nil {
		return publishedLoads{}
	}
	if p.renewed != nil && p.renewed.Equal(lease.Spec.RenewTime) {
		return p
	}
	p.renewed = lease.Spec.RenewTime
	if text := lease.Annotations[record.LoadAnnotation]; text != p.text {
		p.text, p.of = text, d.parseLoads(text)
	}
	return p
}

// learn notes the loads in the records of a view, and reports whether one has changed. That of a slot is the one that
// its owner has published, or else that in its own record, which says what was known when the owner changed.
func (r *Ranges) learn(v *view) (changed bool) {
	d, k := r.divided(), &r.loads
	before, old := k.members, false
	k.members = make(map[string]publishedLoads, len(v.members))
	for name, o := range v.members {
		identity := strings.TrimPrefix(name, record.MemberPrefix(r.records.name))
		k.members[identity] = before[identity].read(d, o.Lease)
		old = old || record.Holder(o.Lease) != unowned && k.members[identity].text == ""
	}
	changed, k.old = old != k.old, old
	if k.slots == nil {
		k.slots, k.of = make([]publishedLoads, len(v.slots)), make([]load, len(v.slots))
	}
	for slot, o := range v.slots {
		k.slots[slot] = k.slots[slot].read(d, o.Lease)
		l, ok := k.members[identityOf(record.Holder(o.Lease))].of[slot]
		if !ok {
			l = k.slots[slot].of[slot]
		}
		changed = changed || l != k.of[slot]
		k.of[slot] = l
	}
	return changed
}

// weights returns the weights of the slots among so many members: the recorded ones while one of an older build is
// there, or slots would go to and fro between it and the others. The caller holds the mutex of Shards.
func (r *Ranges) weights(members int) []float64 {
	if r.loads.old {
		return r.divided().weights
	}
	return r.divided().weigh(r.loads.of, members)
}

// keepLoad writes the load of a slot into its record, which is about to get another owner. The caller holds the mutex
// of Shards.
func (r *Ranges) keepLoad(slot int, lease *coordinationv1.Lease) {
	if r.loads.of == nil || !r.loads.of[slot].known {
		return
	}
	lease.Annotations = maps.Clone(lease.Annotations)
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	lease.Annotations[record.LoadAnnotation] = r.divided().formatLoads(map[int]load{slot: r.loads.of[slot]})
}

// How loads are measured.
const (
	measureEvery = time.Minute
	// arriving is how long the reconciles of a slot that has come do not count: all its keys are reconciled then.
	arriving = 5 * time.Minute
	// smoothing is how many samples there must be before a load is published, and by which part of the difference each
	// later one changes it.
	smoothing = 5
	// noticed is the part of all objects, or of all time, of the replica's slots by which they must differ from what is
	// published before that changes: noise must not move slots.
	noticed = 0.1
)

// Measure publishes what the slots of this replica cost, as work says it, until ctx ends. It sends no request: what it
// publishes is written when the membership is renewed. All replicas measure at the same time: when there is more to do
// for all, none seems heavier than the others.
func (r *Ranges) Measure(ctx context.Context, work func() []slots.Work) {
	meters := map[int]*meter{}
	for {
		now := r.now()
		r.sleep(ctx, now.Truncate(measureEvery).Add(measureEvery).Sub(now))
		if ctx.Err() != nil {
			return
		}
		r.publish(measure(meters, work(), r.now()))
	}
}

// meter measures the load of a slot.
type meter struct {
	since   time.Time // when the slot came
	at      time.Time // of the last sample
	busy    time.Duration
	samples int
	rate    float64 // time in reconciles of each second
}

// measure takes a sample of each slot, and returns the loads of those that have been measured for long enough.
func measure(meters map[int]*meter, work []slots.Work, now time.Time) map[int]load {
	measured, here := map[int]load{}, map[int]bool{}
	for _, w := range work {
		here[w.Slot] = true
		m := meters[w.Slot]
		if m == nil || !m.since.Equal(w.Since) {
			m = &meter{since: w.Since}
			meters[w.Slot] = m
		}
		m.sample(now, w.Busy)
		if m.samples >= smoothing {
			measured[w.Slot] = load{bounded(float64(w.Objects)), bounded(m.rate * 1e6), true}
		}
	}
	maps.DeleteFunc(meters, func(slot int, _ *meter) bool { return !here[slot] })
	return measured
}

// sample notes how much time the reconciles of the slot have taken until now.
func (m *meter) sample(now time.Time, busy time.Duration) {
	passed, took := now.Sub(m.at), busy-m.busy
	counts := !m.at.IsZero() && passed > 0
	m.at, m.busy = now, busy
	if now.Sub(m.since) < arriving || !counts {
		return
	}
	m.samples++
	m.rate += (took.Seconds()/passed.Seconds() - m.rate) / float64(min(m.samples, smoothing))
}

// bounded returns a number of a load.
func bounded(n float64) int64 { return int64(math.Round(max(0, min(n, 1<<loadBits-1)))) }

// publish has loads written into the record of this member, if they differ noticeably from those that are there.
func (r *Ranges) publish(measured map[int]load) {
	r.Shards.mu.Lock()
	defer r.Shards.mu.Unlock()
	maps.DeleteFunc(r.published, func(slot int, _ load) bool { // a slot that drains is still this member's
		return !r.member.Was(record.Holder(r.view.slots[slot].Lease))
	})
	if differ(r.published, measured) {
		maps.Copy(r.published, measured)
	}
	r.member.Publish(r.divided().formatLoads(r.published))
}

// differ reports whether measured loads differ noticeably from the published ones.
func differ(published, measured map[int]load) bool {
	var objects, busy, moreObjects, moreBusy float64
	for slot, m := range measured {
		p := published[slot]
		if !p.known {
			return true
		}
		objects, busy = objects+float64(m.objects), busy+float64(m.busy)
		moreObjects += math.Abs(float64(m.objects - p.objects))
		moreBusy += math.Abs(float64(m.busy - p.busy))
	}
	return moreObjects > noticed*objects+few || moreBusy > noticed*max(busy, idle)
}

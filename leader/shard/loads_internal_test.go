package shard

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/keyspace"
	"github.com/homeostat/homeostat/internal/slots"
)

func TestLoadsAreReadAsTheyWereWritten(t *testing.T) {
	g := NewWithT(t)
	d := divide(nil, 4)
	d.version = 7
	name := "team-1"
	g.Expect(d.slotOf(keyspace.Of(name))).To(Equal(3))
	of := map[int]load{
		0: {known: true, objects: 812},
		1: {known: true, measured: true},
		2: {known: true, measured: true, objects: 9, busy: 41_000, cuts: []cut{{d.rangeOf(2).Last, 8}}},
		3: {
			known: true, measured: true, objects: 40, busy: 1<<loadBits - 1,
			cuts: []cut{{d.rangeOf(3).First + 1, 1}, {math.MaxUint64, 39}}, top: name, topObjects: 38,
		},
	}
	text := formatLoads("a.b_77", 7, of)
	g.Expect(text).To(Equal("a.b_77 7 0:812:- 1:0:0 2:9:41000:bfffffffffffffff=8:" +
		" 3:40:1099511627775:c000000000000001=1,ffffffffffffffff=39:team-1=38"))
	g.Expect(d.parseLoads(text, "a.b_77.3")).To(Equal(of))
	g.Expect(d.parseLoads(formatLoads("a", 7, nil), "a.1")).To(BeEmpty())
	for _, holder := range []string{"", "a.b_77", "a.b_771.1", "a_77.1", "b.b_77.1"} {
		g.Expect(d.parseLoads(text, holder)).To(BeNil(), "%q has not written it", holder)
	}
	d.version = 8
	g.Expect(d.parseLoads(text, "a.b_77.3")).To(BeNil(), "it is about other ranges")
}

// What is written with each renewal is bounded.
func TestLoadsOfAllSlotsAreShort(t *testing.T) {
	for count, most := range map[int]int{64: 5 << 10, 1024: 36 << 10} {
		g := NewWithT(t)
		d := divide(nil, count)
		objects := map[string]int{}
		for n := range 100_000 {
			objects[fmt.Sprintf("a-namespace-with-a-very-long-name-%d", n)] = 10_000 * (n % 3)
		}
		w := slots.Work{Objects: objects, Slots: map[int]slots.Busy{}}
		for slot := range count {
			w.Slots[slot] = slots.Busy{}
		}
		of := meters{}.measure(&d, w, time.Now())
		for slot, l := range of {
			l.measured, l.busy = true, 99_000_000
			of[slot] = l
		}
		d.detailed(of, make([]load, count), 1, objects)
		text := formatLoads("a-replica-6f7d9c5b8d-x2x5k_0123456789", 1, of)
		g.Expect(len(text)).To(BeNumerically("<", most))
		g.Expect(d.parseLoads(text, "a-replica-6f7d9c5b8d-x2x5k_0123456789.1")).To(Equal(of))
	}
}

func TestLoadsThatAreNoneAreNotKnown(t *testing.T) {
	g := NewWithT(t)
	d := divide(nil, 64)
	d.version = 2
	parse := func(list string) map[int]load { return d.parseLoads("a 2 "+list, "a.1") }
	r := d.rangeOf(3)
	in := func(offset uint64) string { return fmt.Sprintf("%x", r.First+offset) }
	g.Expect(parse("3:4:5 4:0:-")).To(HaveLen(2))
	g.Expect(parse("3:4:5:" + in(1) + "=1," + in(2) + "=3:")).To(HaveLen(1))
	for _, list := range []string{
		"3", "3:4", "3:4:5:6", "3:4:", ":4:5", "x:4:5", "3:x:5", "3:4:x", "3:NaN:5", "3:4:Inf", "3:-4:5", "3:4:-5", "3:4:--",
		"-3:4:5", "64:4:5", "65539:4:5", "3:4.5:6", "3:1e9:6", "3:0x4:5", "3:4:5 3:4:5", "3:4:5 ✗", "3:4:5,6:7:8", "3:-:5",
		fmt.Sprintf("3:%d:5", uint64(1<<loadBits)), fmt.Sprintf("3:4:%d", uint64(math.MaxUint64)),
		"3:4:99999999999999999999999",
		"1:2:3 3:4:NaN", "3:4:5::::", "3:4:5:" + in(0) + "=1:", "3:4:5:" + in(1) + "=0:", "3:4:5:" + in(1) + "=4:",
		"3:4:5:" + in(1) + ":", "3:4:5:" + in(1) + "=:", "3:4:5:,:", "3:4:5:" + in(1) + "=1,:", "3:4:5:x=1:",
		"3:4:5:" + in(2) + "=1," + in(1) + "=2:", "3:4:5:" + in(1) + "=2," + in(2) + "=2:",
		"3:4:5:" + in(1) + "=2," + in(2) + "=1:",
		fmt.Sprintf("3:4:5:%x=1:", r.Last+1), "3:4:5::team", "3:4:5::=2", "3:4:5::team-1=2", "3:4:5::Team=2",
		"3:100:5:" + cutsOf(r, maxCuts+1) + ":",
	} {
		g.Expect(parse(list)).To(BeNil(), list)
	}
	g.Expect(parse("3:100:5:" + cutsOf(r, maxCuts) + ":")).To(HaveLen(1))
	for _, text := range []string{
		"", " ", "a", "a ", "a 2:3", "2 3:4:5", "a x 3:4:5", "a 02 3:4:5", "a -2 3:4:5", "a  2 3:4:5", " 2 3:4:5",
	} {
		g.Expect(d.parseLoads(text, "a.1")).To(BeNil(), text)
	}
	g.Expect(d.parseLoads("a 2"+strings.Repeat(" ", maxLoadText), "a.1")).To(BeNil(), "it is too long")
}

// cutsOf returns the text of n cuts.
func cutsOf(r keyspace.Range, n uint64) string {
	var cuts []string
	for c := range n {
		cuts = append(cuts, fmt.Sprintf("%x=%d", r.First+c+1, c+1))
	}
	return strings.Join(cuts, ",")
}

// Whatever is in a record, what is decided on is a division of all hashes with weights that are numbers.
func FuzzLoads(f *testing.F) {
	d := divide(nil, 8)
	first := fmt.Sprintf("%x", d.rangeOf(1).First+1)
	for _, list := range []string{
		"", "0:1:2", "3:812:41000 7:790:0", "0:1099511627775:1099511627775 1:0:0", "3:NaN:1", "1:100:5:" + first + "=1:",
		"1:100:5:" + cutsOf(d.rangeOf(1), maxCuts) + ":team-1=3", "0:100:-:" + cutsOf(d.rangeOf(0), 3) + ":", "7:1:-1",
	} {
		f.Add("a 1 "+list, "a 1 1:2:3 5:100000:1000000", uint8(3))
	}
	f.Fuzz(func(t *testing.T, a, b string, members uint8) {
		g := NewWithT(t)
		of := d.parseLoads(a, "a.1")
		if of != nil {
			g.Expect(d.parseLoads(formatLoads("a", 1, of), "a.1")).To(Equal(of))
		}
		all := make([]load, 8)
		for slot, l := range of {
			all[slot] = l
		}
		for slot, l := range d.parseLoads(b, "a.1") {
			all[slot] = l
		}
		names := replicas(1 + int(members)%20)
		owners := make([]string, 8)
		for slot := range owners {
			owners[slot] = names[slot%len(names)]
		}
		next := d.improve(survey{owners: owners, members: names, loads: all})
		if next == nil {
			return
		}
		recorded, err := parseDivision(next.String(), 8)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(recorded.weights).To(Equal(next.weights))
		_, follows := d.leaving(recorded)
		g.Expect(follows).To(BeTrue())
		p := planByWeight(owners, names, recorded.weights)
		g.Expect(planByWeight(p.target, names, recorded.weights).target).To(Equal(p.target))
	})
}

func TestASlotIsMeasuredWhenItsKeysHaveBeenReconciledOnce(t *testing.T) {
	g := NewWithT(t)
	d := divide(nil, 8)
	m, now := meters{}, time.Now()
	came, busy := now, time.Duration(0)
	objects := map[string]int{"team-1": 70, "team-2": 7, "a": 3}
	g.Expect([]int{d.slotOf(keyspace.Of("team-1")), d.slotOf(keyspace.Of("team-2"))}).To(Equal([]int{6, 6}))
	g.Expect(d.slotOf(keyspace.Of("a"))).NotTo(Equal(6), "it belongs to a slot that is not here")
	step := func(passed, took time.Duration) load {
		now, busy = now.Add(passed), busy+took
		measured := m.measure(&d, slots.Work{Objects: objects, Slots: map[int]slots.Busy{6: {Since: came, Time: busy}}}, now)
		g.Expect(measured).To(HaveLen(1))
		return measured[6]
	}
	for range 5 {
		l := step(time.Minute, time.Hour)
		g.Expect(l).To(Equal(load{known: true, objects: 77}), "it has come, and all its keys are reconciled")
	}
	for range firstSamples - 1 {
		g.Expect(step(time.Minute, 6*time.Second).measured).To(BeFalse())
	}
	g.Expect(step(20*time.Second, time.Minute).measured).To(BeFalse(), "too short a time is no sample")
	l := load{known: true, measured: true, objects: 77, busy: 100_000}
	g.Expect(step(time.Minute, 6*time.Second)).To(Equal(l), "a tenth of each second")
	g.Expect(step(2*time.Minute, 144*time.Second).busy).To(BeEquivalentTo(200_000), "one of eleven")
	for range smoothing - 11 {
		step(time.Minute, 72*time.Second)
	}
	mean := (10*0.1 + 110*1.2) / 120
	g.Expect(step(time.Minute, 0).busy).To(BeNumerically("~", 1e6*mean*119/120, 2))
	came, busy = now, 0
	for range 5 + firstSamples - 1 {
		g.Expect(step(time.Minute, 0).measured).To(BeFalse(), "it has left and come back")
	}
	g.Expect(step(time.Minute, 0).measured).To(BeTrue())
	g.Expect(m.measure(&d, slots.Work{Objects: objects}, now)).To(BeEmpty())
	g.Expect(m).To(BeEmpty(), "slots that have left are not retained")
	g.Expect(bounded(math.Inf(1))).To(BeEquivalentTo(1<<loadBits - 1))
	g.Expect(bounded(-1)).To(BeZero())
}

func TestASlotThatIsHeavyBesideAllOthersHasCuts(t *testing.T) {
	g := NewWithT(t)
	d := divide(nil, 4)
	objects := map[string]int{"team-1": 900, "team-2": 50, "team-3": 50}
	for name := range objects {
		g.Expect(d.slotOf(keyspace.Of(name))).To(Equal(3))
	}
	own := func() map[int]load { return map[int]load{3: {known: true, objects: 1000}} }
	known := func(objects int64) []load {
		return []load{{known: true, objects: objects}, {known: true, objects: objects}, {known: true, objects: objects}, {}}
	}
	light := own()
	d.detailed(light, known(600), 2, objects)
	g.Expect(light).To(Equal(own()))
	heavy := own()
	d.detailed(heavy, known(500), 2, objects)
	g.Expect(heavy[3].top).To(Equal("team-1"))
	g.Expect(heavy[3].topObjects).To(BeEquivalentTo(900))
	g.Expect(heavy[3].cuts).To(HaveLen(2))
	for _, c := range heavy[3].cuts {
		before := 0
		for name, n := range objects {
			if keyspace.Of(name) < c.at {
				before += n
			}
		}
		g.Expect(c.before).To(BeEquivalentTo(before))
	}
}

func TestCutsDivideNamespacesIntoSixteenEqualParts(t *testing.T) {
	for name, names := range sets() {
		g := NewWithT(t)
		var all []*weighed
		for _, name := range names {
			all = append(all, &weighed{keyspace.Of(name), 2})
		}
		sortByHash(all)
		cuts := quantiles(all)
		g.Expect(cuts).To(HaveLen(maxCuts), name)
		for n, c := range cuts {
			part := float64(2*len(names)) / 16
			g.Expect(c.before).To(BeNumerically("~", float64(n+1)*part, 2), name)
			at := int(c.before / 2)
			g.Expect(all[at-1].hash < c.at && c.at <= all[at].hash).To(BeTrue(), name)
		}
	}
	g := NewWithT(t)
	of := func(weights ...float64) (all []*weighed) {
		for n, w := range weights {
			all = append(all, &weighed{uint64(10 * n), w})
		}
		return all
	}
	g.Expect(quantiles(nil)).To(BeEmpty())
	g.Expect(quantiles(of(7))).To(BeEmpty())
	g.Expect(quantiles(of(7, 1, 100))).To(Equal([]cut{{6, 7}, {16, 8}}), "each from the others")
	many := of(make([]float64, 40)...)
	for n := range many {
		many[n].weight = 1
	}
	many[20].weight = 1000
	g.Expect(quantiles(many)).To(Equal([]cut{{196, 20}, {206, 1020}}), "a heavy one is by itself")
}

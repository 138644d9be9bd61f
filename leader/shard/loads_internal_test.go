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
		0: {Objects: 812},
		1: {Measured: true},
		2: {Measured: true, Objects: 9, Busy: 41_000, Cuts: []cut{{d.rangeOf(2).Last, 8}}},
		3: {
			Measured: true, Objects: 40, Busy: 1<<loadBits - 1,
			Cuts: []cut{{d.rangeOf(3).First + 1, 1}, {math.MaxUint64, 39}}, Top: name, TopObjects: 38,
		},
	}
	text := published{"a.b_77", 7, of}.String()
	g.Expect(text).To(MatchJSON(`{"Process": "a.b_77", "Version": 7, "Slots": {
		"0": {"o": 812},
		"1": {"o": 0, "m": true},
		"2": {"o": 9, "b": 41000, "m": true, "c": [{"a": 13835058055282163711, "b": 8}]},
		"3": {"o": 40, "b": 1099511627775, "m": true, "c": [
			{"a": 13835058055282163713, "b": 1}, {"a": 18446744073709551615, "b": 39}
		], "t": "team-1", "n": 38}}}`))
	g.Expect(d.parseLoads(text, "a.b_77.3")).To(Equal(of))
	g.Expect(d.parseLoads(published{"a", 7, nil}.String(), "a.1")).To(BeEmpty())
	for _, holder := range []string{"", "a.b_77", "a.b_771.1", "a_77.1", "b.b_77.1"} {
		g.Expect(d.parseLoads(text, holder)).To(BeNil(), "%q has not written it", holder)
	}
	d.version = 8
	g.Expect(d.parseLoads(text, "a.b_77.3")).To(BeNil(), "it is about other ranges")
}

// The text written with each renewal is bounded.
func TestLoadsOfAllSlotsAreShort(t *testing.T) {
	for count, most := range map[int]int{64: 5 << 10, 1024: 46 << 10} {
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
			l.Measured, l.Busy = true, 99_000_000
			of[slot] = l
		}
		d.detailed(of, make([]load, count), 1, objects)
		text := published{"a-replica-6f7d9c5b8d-x2x5k_0123456789", 1, of}.String()
		g.Expect(len(text)).To(BeNumerically("<", most))
		g.Expect(d.parseLoads(text, "a-replica-6f7d9c5b8d-x2x5k_0123456789.1")).To(Equal(of))
	}
}

func TestLoadsThatAreNoneAreNotKnown(t *testing.T) {
	g := NewWithT(t)
	d := divide(nil, 64)
	d.version = 2
	parse := func(list string) map[int]load {
		return d.parseLoads(`{"Process":"a","Version":2,"Slots":{`+list+`}}`, "a.1")
	}
	r := d.rangeOf(3)
	cut := func(offset uint64, before int) string { return fmt.Sprintf(`{"a":%d,"b":%d}`, r.First+offset, before) }
	with := func(cuts ...string) string { return `"3":{"o":4,"b":5,"m":true,"c":[` + strings.Join(cuts, ",") + `]}` }
	top := func(name string, objects int) string { return fmt.Sprintf(`"3":{"o":4,"t":%q,"n":%d}`, name, objects) }
	find := func(format string, slot int) string { // a namespace of the slot
		for n := uint64(1); ; n++ {
			if name := fmt.Sprintf(format, n*0x9e3779b97f4a7c15); d.slotOf(keyspace.Of(name)) == slot {
				return name
			}
		}
	}
	inside := find("t%x", 3)
	g.Expect(parse(`"3":{"o":4,"b":5},"4":{"o":0}`)).To(HaveLen(2))
	for _, list := range []string{
		with(), with(cut(1, 1), cut(2, 3)), with(fmt.Sprintf(`{"a":%d,"b":1}`, r.Last)), top(inside, 4), top("", 0),
		fmt.Sprintf(`"3":{"o":%d,"b":%[1]d}`, 1<<loadBits-1), `"63":{"o":4}`, `"0":{"o":4}`,
	} {
		g.Expect(parse(list)).To(HaveLen(1), list)
	}
	for _, list := range []string{
		"3", `"3":4`, `"x":{"o":4}`, `"-3":{"o":4}`, `"64":{"o":4}`, `"65539":{"o":4}`,
		`"3":{"o":"4"}`, `"3":{"o":-4}`, `"3":{"o":4.5}`, `"3":{"o":1e99}`, `"3":{"o":NaN}`, `"3":{"o":4,"b":-5}`,
		fmt.Sprintf(`"3":{"o":%d}`, 1<<loadBits), fmt.Sprintf(`"3":{"o":4,"b":%d}`, 1<<loadBits),
		`"3":{"o":99999999999999999999999}`, `"1":{"o":2},"3":{"o":-4}`,
		with(cut(0, 1)), with(cut(1, 0)), with(cut(1, 4)), with(cut(2, 1), cut(1, 2)), with(cut(1, 2), cut(2, 2)),
		with(cut(1, 2), cut(2, 1)), with(fmt.Sprintf(`{"a":%d,"b":1}`, r.Last+1)), with(`{"a":-1,"b":1}`),
		top(inside, 5), top(inside, -1), top("", 2), top(find("t%x", 4), 2), top(find("T%X", 3), 2),
		`"3":{"o":100,` + cutsOf(r, maxCuts+1) + `}`,
	} {
		g.Expect(parse(list)).To(BeNil(), list)
	}
	g.Expect(parse(`"3":{"o":100,` + cutsOf(r, maxCuts) + `}`)).To(HaveLen(1))
	const good = `{"Process":"a","Version":2,"Slots":{"3":{"o":4}}}`
	g.Expect(d.parseLoads(good, "a.1")).To(HaveLen(1))
	for _, text := range []string{
		"", " ", "null", "{}", "[]", good + "x", good[:len(good)-1], strings.Replace(good, "a", "", 1),
		strings.Replace(good, `"a"`, `"b"`, 1), strings.Replace(good, "2", "1", 1), strings.Replace(good, "2", `"2"`, 1),
	} {
		g.Expect(d.parseLoads(text, "a.1")).To(BeNil(), text)
	}
	g.Expect(d.parseLoads(strings.Replace(good, `"a"`, `""`, 1), ".1")).To(BeNil(), "it has no process")
	g.Expect(d.parseLoads(good+strings.Repeat(" ", maxLoadText-len(good)), "a.1")).To(HaveLen(1))
	g.Expect(d.parseLoads(good+strings.Repeat(" ", maxLoadText-len(good)+1), "a.1")).To(BeNil(), "it is too long")
}

// cutsOf returns the text of n cuts.
func cutsOf(r keyspace.Range, n uint64) string {
	var cuts []string
	for c := range n {
		cuts = append(cuts, fmt.Sprintf(`{"a":%d,"b":%d}`, r.First+c+1, c+1))
	}
	return `"c":[` + strings.Join(cuts, ",") + `]`
}

// Whatever a record contains, the decision is a division of all hashes with finite weights.
func FuzzLoads(f *testing.F) {
	d := divide(nil, 8)
	first := fmt.Sprint(d.rangeOf(1).First + 1)
	text := func(list string) string { return `{"Process":"a","Version":1,"Slots":{` + list + `}}` }
	for _, list := range []string{
		"", `"0":{"o":1,"b":2,"m":true}`, `"3":{"o":812,"b":41000,"m":true},"7":{"o":790}`, `"3":{"o":NaN}`,
		`"0":{"o":1099511627775,"b":1099511627775},"1":{"o":0}`, `"1":{"o":100,"c":[{"a":` + first + `,"b":1}]}`,
		`"1":{"o":100,` + cutsOf(d.rangeOf(1), maxCuts) + `,"t":"team-1","n":3}`, `"7":{"o":1,"b":-1}`,
	} {
		f.Add(text(list), text(`"1":{"o":2,"b":3},"5":{"o":100000,"b":1000000}`), uint8(3))
	}
	f.Fuzz(func(t *testing.T, a, b string, members uint8) {
		g := NewWithT(t)
		of := d.parseLoads(a, "a.1")
		if of != nil {
			g.Expect(d.parseLoads(published{"a", 1, of}.String(), "a.1")).To(Equal(of))
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

func TestASlotWeighsItsObjectsAndItsTime(t *testing.T) {
	g := NewWithT(t)
	weights, byTime := weigh([]load{{Busy: 150_000}, {}}, 1)
	g.Expect(weights).To(Equal([]float64{0.375, 0}), "there are no objects: half of three quarters")
	g.Expect(byTime).To(Equal(weights))
	d := divide(nil, 2)
	at := d.rangeOf(1).First + 1
	z := d.zones(survey{members: replicas(1), loads: []load{
		{}, {Objects: 100, Busy: 950_000, Cuts: []cut{{at, 10}, {at + 1, 30}}},
	}})[1]
	g.Expect(z.weight).To(BeNumerically("~", 1, 1e-9))
	for n, before := range []float64{
		0.1*(0.525+0.475/2) + 1./3*0.475/2, 0.3*(0.525+0.475/2) + 2./3*0.475/2, // half of the time counts as evenly divided
	} {
		g.Expect(z.parts[n].before).To(BeNumerically("~", before, 1e-9))
	}
	g.Expect(heaviestOf(map[string]int{"a": 0}, 0)).To(BeEmpty())
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
		g.Expect(l).To(Equal(load{Objects: 77}), "it has come, and all its keys are reconciled")
	}
	for range firstSamples - 1 {
		g.Expect(step(time.Minute, 6*time.Second).Measured).To(BeFalse())
	}
	g.Expect(step(20*time.Second, time.Minute).Measured).To(BeFalse(), "too short a time is no sample")
	l := load{Measured: true, Objects: 77, Busy: 100_000}
	g.Expect(step(time.Minute, 6*time.Second)).To(Equal(l), "a tenth of each second")
	g.Expect(step(2*time.Minute, 144*time.Second).Busy).To(BeEquivalentTo(200_000), "one of eleven")
	for range smoothing - 11 {
		step(time.Minute, 72*time.Second)
	}
	mean := (10*0.1 + 110*1.2) / 120
	g.Expect(step(time.Minute, 0).Busy).To(BeNumerically("~", 1e6*mean*119/120, 2))
	came, busy = now, 0
	for range 5 + firstSamples - 1 {
		g.Expect(step(time.Minute, 0).Measured).To(BeFalse(), "it has left and come back")
	}
	g.Expect(step(time.Minute, 0).Measured).To(BeTrue())
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
	own := func() map[int]load { return map[int]load{3: {Objects: 1000}} }
	known := func(objects int64) []load {
		return []load{{Objects: objects}, {Objects: objects}, {Objects: objects}, {}}
	}
	light := own()
	d.detailed(light, known(600), 2, objects)
	g.Expect(light).To(Equal(own()))
	heavy := own()
	d.detailed(heavy, known(500), 2, objects)
	g.Expect(heavy[3].Top).To(Equal("team-1"))
	g.Expect(heavy[3].TopObjects).To(BeEquivalentTo(900))
	g.Expect(heavy[3].Cuts).To(HaveLen(2))
	for _, c := range heavy[3].Cuts {
		before := 0
		for name, n := range objects {
			if keyspace.Of(name) < c.At {
				before += n
			}
		}
		g.Expect(c.Before).To(BeEquivalentTo(before))
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
			g.Expect(c.Before).To(BeNumerically("~", float64(n+1)*part, 2), name)
			at := int(c.Before / 2)
			g.Expect(all[at-1].hash < c.At && c.At <= all[at].hash).To(BeTrue(), name)
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

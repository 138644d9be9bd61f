package shard

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/keyspace"
	"github.com/homeostat/homeostat/internal/slots"
)

// tenant is a namespace of a simulated cluster.
type tenant struct {
	objects int
	busy    float64 // seconds in reconciles of each second
}

// course is a simulated cluster with replicas, minute by minute.
type course struct {
	g       *WithT
	random  *rand.Rand
	long    bool // reconciles take 5 to 30 seconds; if not, the time of each minute is up to 30 % more or less
	tenants map[string]tenant
	members []string
	now     time.Time

	division  *division
	owners    []string
	came      []time.Time // when each slot got its owner
	busy      []time.Duration
	later     []time.Duration // of reconciles that still run
	meters    map[string]meters
	objects   map[string]map[string]int // by owner and namespace
	rates     []float64                 // of each slot
	moved     time.Time                 // when something moved last
	decider   decider
	divisions int
	changes   int // divisions with other ranges
	moves     int
	longest   int       // text that a member has published
	balanced  time.Time // since when the heaviest has at most 1.2 of the mean
}

func newCourse(t *testing.T, counted, tenants map[string]tenant, replicaCount int, long bool) *course {
	t.Helper()
	objects := map[string]int{}
	for name, of := range counted {
		objects[name] = of.objects
	}
	chosen := divide(objects, 64)
	x := &course{
		g: NewWithT(t), random: rand.New(rand.NewPCG(13, 14)), long: long, tenants: tenants, members: replicas(replicaCount),
		now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), came: make([]time.Time, 64), busy: make([]time.Duration, 64),
		later: make([]time.Duration, 64), meters: map[string]meters{}, owners: make([]string, 64),
	}
	x.adopt(&chosen)
	x.divisions, x.changes, x.moves = 0, 0, 0
	return x
}

// adopt does what replicas do when ranges are recorded.
func (x *course) adopt(next *division) {
	recorded, err := parseDivision(next.String(), 64)
	x.g.Expect(err).NotTo(HaveOccurred())
	before := slices.Clone(x.owners)
	for _, slot := range recorded.moved() {
		if x.division != nil && recorded.version > x.division.version {
			x.owners[slot] = unowned
		}
	}
	x.changes += recorded.version - 1
	if x.division != nil {
		x.changes -= x.division.version - 1
	}
	x.divisions++
	x.division = recorded
	p := planByWeight(x.owners, x.members, recorded.weights)
	x.g.Expect(planByWeight(p.target, x.members, recorded.weights).target).To(Equal(p.target), "it stays")
	for slot, owner := range p.target {
		if stays := x.owners[slot] != unowned; stays && owner == before[slot] {
			continue
		}
		x.came[slot], x.busy[slot], x.later[slot] = x.now, 0, 0
		x.moves++
	}
	x.owners, x.moved = p.target, x.now
	x.settle()
}

// settle computes the load of each slot.
func (x *course) settle() {
	x.objects, x.rates = map[string]map[string]int{}, make([]float64, 64)
	for name, of := range x.tenants {
		slot := x.division.slotOf(keyspace.Of(name))
		owner := x.owners[slot]
		if x.objects[owner] == nil {
			x.objects[owner] = map[string]int{}
		}
		x.objects[owner][name] = of.objects
		x.rates[slot] += of.busy
	}
}

// minute passes.
func (x *course) minute() {
	x.now = x.now.Add(time.Minute)
	for slot, rate := range x.rates {
		x.busy[slot] += x.worked(slot, rate)
	}
	all := make([]load, 64)
	measured := map[string]map[int]load{}
	for _, member := range x.members {
		measured[member] = x.measure(member)
		for slot, l := range measured[member] {
			all[slot] = l
		}
	}
	known := slices.Clone(all) // details need the loads published by the others
	for _, member := range x.members {
		x.division.detailed(measured[member], known, len(x.members), x.objects[member])
		text := published{member, x.division.version, measured[member]}.String()
		x.longest = max(x.longest, len(text))
		for slot, l := range x.division.parseLoads(text, member+".1") {
			all[slot] = l
		}
	}
	s, ok := survey{x.owners, x.members, all, x.moved}, true
	for _, l := range all {
		ok = ok && l.Measured
	}
	if next := x.decider.look(x.division, s, ok, x.now); next != nil {
		x.g.Expect(next.to).To(BeNumerically("<=", next.from-worth))
		x.adopt(next.division)
	}
	if x.heaviest() > 1.2 {
		x.balanced = x.now
	}
}

// measure returns the costs of a member's slots.
func (x *course) measure(member string) map[int]load {
	if x.meters[member] == nil {
		x.meters[member] = meters{}
	}
	w := slots.Work{Objects: x.objects[member], Slots: map[int]slots.Busy{}}
	for slot, owner := range x.owners {
		if owner == member {
			w.Slots[slot] = slots.Busy{Since: x.came[slot], Time: x.busy[slot]}
		}
	}
	return x.meters[member].measure(x.division, w, x.now)
}

// worked returns the time in the reconciles of a slot in a minute.
func (x *course) worked(slot int, rate float64) time.Duration {
	if !x.long {
		return time.Duration(rate * 60e9 * (0.7 + 0.6*x.random.Float64()))
	}
	took := x.later[slot]
	x.later[slot] = 0
	for begin := x.random.ExpFloat64() / rate * 17.5; begin < 60; begin += x.random.ExpFloat64() / rate * 17.5 {
		lasts := 5 + 25*x.random.Float64()
		took += time.Duration(min(lasts, 60-begin) * 1e9)
		x.later[slot] += time.Duration(max(0, begin+lasts-60) * 1e9)
	}
	return took
}

// heaviest returns the true weight of the heaviest replica relative to the mean, not the measured one.
func (x *course) heaviest() float64 {
	return shareOf(x.owners, x.members, x.weights())
}

func (x *course) weights() []float64 {
	all := make([]load, 64)
	for name, of := range x.tenants {
		l := &all[x.division.slotOf(keyspace.Of(name))]
		l.Objects += int64(of.objects)
	}
	for slot, rate := range x.rates {
		all[slot].Busy = int64(rate * 1e6)
	}
	weights, _ := weigh(all, len(x.members))
	return weights
}

func (x *course) pass(d time.Duration) {
	for range d / time.Minute {
		x.minute()
	}
}

// tenants returns namespaces with objects whose reconciles take busy seconds of each second in all.
func tenants(names []string, busy float64) map[string]tenant {
	all, total := map[string]tenant{}, 0
	for n, name := range names {
		all[name] = tenant{objects: 1 + n%7}
		total += 1 + n%7
	}
	for name, of := range all {
		of.busy = busy * float64(of.objects) / float64(total)
		all[name] = of
	}
	return all
}

// limit returns the least possible load of the heaviest replica: a namespace is not divided.
func (x *course) limit() float64 {
	var objects, busy, most float64
	for _, of := range x.tenants {
		objects, busy = objects+float64(of.objects), busy+of.busy
	}
	little := idle / 1e6 * float64(len(x.members))
	for _, of := range x.tenants {
		part := float64(of.objects) / objects
		most = max(most, part/2+(of.busy+little*part)/(busy+little)/2)
	}
	return most * float64(len(x.members))
}

// beginning describes a cluster when the ranges are chosen, and afterwards.
type beginning struct {
	counted, tenants map[string]tenant
	divisions        int // that there are at most
}

func beginnings() map[string]beginning {
	eight := map[string]tenant{}
	for n := range 8 {
		eight[fmt.Sprintf("shop-%d", n)] = tenant{100, 0.5}
	}
	all := map[string]beginning{
		"eight namespaces": {eight, eight, 0}, "eight namespaces come": {nil, eight, 1},
	}
	for name, names := range sets() {
		of := tenants(names, 6)
		all[name+" come"] = beginning{nil, of, 2}
		if len(names) > 2000 { // to simulate them takes long
			continue
		}
		all[name+" stay"] = beginning{of, of, 1}
		all[name+" come and are idle"] = beginning{nil, tenants(names, 0.001), 2}
		heavy := maps.Clone(of)
		for n := range 3 {
			heavy[names[10*n+5]] = tenant{500, 1.5}
			heavy[names[10*n+6]] = tenant{1, 1.5}
			all[fmt.Sprintf("%s, %d become heavy", name, n+1)] = beginning{of, maps.Clone(heavy), 2}
		}
		all[name+" come, 3 are heavy"] = beginning{nil, heavy, 3}
	}
	return all
}

// However a cluster begins, one to three divisions bring the heaviest replica to at most 1.2 of the mean, or as near
// to it as its heaviest namespace lets it, and nothing moves afterwards.
func TestFewDivisionsBalanceTheReplicas(t *testing.T) {
	all := beginnings()
	for n, name := range slices.Sorted(maps.Keys(all)) {
		count, of := []int{3, 8, 16}[n%3], all[name]
		t.Run(fmt.Sprintf("%s/replicas=%d", name, count), func(t *testing.T) {
			x := newCourse(t, of.counted, of.tenants, count, n%2 == 0)
			began, first := x.now, x.heaviest()
			x.pass(110 * time.Minute)
			divisions, moves, last := x.divisions, x.moves, x.moved.Sub(began)
			x.pass(70 * time.Minute)
			t.Logf("the heaviest replica had %.2f of the mean and has %.2f; %d divisions, %d with other ranges, moved %d slots "+
				"within %v; %d bytes were published", first, x.heaviest(), divisions, x.changes, moves, last, x.longest)
			x.g.Expect(divisions).To(BeNumerically("<=", of.divisions))
			x.g.Expect(x.heaviest()).To(BeNumerically("<=", max(1.2, x.limit()+0.1)))
			x.g.Expect(x.moves-moves).To(BeZero(), "it has settled")
			x.g.Expect(x.longest).To(BeNumerically("<", 5<<10))
		})
	}
}

// parts returns the cuts of a range into equal parts, each with the same number of objects.
func parts(r keyspace.Range, n int, objects int64) (cuts []cut) {
	for part := range n - 1 {
		cuts = append(cuts, cut{r.First + uint64(part+1)*1000, int64(part+1) * objects})
	}
	return cuts
}

func TestRangesAreImprovedWhenThatIsWorthIt(t *testing.T) {
	four := divide(nil, 8)
	busy := func(objects, busy int64) load { return load{Measured: true, Objects: objects, Busy: busy} }
	loads := func(of ...load) []load { return append(of, make([]load, 8-len(of))...) }
	heavy := busy(800, 0)
	heavy.Cuts = parts(four.rangeOf(0), 8, 100)
	same, little, much := busy(90, 0), busy(4, 0), busy(4, 1e6)
	for name, c := range map[string]struct {
		owners           string // of each slot, a letter
		loads            []load
		changed, version int // 0 if nothing is worth it
		to               float64
	}{
		"all have the same":        {"aabbccdd", loads(same, same, same, same, same, same, same, same), 0, 0, 0},
		"a fifth more":             {"ab", loads(busy(600, 0), busy(400, 0)), 0, 0, 0},
		"one has all, in slots":    {"aaaaaaab", loads(same, same, same, same), 0, 1, 1},
		"one has all, in one slot": {"aaaabbbb", loads(heavy), 4, 2, 1},
		"that cannot be divided":   {"aaaabbbb", loads(busy(800, 0)), 0, 0, 0},
		"few objects":              {"aaaaaaab", loads(little, little, little, little), 0, 0, 0},
		"few objects, much work":   {"aaaaaaab", loads(much, much, much, much), 0, 1, 1},
		"little work": {
			"aaaabbbb", loads(busy(400, 40_000), busy(0, 40_000), busy(0, 0), busy(0, 0), busy(400, 0)), 0, 0, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := survey{loads: c.loads}
			for n := range 8 {
				s.owners = append(s.owners, c.owners[n%len(c.owners):][:1]+"_1.1")
			}
			s.members = slices.Compact(slices.Sorted(slices.Values(s.owners)))
			next := four.improve(s)
			if c.version == 0 {
				g.Expect(next).To(BeNil())
				return
			}
			g.Expect(next).NotTo(BeNil())
			g.Expect(next.version).To(Equal(c.version))
			g.Expect(next.changed).To(BeNumerically(">=", c.changed))
			g.Expect(next.to).To(BeNumerically("~", c.to, 0.12))
			g.Expect(next.from).To(BeNumerically(">=", next.to+worth))
		})
	}
}

// A range is divided where its halves are most equal, and only light ranges are joined for that.
func TestARefinedDivisionHasTheSameSlots(t *testing.T) {
	g := NewWithT(t)
	d := divide(nil, 8)
	s := survey{owners: make([]string, 8), members: replicas(2), loads: make([]load, 8)}
	for slot := range s.loads {
		s.loads[slot] = load{Measured: true, Objects: int64(1 + slot)}
	}
	s.loads[3].Objects, s.loads[3].Cuts = 500, parts(d.rangeOf(3), 5, 100)
	zones := refine(d.zones(s), 2)
	g.Expect(zones).To(HaveLen(8))
	var slots []int
	for n, z := range zones {
		slots = append(slots, z.slot)
		g.Expect(n == 0 || zones[n-1].Last+1 == z.First).To(BeTrue())
	}
	g.Expect(slots).To(Equal([]int{0, 3, 5, 1, 2, 7, 4, 6}))
	g.Expect(zones[0].First).To(BeZero())
	g.Expect(zones[7].Last).To(Equal(uint64(math.MaxUint64)))
	g.Expect(refine(d.zones(s), 2)).To(Equal(zones), "all that know the same decide the same")
}

func TestAFewObjectsOrALittleTimeAreNotWorthAMove(t *testing.T) {
	for _, c := range []struct {
		objects, busy int64 // those of one of two replicas; the mean is half
		significant   bool
	}{{2*few - 1, 2*idle - 1, false}, {2 * few, 0, true}, {0, 2 * idle, true}} {
		s := survey{owners: replicas(2), members: replicas(2), loads: []load{{Objects: c.objects, Busy: c.busy}, {}}}
		NewWithT(t).Expect(s.significant([]float64{1, 0})).To(Equal(c.significant), "%+v", c)
	}
}

// A zone that is light beside a member is not worth a division, however light its neighbors are.
func TestLightZonesAreNotDivided(t *testing.T) {
	g := NewWithT(t)
	d := divide(nil, 8)
	for objects, divided := range map[int64]bool{12: false, 13: true} {
		s := survey{owners: make([]string, 8), members: replicas(2), loads: make([]load, 8)}
		s.loads[0].Objects = 100 - objects
		s.loads[3].Objects, s.loads[3].Cuts = objects, parts(d.rangeOf(3), 2, objects/2)
		zones := d.zones(s)
		changed := refine(slices.Clone(zones), 2)
		g.Expect(slices.Equal(changed, zones)).To(Equal(!divided), "%d of the 50 of a member", objects)
	}
}

func TestTheNarrowestOfEquallyLightNeighborsAreJoined(t *testing.T) {
	g := NewWithT(t)
	var zones []*zone
	first := uint64(0)
	for _, width := range []uint64{5, 2, 3, 5, 2, 3} {
		zones = append(zones, &zone{Range: keyspace.Range{First: first, Last: first + width - 1}, weight: 1})
		first += width
	}
	at, weight := lightest(zones)
	g.Expect(at).To(Equal(1), "the first of them")
	g.Expect(weight).To(Equal(2.0))
	_, weight = lightest(zones[:1])
	g.Expect(weight).To(BeNumerically(">", 1e300), "it has no neighbor")
}

func TestTheHeaviestNamespacesAreRecordedWithTheRanges(t *testing.T) {
	g := NewWithT(t)
	g.Expect(heavyOf([]load{
		{Objects: 900},
		{Objects: 60, Top: "b", TopObjects: 40},
		{Objects: 30, Top: "c", TopObjects: 15},
		{Objects: 10},
		{Objects: 1000, Top: "a", TopObjects: 1000},
	})).To(Equal([]namespaceShare{{"a", 0.5}, {"b", 0.02}}))
	g.Expect(heavyOf(nil)).To(BeEmpty())
}

// A single result may come from another client's edit, and loads that vary from minute to minute are measured longer.
func TestRangesAreRecordedWhenTheyHaveBeenWorthItForSomeMinutes(t *testing.T) {
	g := NewWithT(t)
	d := divide(nil, 8)
	now := time.Now()
	at := now.Add
	heavy := func(objects int64) survey {
		s := survey{members: []string{"a_1.1", "b_1.1"}, loads: make([]load, 8), moved: now}
		for slot := range 8 {
			s.owners = append(s.owners, s.members[slot/4])
			s.loads[slot].Objects = 100
		}
		s.loads[0].Objects = objects
		return s
	}
	var x decider
	for minute := range still / time.Minute {
		g.Expect(x.look(&d, heavy(2000), true, at(minute*time.Minute))).To(BeNil())
	}
	look := func(s survey, ok bool, minute time.Duration) *proposal {
		return x.look(&d, s, ok, at(minute*time.Minute))
	}
	g.Expect(look(heavy(2000), true, 10)).To(BeNil())
	g.Expect(look(heavy(2000), true, 11)).To(BeNil())
	g.Expect(look(heavy(100), true, 12)).To(BeNil())
	g.Expect(look(heavy(2000), true, 13)).To(BeNil())
	g.Expect(look(heavy(2000), false, 14)).To(BeNil(), "something is not known")
	g.Expect(look(heavy(2000), true, 15)).To(BeNil())
	g.Expect(look(heavy(2000), true, 16)).To(BeNil())
	g.Expect(look(heavy(2000), true, 17)).NotTo(BeNil())
	for minute := range time.Duration(60) {
		g.Expect(look(heavy(450), true, minute)).To(BeNil(), "it is not much")
	}
	g.Expect(look(heavy(450), true, 60)).To(BeNil())
	g.Expect(look(heavy(450), true, 61)).To(BeNil())
	g.Expect(look(heavy(450), true, 62)).NotTo(BeNil())

	other := d.with(d.bounds, d.slots, []float64{1, 2, 3, 4, 5, 6, 7, 8})
	g.Expect(x.look(other, heavy(2000), true, at(70*time.Minute))).To(BeNil(), "other weights have been recorded")
	g.Expect(x.look(other, heavy(2000), true, at(79*time.Minute))).To(BeNil())
	g.Expect(x.worth).To(BeZero())
	g.Expect(x.look(other, heavy(2000), true, at(80*time.Minute))).To(BeNil())
	g.Expect(x.worth).To(Equal(1))
}

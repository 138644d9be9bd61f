package shard

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/homeostat/homeostat/internal/slots"
	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/leader/internal/record"
)

// recorded returns a division as replicas read it.
func recorded(t testing.TB, namespaces map[string]int, slots int) *division {
	t.Helper()
	chosen := divide(namespaces, slots)
	d, err := parseDivision(chosen.String(), slots)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return d
}

// loadsOf returns the loads of so many slots.
func loadsOf(of map[int]load, slots int) []load {
	all := make([]load, slots)
	for slot, l := range of {
		all[slot] = l
	}
	return all
}

func TestLoadsAreReadAsTheyWereWritten(t *testing.T) {
	g := NewWithT(t)
	d := recorded(t, nil, 1024)
	of := map[int]load{}
	g.Expect(d.formatLoads(of)).To(Equal(d.mark))
	g.Expect(d.parseLoads(d.mark)).To(BeEmpty())
	for slot := range 1024 {
		of[slot] = load{1<<loadBits - 1, 1<<loadBits - 1 - int64(slot), true}
	}
	text := d.formatLoads(of)
	g.Expect(d.parseLoads(text)).To(Equal(of))
	g.Expect(len(text)).To(BeNumerically("<", 64<<10), "a Lease with larger annotations would be refused, and not renewed")
	text = d.formatLoads(map[int]load{3: {812, 41_000, true}, 17: {790, 0, true}})
	g.Expect(text).To(Equal(d.mark + " 3:812:41000 17:790:0"))
}

func TestLoadsThatAreNoneAreNotKnown(t *testing.T) {
	g := NewWithT(t)
	d, other := recorded(t, nil, 64), recorded(t, nil, 32)
	g.Expect(d.mark).To(MatchRegexp("^[0-9a-f]{8}$"))
	g.Expect(d.parseLoads(d.mark + " 3:4:5")).To(HaveLen(1))
	for _, list := range []string{
		"3", "3:4", "3:4:5:6", "3:4:", ":4:5", "x:4:5", "3:x:5", "3:4:x", "3:NaN:5", "3:4:Inf", "3:4:+Inf", "3:-4:5", "3:4:-5",
		"-3:4:5", "64:4:5", "65539:4:5", "3:4.5:6", "3:1e9:6", "3:0x4:5", "3:4:5 3:4:5", "3:4:5 ✗", "3:4:5,6:7:8",
		fmt.Sprintf("3:%d:5", uint64(1<<loadBits)), fmt.Sprintf("3:4:%d", uint64(math.MaxUint64)), "3:4:99999999999999999999999",
		"1:2:3 3:4:NaN",
	} {
		g.Expect(d.parseLoads(d.mark+" "+list)).To(BeNil(), list)
	}
	for _, text := range []string{"", " ", "3:4:5", "00000000 3:4:5", other.mark + " 3:4:5", strings.ToUpper(d.mark) + "X 3:4:5"} {
		g.Expect(d.parseLoads(text)).To(BeNil(), text)
	}
}

// Whatever is in a record, weights are numbers, and a plan gives each slot an owner.
func FuzzLoads(f *testing.F) {
	namespaces := map[string]int{}
	for n := range 99 {
		namespaces[fmt.Sprintf("team-%02d", n+1)] = n
	}
	d := recorded(f, namespaces, 16)
	for _, list := range []string{"", "0:1:2", "3:812:41000 7:790:0", "0:1099511627775:1099511627775 1:0:0", "3:NaN:1", "15:1:-1"} {
		f.Add(d.mark+" "+list, d.mark+" 1:2:3", uint8(3))
	}
	f.Fuzz(func(t *testing.T, a, b string, members uint8) {
		g := NewWithT(t)
		of := d.parseLoads(a)
		if of != nil {
			g.Expect(d.parseLoads(d.formatLoads(of))).To(Equal(of))
		}
		all := loadsOf(of, 16)
		for slot, l := range d.parseLoads(b) {
			all[slot] = l
		}
		names := replicas(1 + int(members)%20)
		weights := d.weigh(all, len(names))
		for _, w := range weights {
			g.Expect(w >= 0 && !math.IsInf(w, 0)).To(BeTrue(), "%v", weights)
		}
		p := planByWeight(make([]string, 16), names, weights)
		g.Expect(p.target).NotTo(ContainElement(unowned))
		g.Expect(planByWeight(p.target, names, weights).target).To(Equal(p.target))
	})
}

func FuzzDivision(f *testing.F) {
	for _, text := range []string{"0:1 5:2", "0:NaN 5:2", "0:Inf 5:-1", "0:1e308 5:1e308", "0:1 5:", "5:1 0:1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		g := NewWithT(t)
		d, err := parseDivision(text, 2)
		if err != nil {
			g.Expect(err).To(MatchError(ErrConfig))
			return
		}
		g.Expect(d.bounds).To(HaveLen(2))
		g.Expect(slices.Max(d.weights)).To(BeNumerically("<", 1<<loadBits))
		g.Expect(slices.Min(d.weights)).To(BeNumerically(">=", 0))
	})
}

func TestTheWeightOfASlotIsTheMeanOfItsPartsOfObjectsAndTime(t *testing.T) {
	d := recorded(t, nil, 4)
	d.weights = []float64{100, 200, 300, 400}
	for name, c := range map[string]struct {
		of   []load
		want []float64
	}{
		"nothing is known": {make([]load, 4), []float64{100, 200, 300, 400}},
		"replicas that do nothing: objects": {
			[]load{{100, 0, true}, {100, 0, true}, {200, 0, true}, {0, 0, true}}, []float64{0.25, 0.25, 0.5, 0},
		},
		"replicas that do little: mostly objects": {
			[]load{{100, 0, true}, {100, 0, true}, {200, 0, true}, {0, 2000, true}}, []float64{0.2475, 0.2475, 0.495, 0.01},
		},
		"replicas that do much: both": {
			[]load{{100, 1e9, true}, {100, 2e9, true}, {200, 1e9, true}, {0, 0, true}}, []float64{0.25, 0.375, 0.375, 0},
		},
		"no objects: time": {
			[]load{{0, 1e9, true}, {0, 2e9, true}, {0, 1e9, true}, {0, 0, true}}, []float64{0.125, 0.25, 0.125, 0},
		},
		"no objects, no time": {[]load{{0, 0, true}, {0, 0, true}, {0, 0, true}, {0, 0, true}}, []float64{0, 0, 0, 0}},
		"one has not published: it has changed as the others have": {
			[]load{{2 * 110, 2 * 110e6, true}, {2 * 210, 2 * 210e6, true}, {2 * 310, 2 * 310e6, true}, {}},
			[]float64{11. / 104, 21. / 104, 31. / 104, 41. / 104},
		},
		"one has published: the others have changed as it has": {
			[]load{{}, {}, {77 * 310, 1e9, true}, {}}, []float64{11. / 104, 21. / 104, 31. / 104, 41. / 104},
		},
		"one has published that it has nothing": {[]load{{}, {}, {0, 0, true}, {}}, []float64{0, 0, 0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got := d.weigh(c.of, 2)
			for slot, want := range c.want {
				g.Expect(got[slot]).To(BeNumerically("~", want, 0.001), "%v", got)
			}
		})
	}
}

// As with the objects that were counted when the ranges were chosen, so with those that replicas have published.
func TestPublishedObjectsBalanceAsCountedOnesDo(t *testing.T) {
	for name, namespaces := range sets() {
		of := map[string]int{}
		for n, namespace := range namespaces {
			of[namespace] = 1 + n%7
		}
		d := recorded(t, of, 64)
		live := make([]load, 64)
		for slot, objects := range d.weights {
			live[slot] = load{int64(objects), int64(objects) * 1000, true}
		}
		for _, n := range []int{3, 16} {
			g := NewWithT(t)
			weights := d.weigh(live, n)
			p := planByWeight(make([]string, 64), replicas(n), weights)
			g.Expect(heaviestShare(p.target, replicas(n), weights)).To(BeNumerically("<=", 1.2), name)
			g.Expect(planByWeight(p.target, replicas(n), d.weights).target).To(Equal(p.target), "%s: both are the same", name)
		}
	}
}

func TestASlotIsMeasuredWhenItsKeysHaveBeenReconciledOnce(t *testing.T) {
	g := NewWithT(t)
	meters, now := map[int]*meter{}, time.Now()
	came, busy := now, time.Duration(0)
	step := func(took time.Duration) map[int]load {
		now, busy = now.Add(time.Minute), busy+took
		return measure(meters, []slots.Work{{Slot: 3, Since: came, Objects: 70, Busy: busy}}, now)
	}
	for range 4 {
		g.Expect(step(time.Hour)).To(BeEmpty(), "it has come, and all its keys are reconciled")
	}
	for range smoothing - 1 {
		g.Expect(step(6 * time.Second)).To(BeEmpty())
	}
	g.Expect(step(6*time.Second)).To(Equal(map[int]load{3: {70, 100_000, true}}), "a tenth of each second")
	g.Expect(step(60*time.Second)).To(Equal(map[int]load{3: {70, 280_000, true}}), "a fifth of what is new")
	for range 20 {
		step(60 * time.Second)
	}
	g.Expect(step(60 * time.Second)[3].busy).To(BeNumerically("~", 1_000_000, 10_000))
	came, busy = now, 0
	for range 8 {
		g.Expect(step(0)).To(BeEmpty(), "it has left and come back")
	}
	g.Expect(step(0)).To(Equal(map[int]load{3: {70, 0, true}}))
	g.Expect(measure(meters, nil, now)).To(BeEmpty())
	g.Expect(meters).To(BeEmpty(), "slots that have left are not retained")
	g.Expect(bounded(math.Inf(1))).To(BeEquivalentTo(1<<loadBits - 1))
	g.Expect(bounded(-1)).To(BeZero())
}

func TestLoadsArePublishedWhenTheyHaveChangedNoticeably(t *testing.T) {
	g := NewWithT(t)
	published := map[int]load{1: {1000, 500_000, true}, 2: {1000, 500_000, true}}
	for _, same := range []map[int]load{
		nil, {}, published, {1: {1100, 540_000, true}, 2: {950, 470_000, true}}, {2: {1000, 500_000, true}},
	} {
		g.Expect(differ(published, same)).To(BeFalse(), "%v", same)
	}
	for _, other := range []map[int]load{
		{1: {1000, 500_000, true}, 2: {1000, 500_000, true}, 3: {0, 0, true}},
		{1: {1300, 500_000, true}, 2: {1000, 500_000, true}},
		{1: {1000, 500_000, true}, 2: {1000, 700_000, true}},
		{1: {0, 0, true}, 2: {0, 0, true}},
	} {
		g.Expect(differ(published, other)).To(BeTrue(), "%v", other)
	}
	g.Expect(differ(map[int]load{1: {3, 40, true}}, map[int]load{1: {9, 4000, true}})).To(BeFalse(), "so little is no matter")
}

// records of a group of Leases, as one replica sees them.
func (r *Ranges) see(kind string, name, holder string, annotations map[string]string) {
	lease := &coordinationv1.Lease{}
	lease.Name, lease.Annotations = name, annotations
	lease.Labels = map[string]string{record.GroupLabel: r.records.name, record.KindLabel: kind}
	if kind == slotKind {
		lease.Labels[slotLabel] = name[strings.LastIndexByte(name, '-')+1:]
	}
	if holder != "" {
		lease.Spec.HolderIdentity = &holder
	}
	r.view.observe(lease, false, time.Now())
}

func ranges(t *testing.T, namespaces map[string]int, slots int) *Ranges {
	t.Helper()
	g := NewWithT(t)
	r, err := NewRanges(leader.Lease{
		Client: fake.NewClientset().CoordinationV1(), Namespace: "default", Name: "test", Identity: "a",
	}, &Options{Slots: slots})
	g.Expect(err).NotTo(HaveOccurred())
	chosen, config := divide(namespaces, slots), map[string]string{}
	r.proposal.Store(&chosen)
	r.propose(config)
	g.Expect(r.adopt(config)).To(Succeed())
	return r
}

func TestTheLoadOfASlotIsThatOfItsOwnerOrOfItsRecord(t *testing.T) {
	g := NewWithT(t)
	r := ranges(t, map[string]int{"ns": 100}, 4)
	loads := func(text string) map[string]string {
		return map[string]string{record.LoadAnnotation: r.divided().mark + " " + text}
	}
	g.Expect(r.learn(r.view)).To(BeFalse())
	r.see(slotKind, "test-slot-0", "a_1.1", nil)
	r.see(slotKind, "test-slot-1", "b_2.1", loads("1:10:11"))
	r.see(slotKind, "test-slot-2", "", loads("2:20:21"))
	r.see(slotKind, "test-slot-3", "c_3.1", nil)
	r.see(record.MemberKind, "test-member-a", "a_1.1", loads("0:1:2 1:666:666 2:666:666"))
	r.see(record.MemberKind, "test-member-b", "b_2.1", loads("")) // it has not measured yet
	r.see(record.MemberKind, "test-member-c", "", loads("3:30:31"))
	g.Expect(r.learn(r.view)).To(BeTrue())
	g.Expect(r.loads.of).To(Equal([]load{{1, 2, true}, {10, 11, true}, {20, 21, true}, {30, 31, true}}),
		"a has published nothing of b's slots, and c was expired")
	g.Expect(r.learn(r.view)).To(BeFalse())

	r.see(record.MemberKind, "test-member-a", "a_1.1", loads("0:1:NaN"))
	r.see(record.MemberKind, "test-member-b", "b_2.1", loads("1:7:8"))
	g.Expect(r.learn(r.view)).To(BeTrue())
	g.Expect(r.loads.of).To(Equal([]load{{}, {7, 8, true}, {20, 21, true}, {30, 31, true}}))

	lease := &coordinationv1.Lease{}
	r.keepLoad(0, lease)
	g.Expect(lease.Annotations).To(BeNil())
	r.keepLoad(3, lease)
	g.Expect(lease.Annotations).To(Equal(loads("3:30:31")))
	before := lease.Annotations
	r.keepLoad(1, lease)
	g.Expect(lease.Annotations).To(Equal(loads("1:7:8")))
	g.Expect(before).To(Equal(loads("3:30:31")), "annotations of a record are shared")

	// The same records after the ranges were chosen anew.
	other, config := divide(map[string]int{"a": 1, "b": 1, "c": 1, "d": 1}, 4), map[string]string{}
	r.proposal.Store(&other)
	r.propose(config)
	g.Expect(r.adopt(config)).To(Succeed())
	g.Expect(r.learn(r.view)).To(BeFalse())
	g.Expect(r.loads.of).To(Equal(make([]load, 4)))
}

func TestWhatIsEditedBetweenTwoRenewalsDoesNotCount(t *testing.T) {
	g := NewWithT(t)
	d, lease := recorded(t, nil, 4), &coordinationv1.Lease{}
	write := func(renewed time.Time, text string) {
		lease.Spec.RenewTime = new(metav1.NewMicroTime(renewed))
		lease.Annotations = map[string]string{record.LoadAnnotation: text}
	}
	now := time.Now()
	write(now, d.mark+" 1:2:3")
	p := publishedLoads{}.read(d, lease)
	g.Expect(p.of).To(Equal(map[int]load{1: {2, 3, true}}))
	for _, text := range []string{"", d.mark, d.mark + " 1:4:5"} {
		write(now, text)
		p = p.read(d, lease)
		g.Expect(p.of).To(Equal(map[int]load{1: {2, 3, true}}))
	}
	write(now.Add(time.Second), d.mark+" 1:4:5")
	p = p.read(d, lease)
	g.Expect(p.of).To(Equal(map[int]load{1: {4, 5, true}}))
	g.Expect(p.read(d, nil)).To(BeZero())
}

// A replica that publishes other loads is planned for anew.
func TestAPlanIsMadeAnewWhenLoadsChange(t *testing.T) {
	g := NewWithT(t)
	r := ranges(t, nil, 4)
	p := &planner{ranges: r}
	owners, members := []string{"a_1.1", "a_1.1", "b_2.1", "b_2.1"}, []string{"a_1.1", "b_2.1"}
	for slot, owner := range owners {
		r.see(slotKind, fmt.Sprint("test-slot-", slot), owner, nil)
	}
	g.Expect(r.learn(r.view)).To(BeFalse())
	weights := r.weights(2)
	g.Expect(p.plan(owners, members).target).To(Equal(owners))
	r.see(record.MemberKind, "test-member-a", "a_1.1", map[string]string{
		record.LoadAnnotation: r.divided().mark + " 0:500:0 1:500:0",
	})
	r.see(record.MemberKind, "test-member-b", "b_2.1", map[string]string{
		record.LoadAnnotation: r.divided().mark + " 2:100:0 3:100:0",
	})
	g.Expect(r.learn(r.view)).To(BeTrue())
	g.Expect(p.plan(owners, members).target).To(Equal(owners))
	p.forget()
	g.Expect(p.plan(owners, members).target).NotTo(Equal(owners))

	r.see(record.MemberKind, "test-member-c", "c_3.1", nil)
	g.Expect(r.learn(r.view)).To(BeTrue(), "c is of an older build")
	g.Expect(r.weights(3)).To(Equal(weights))
	r.see(record.MemberKind, "test-member-c", "", nil)
	g.Expect(r.learn(r.view)).To(BeTrue(), "it has ended")
	g.Expect(r.weights(3)).NotTo(Equal(weights))
}

func TestNoiseMovesNoSlotOfAPlan(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for name, namespaces := range sets() {
		of := map[string]int{}
		for n, namespace := range namespaces {
			of[namespace] = 1 + n%7
		}
		d := recorded(t, of, 64)
		for _, n := range []int{3, 16} {
			g := NewWithT(t)
			p := planByWeight(make([]string, 64), replicas(n), d.weights)
			for range 100 {
				live := make([]load, 64)
				for slot, objects := range d.weights {
					live[slot] = load{int64(objects), int64(objects * 1e5 * (0.95 + 0.1*random.Float64())), true}
				}
				next := planByWeight(p.target, replicas(n), d.weigh(live, n))
				g.Expect(next.target).To(Equal(p.target), "%s, %d replicas", name, n)
			}
		}
	}
}

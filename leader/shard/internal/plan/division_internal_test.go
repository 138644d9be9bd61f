package plan

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/keyspace"
)

// sets are namespaces whose hashes lie close together, and such that spread.
func sets() map[string][]string {
	numbered := func(format string, n int) (names []string) {
		for i := range n {
			names = append(names, fmt.Sprintf(format, i+1))
		}
		return names
	}
	random := rand.New(rand.NewPCG(1, 2))
	var uuids []string
	for range 1000 {
		a, b := random.Uint64(), random.Uint64()
		uuids = append(uuids, fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", a>>32, a>>16&0xffff, a&0xffff, b>>48, b&(1<<48-1)))
	}
	return map[string][]string{
		"team-01…99": numbered("team-%02d", 99), "pr-1…2000": numbered("pr-%d", 2000),
		"tenant-00001…10000": numbered("tenant-%05d", 10_000), "uuids": uuids,
	}
}

func replicas(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("r%02d_1", i))
	}
	return names
}

// heaviestShare returns the weight of the heaviest member relative to the mean.
func heaviestShare(owners, members []string, weights []float64) float64 {
	load := map[string]float64{}
	total := 0.0
	for slot, owner := range owners {
		load[owner] += weights[slot]
		total += weights[slot]
	}
	return slices.Max(slices.Collect(maps.Values(load))) * float64(len(members)) / total
}

func TestTheHeaviestReplicaHasAFifthMoreThanTheMeanAtMost(t *testing.T) {
	for name, namespaces := range sets() {
		equal, skewed := map[string]int{}, map[string]int{}
		for n, namespace := range namespaces {
			equal[namespace], skewed[namespace] = 1, 1+n%7
		}
		for kind, weights := range map[string]map[string]int{"equal": equal, "skewed": skewed} {
			d := Divide(weights, 64)
			for _, n := range []int{3, 16} {
				t.Run(fmt.Sprintf("%s/%s/replicas=%d", name, kind, n), func(t *testing.T) {
					g := NewWithT(t)
					members := replicas(n)
					p := Weigh(make([]string, 64), members, d.Weights)
					share := heaviestShare(p.Target, members, d.Weights)
					t.Logf("the heaviest replica has %.3f of the mean", share)
					g.Expect(share).To(BeNumerically("<=", 1.2))

					// One more member takes its share, and no slot moves
					// between the others.
					members = replicas(n + 1)
					next := Weigh(p.Target, members, d.Weights)
					moved := 0.0
					for slot, owner := range next.Target {
						if owner != p.Target[slot] {
							g.Expect(owner).To(Equal(members[n]))
							moved += d.Weights[slot]
						}
					}
					g.Expect(heaviestShare(next.Target, members, d.Weights)).To(BeNumerically("<=", 1.4))
					g.Expect(moved).To(BeNumerically("<=", 1.3*sum(d.Weights)/float64(n+1)))
					g.Expect(Weigh(next.Target, members, d.Weights).Target).To(Equal(next.Target), "it stays")
				})
			}
		}
	}
}

// Sums of weights are rounded. A slot that weighs as much as the difference of
// two members must not oscillate between them.
func TestAPlanByWeightEnds(t *testing.T) {
	for _, namespaces := range []int{100, 1000, 10007, 12345} {
		g := NewWithT(t)
		equal := map[string]int{}
		for n := range namespaces {
			equal[fmt.Sprintf("tenant-%05d", n)] = 7
		}
		d := Divide(equal, 64)
		for _, n := range []int{2, 3, 5, 9, 16, 24, 33, 45, 60} {
			p := Weigh(make([]string, 64), replicas(n), d.Weights)
			for joined := range 5 {
				p = Weigh(p.Target, replicas(n+joined), d.Weights)
				g.Expect(p.Target).NotTo(ContainElement(Unowned))
			}
		}
	}
}

// 16 members have about the mean of 16. When a 17th member joins, no member is
// far above the mean of 17.
func TestAMemberThatJoinsGetsAShare(t *testing.T) {
	g := NewWithT(t)
	d := Divide(nil, 256)
	for n := range d.Weights {
		d.Weights[n] = 1
	}
	p := Weigh(make([]string, 256), replicas(16), d.Weights)
	p = Weigh(p.Target, replicas(17), d.Weights)
	of := 0
	for _, owner := range p.Target {
		if owner == replicas(17)[16] {
			of++
		}
	}
	g.Expect(of).To(BeNumerically(">=", 7), "half of the mean")
	g.Expect(of).To(BeNumerically("<=", 16))
}

// A slot that is heavier than the total of another member cannot make the two
// more equal. A member that joins must nevertheless get slots from the other
// members.
func TestAMemberThatJoinsGetsAShareBesideAHeavySlot(t *testing.T) {
	g := NewWithT(t)
	weights := []float64{40}
	for range 63 {
		weights = append(weights, 1)
	}
	p := Weigh(make([]string, 64), replicas(2), weights)
	for _, n := range []int{3, 4, 5} {
		p = Weigh(p.Target, replicas(n), weights)
		g.Expect(Weigh(p.Target, replicas(n), weights).Target).To(Equal(p.Target), "nothing moves any more")
		light := map[string]int{}
		for _, owner := range p.Target[1:] {
			light[owner]++
		}
		for _, member := range replicas(n) {
			if member != p.Target[0] {
				g.Expect(light[member]).To(BeNumerically(">=", 10), "of %d: %v", n, light)
			}
		}
	}
}

func TestRangesCoverAllHashesAndWeighAsTheirNamespaces(t *testing.T) {
	for name, namespaces := range sets() {
		g := NewWithT(t)
		weights := map[string]int{}
		for n, namespace := range namespaces {
			weights[namespace] = 1 + n%3
		}
		for _, slots := range []int{1, 2, 64, 1024} {
			d := Divide(weights, slots)
			text := d.String()
			again, err := Parse(text, slots)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(again.bounds).To(Equal(d.bounds))
			g.Expect(len(text)).To(BeNumerically("<", 40*slots+1), "what is recorded")
			g.Expect(d.bounds).To(HaveLen(slots), name)
			in, all := make([]float64, slots), keyspace.Set(nil)
			for slot := range slots {
				all = keyspace.Union(all, keyspace.Set{d.RangeOf(slot)})
			}
			g.Expect(all.IsWhole()).To(BeTrue())
			for namespace, weight := range weights {
				slot := d.SlotOf(namespace)
				g.Expect(d.RangeOf(slot).Contains(keyspace.Of(namespace))).To(BeTrue())
				in[slot] += float64(weight)
			}
			for slot := range slots {
				g.Expect(d.Weights[slot]).To(BeNumerically("~", in[slot], 1e-6), "%s slot %d", name, slot)
			}
		}
	}
}

// To halve the heaviest again and again would make one of 6.
func TestThePiecesOfARangeAreNoHeavierThanNecessary(t *testing.T) {
	all := &piece{Range: keyspace.Range{Last: math.MaxUint64}}
	for n, weight := range []float64{2, 2, 2, 3, 3} {
		all.names = append(all.names, &namespace{uint64(n), weight})
		all.weight += weight
	}
	var weights []float64
	g := NewWithT(t)
	next := uint64(0)
	for _, p := range pack(all, 3) {
		g.Expect(p.First).To(Equal(next))
		next = p.Last + 1
		weights = append(weights, p.weight)
		for _, w := range p.names {
			g.Expect(p.Contains(w.hash)).To(BeTrue(), "even between adjacent hashes")
		}
	}
	g.Expect(weights).To(Equal([]float64{4, 5, 3}))
	for hash, weights := range map[uint64][]float64{4: {7, 0}, 5: {7, 0}, 6: {0, 7}} {
		a, b := (&piece{Range: keyspace.Range{Last: 10}, names: []*namespace{{hash, 7}}, weight: 7}).halves()
		g.Expect([]float64{a.weight, b.weight}).To(Equal(weights), "the halves are up to 5, and from 6 on")
	}
}

// The weight of a piece is a difference, and may be rounded up.
func TestBothHalvesHaveANamespace(t *testing.T) {
	g := NewWithT(t)
	p := piece{Range: keyspace.Range{Last: 10}, names: []*namespace{{3, 0}, {7, 0.1}}, weight: math.Nextafter(0.1, 1)}
	a, b := p.halves()
	g.Expect(a.names).To(Equal(p.names[:1]))
	g.Expect(b.names).To(Equal(p.names[1:]))
}

// A piece with one namespace cannot be made lighter.
func TestTheHeaviestPieceThatCanBeDividedIsHalved(t *testing.T) {
	g := NewWithT(t)
	of := func(weight float64, names int, width uint64) *piece {
		return &piece{Range: keyspace.Range{Last: width}, names: make([]*namespace, names), weight: weight}
	}
	g.Expect(heaviest([]*piece{of(7, 1, 9), of(5, 2, 1), of(6, 3, 1), of(3, 4, 9), of(7, 1, 9)})).To(Equal(2))
	g.Expect(heaviest([]*piece{of(5, 2, 1), of(7, 1, 9), of(5, 2, 9)})).To(Equal(0), "the first of equal ones")
	g.Expect(heaviest([]*piece{of(7, 1, 3), of(1, 1, 8), of(0, 0, 9), of(0, 0, 9), of(8, 1, 2)})).To(Equal(2), "the widest")
}

func TestNamespacesWithOneHashAreMerged(t *testing.T) {
	all := merge([]*namespace{{1, 2}, {1, 3}, {2, 4}, {2, 5}, {3, 6}})
	NewWithT(t).Expect(all).To(Equal([]*namespace{{1, 5}, {2, 9}, {3, 6}}))
}

func TestRangesWithoutNamespacesAreEqual(t *testing.T) {
	g := NewWithT(t)
	d := Divide(nil, 64)
	for slot, bound := range d.bounds {
		g.Expect(bound).To(Equal(uint64(slot) << 58))
	}
	p := Weigh(make([]string, 64), replicas(3), d.Weights)
	count := map[string]int{}
	for _, owner := range p.Target {
		count[owner]++
	}
	g.Expect(count).To(Equal(map[string]int{"r00_1": 22, "r01_1": 21, "r02_1": 21}))
	g.Expect(Weigh(p.Target, nil, d.Weights).Target).To(Equal(p.Target), "without members all stays")
}

func TestInvalidRangesAreRefused(t *testing.T) {
	g := NewWithT(t)
	for _, text := range []string{"", "1:1", "0:1 5", "0:1 0:1", "0:1 5:x", "x:1 5:1", "0:1 5:1 6:1", "0:1:0:1 5:1:1:2", "0:1 5", "0:-1 5:1", "0:NaN 5:1", "0:+Inf 5:1"} {
		_, err := Parse(text, 2)
		g.Expect(err).To(HaveOccurred(), text)
	}
}

// uneven returns two heavy namespaces, with half and with 40 % of all objects,
// and light ones.
func uneven() map[string]int {
	namespaces := map[string]int{"big": 4000, "bigger": 5000, "some": 100}
	for n := range 90 {
		namespaces[fmt.Sprint("small-", n)] = 10
	}
	return namespaces
}

func TestTheNamespacesThatMayBeTooHeavyAreRecorded(t *testing.T) {
	g := NewWithT(t)
	d := Divide(uneven(), 64)
	text := FormatHeavy(d.Heavy)
	g.Expect(text).To(MatchRegexp(`^.{"Name":"bigger","Share":0.5.*},{"Name":"big","Share":0.4.*}.$`))
	g.Expect(ParseHeavy(text)).To(Equal(d.Heavy))
	for _, edited := range []string{"", "x", `[{"Name":"big","Share":"x"}]`} {
		g.Expect(ParseHeavy(edited)).To(BeNil(), edited)
	}
	g.Expect(Divide(nil, 64).Heavy).To(BeEmpty())
	even := map[string]int{}
	for n := range 64 {
		even[fmt.Sprint("team-", n)] = 10
	}
	g.Expect(Divide(even, 64).Heavy).To(BeEmpty(), "a 64th is light")
}

package keyspace_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/sharding"

	"github.com/homeostat/homeostat/internal/keyspace"
)

func TestTheHashEqualsTheServers(t *testing.T) {
	g := NewWithT(t)
	for _, namespace := range []string{"", "a", "team-01", "kube-system"} {
		g.Expect(fmt.Sprintf("%016x", keyspace.Of(namespace))).To(Equal(sharding.HashField(namespace)))
		g.Expect(keyspace.Of([]byte(namespace))).To(Equal(keyspace.Of(namespace)))
	}
}

// Sets of 16 hashes, which include the last hash, are compared with maps.
func TestSetsContainTheirHashes(t *testing.T) {
	const last = math.MaxUint64
	random := rand.New(rand.NewPCG(1, 2))
	draw := func() (set keyspace.Set, model [16]bool) {
		var ranges []keyspace.Set
		for range random.IntN(4) {
			a, b := random.Uint64N(16), random.Uint64N(16)
			first, to := min(a, b), max(a, b)
			ranges = append(ranges, keyspace.Set{{last - 15 + first, last - 15 + to}})
			for n := first; n <= to; n++ {
				model[n] = true
			}
		}
		return keyspace.Union(ranges...), model
	}
	for range 2000 {
		g := NewWithT(t)
		a, inA := draw()
		b, inB := draw()
		minus, union, includes := a.Minus(b), keyspace.Union(a, b), true
		for n := range uint64(16) {
			hash := last - 15 + n
			g.Expect(a.Contains(hash)).To(Equal(inA[n]), "%v %d", a, n)
			g.Expect(minus.Contains(hash)).To(Equal(inA[n] && !inB[n]), "%v minus %v: %d", a, b, n)
			g.Expect(union.Contains(hash)).To(Equal(inA[n] || inB[n]), "%v and %v: %d", a, b, n)
			includes = includes && (inA[n] || !inB[n])
		}
		g.Expect(a.Includes(b)).To(Equal(includes), "%v includes %v", a, b)
		for n := 1; n < len(union); n++ {
			g.Expect(union[n].First).To(BeNumerically(">", union[n-1].Last+1), "%v", union)
		}
	}
}

func TestASelectorMatchesWhatTheSetHas(t *testing.T) {
	g := NewWithT(t)
	half := keyspace.Set{{0, math.MaxUint64 / 2}}
	other := keyspace.Whole().Minus(half)
	g.Expect(keyspace.Whole().Selector()).To(BeEmpty())
	g.Expect(keyspace.Union(half, other).IsWhole()).To(BeTrue())
	g.Expect(half.Selector()).To(Equal(
		"shardRange(object.metadata.namespace, '0x0000000000000000', '0x8000000000000000')"))
	for n := range 100 {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprint("ns-", n)}}
		for _, set := range []keyspace.Set{half, other, nil} {
			var terms []sharding.ShardRangeRequirement
			for _, r := range set {
				parsed, ok, err := keyspace.Parse(r.Requirement())
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(ok).To(BeTrue())
				g.Expect(parsed).To(Equal(r))
				terms = append(terms, sharding.ShardRangeRequirement(r.Requirement()))
			}
			matches, err := sharding.NewSelector(terms...).Matches(pod)
			g.Expect(err).NotTo(HaveOccurred())
			again, err := keyspace.FromSelector(set.Selector())
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(again).To(Equal(set))
			g.Expect(keyspace.Has(set, pod.Namespace)).To(Equal(matches && set != nil), "%s in %v", pod.Namespace, set)
		}
	}
	g.Expect(keyspace.Has(half, "")).To(BeTrue(), "what has no namespace is in every shard")
	g.Expect(keyspace.Has(other, "")).To(BeTrue())
}

func TestAnInvalidRangeIsRefused(t *testing.T) {
	g := NewWithT(t)
	parse := func(key, start, end string) error {
		_, ok, err := keyspace.Parse(keyspace.Requirement{Key: key, Start: start, End: end})
		g.Expect(ok).To(BeFalse())
		return err
	}
	g.Expect(parse("object.metadata.uid", "0x0", "0x1")).To(MatchError(ContainSubstring(`must be "object.metadata.namespace"`)))
	g.Expect(parse(keyspace.Field, "5", "0x6")).To(MatchError(ContainSubstring("must begin with 0x")))
	g.Expect(parse(keyspace.Field, "0x1", "0xg")).To(MatchError(ContainSubstring(`the bound of a range is "0xg"`)))
	_, err := keyspace.FromSelector("shardRange(object.metadata.namespace)")
	g.Expect(err).To(MatchError(ContainSubstring("must have the form shardRange")))
	g.Expect(parse(keyspace.Field, "0x5", "0x5")).To(Succeed(), "an empty range is none")
}

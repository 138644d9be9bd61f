package ranges_test

import (
	"context"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/sharding"

	"github.com/homeostat/homeostat/internal/slots"
	"github.com/homeostat/homeostat/internal/test/leaseapi"
)

// filling is a cache that records its additions and removals.
type filling struct {
	slots.Cache

	held []sharding.ShardRangeRequirement
	err  error
}

func (f *filling) AddShards(
	_ context.Context, shards ...sharding.ShardRangeRequirement,
) (func(...sharding.ShardRangeRequirement), error) {
	if f.err != nil {
		return nil, f.err
	}
	f.held = append(f.held, shards...)
	return func(gone ...sharding.ShardRangeRequirement) {
		f.held = slices.DeleteFunc(f.held, func(s sharding.ShardRangeRequirement) bool { return slices.Contains(gone, s) })
	}, nil
}

func TestDropRemovesTheRangeThatWasAdded(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a := x.ranged("a", nil)
		pass(10 * time.Second)
		cache := &filling{}
		drop, err := ranger(a).Fill(x.T.Context(), []slots.Cache{cache}, []int{2, 3})
		x.Expect(err).NotTo(HaveOccurred())
		x.Expect(cache.held).To(HaveLen(2))
		drop(3)
		x.Expect(cache.held).To(ConsistOf(HaveField("Start", "0x8000000000000000")))
		drop(2)
		x.Expect(cache.held).To(BeEmpty())
		a.end()
	})
}

func TestCachesAreFilledTogetherOrNotAtAll(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a := x.ranged("a", nil)
		pass(10 * time.Second)
		cache, broken := &filling{}, &filling{err: leaseapi.ErrForbidden}
		_, err := ranger(a).Fill(x.T.Context(), []slots.Cache{cache, broken}, []int{2, 3})
		x.Expect(err).To(MatchError(leaseapi.ErrForbidden))
		x.Expect(cache.held).To(BeEmpty())
		a.end()
	})
}

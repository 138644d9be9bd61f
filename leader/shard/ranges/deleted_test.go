package ranges_test

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/slots"
	"github.com/homeostat/homeostat/internal/test/leaseapi"
	"github.com/homeostat/homeostat/leader/shard/ranges"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/types"
)

// aging is a cache whose resourceVersion is the number of seconds since its
// start.
type aging struct {
	slots.Cache
	began time.Time
	asked string
}

func (a *aging) SeenResourceVersion() string { return fmt.Sprint(int(time.Since(a.began).Seconds())) }

func (a *aging) DeletedSince(
	_ context.Context, rv string, _ func(types.NamespacedName), _ ...sharding.ShardRangeRequirement,
) error {
	a.asked = rv
	return nil
}

// An owner may drain for any length of time.
func TestRangesRememberAsLongAsDeletedLooksBack(t *testing.T) {
	for _, ago := range []time.Duration{time.Minute, time.Hour} {
		inBubble(t, func(x *fixture) {
			r, err := ranges.New(leaseOf(x.API.Link(1), "a"), nil)
			x.Expect(err).NotTo(HaveOccurred())
			cache := &aging{began: time.Now()}
			stop := x.Run(func(ctx context.Context) error { ranger(r).Remember(ctx, cache, ago); return nil })
			pass(3 * time.Hour)
			x.Expect(ranger(r).Deleted(x.T.Context(), cache, nil, ago, nil)).To(Succeed())
			moment := (3*time.Hour - ago).Seconds()
			asked, err := strconv.Atoi(cache.asked)
			x.Expect(err).NotTo(HaveOccurred())
			x.Expect(asked).To(And(BeNumerically("<=", moment), BeNumerically(">=", moment-15)))
			stop()
		})
	}
}

// unlistable is a cache whose kind cannot be listed while refuses is set.
type unlistable struct {
	slots.Cache
	refuses atomic.Bool
}

func (u *unlistable) ServerResourceVersion(context.Context) (string, error) {
	if u.refuses.Load() {
		return "", leaseapi.ErrForbidden
	}
	return "1", nil
}

// forgetful is an aging cache whose server remembers events for five minutes.
type forgetful struct {
	aging
	requests int
}

func (*forgetful) CountNamespaces(context.Context) (map[string]int, error) { return nil, nil }

func (f *forgetful) DeletedSince(
	ctx context.Context, rv string, found func(types.NamespacedName), shards ...sharding.ShardRangeRequirement,
) error {
	f.requests++
	if from, err := strconv.Atoi(rv); err != nil || time.Since(f.began)-time.Duration(from)*time.Second > 5*time.Minute {
		return apierrors.NewResourceExpired(rv)
	}
	return f.aging.DeletedSince(ctx, rv, found, shards...)
}

// A replica that waits for a permission for an hour looks back only as far as
// the server remembers, and does not try the whole hour.
func TestRangesRememberWhileAKindCannotBeListed(t *testing.T) {
	inBubble(t, func(x *fixture) {
		r, err := ranges.New(leaseOf(x.API.Link(1), "a"), nil)
		x.Expect(err).NotTo(HaveOccurred())
		primary, other := &forgetful{aging: aging{began: time.Now()}}, &unlistable{}
		other.refuses.Store(true)
		wait := background(func() error { return ranger(r).Divide(x.T.Context(), []slots.Cache{primary, other}) })
		pass(time.Hour)
		other.refuses.Store(false)
		x.Expect(wait()).To(Succeed())
		x.Expect(ranger(r).Deleted(x.T.Context(), primary, nil, 2*time.Hour, nil)).To(Succeed())
		x.Expect(primary.requests).To(BeNumerically("<=", 3))
		asked, err := strconv.Atoi(primary.asked)
		x.Expect(err).NotTo(HaveOccurred())
		x.Expect(asked).To(BeNumerically("~", (55 * time.Minute).Seconds(), 5))
	})
}

// failing is an aging cache whose server fails, or no longer remembers any
// event.
type failing struct {
	aging
	err      error
	requests int
}

func (f *failing) DeletedSince(
	context.Context, string, func(types.NamespacedName), ...sharding.ShardRangeRequirement,
) error {
	f.requests++
	return f.err
}

func TestDeletedLooksBackLessOnlyIfTheServerNoLongerRemembers(t *testing.T) {
	for err, requests := range map[error]int{
		apierrors.NewResourceExpired("too old"): 4, leaseapi.ErrForbidden: 1,
		apierrors.NewGone("too old"): 4, //nolint:staticcheck // servers may answer it
	} {
		inBubble(t, func(x *fixture) {
			r, e := ranges.New(leaseOf(x.API.Link(1), "a"), nil)
			x.Expect(e).NotTo(HaveOccurred())
			cache := &failing{aging: aging{began: time.Now()}, err: err}
			x.Expect(ranger(r).Deleted(x.T.Context(), cache, nil, time.Hour, nil)).To(Succeed(), "it remembers nothing yet")
			stop := x.Run(func(ctx context.Context) error { ranger(r).Remember(ctx, cache, time.Hour); return nil })
			pass(time.Minute + time.Second)
			x.Expect(ranger(r).Deleted(x.T.Context(), cache, nil, 59*time.Second, nil)).To(MatchError(err))
			x.Expect(cache.requests).To(Equal(requests), "there are four samples")
			stop()
		})
	}
}

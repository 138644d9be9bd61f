package ranges_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/slots"
	"github.com/homeostat/homeostat/internal/test/leaseapi"
	"github.com/homeostat/homeostat/leader/shard/ranges"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/types"
)

func TestAPageForTheRangesIsNoMissingRecord(t *testing.T) {
	inBubble(t, func(x *fixture) {
		link := x.API.Link(1)
		link.Set(func(l *leaseapi.Link) { l.FailGet = x.Pages("test")["HTML"] })
		r, err := ranges.New(leaseOf(link, "a"), nil)
		x.Expect(err).NotTo(HaveOccurred())
		ctx, cancel := context.WithCancel(x.T.Context())
		wait := background(func() error { return r.Run(ctx, x.Work("a", 0)) })
		pass(5 * time.Second)
		x.Expect(r.Ready()).To(MatchError(And(ContainSubstring("reading lease"), Not(ContainSubstring("must exist")))))
		cancel()
		x.Expect(wait()).To(Succeed())
	})
}

// If the server no longer remembers a time, Deleted looks back less far and
// misses deletions. It must not do so because of the page of a proxy.
func TestAPageIsNoExpiredResourceVersion(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a := x.ranged("a", nil)
		cache := &unremembering{aging: aging{began: time.Now()}}
		stop := x.Run(func(ctx context.Context) error { ranger(a).Remember(ctx, cache, time.Hour); return nil })
		pass(time.Hour)
		cache.err = apierrors.NewGenericServerResponse(http.StatusGone, "get", schema.GroupResource{}, "", "", 0, true)
		x.Expect(ranger(a).Deleted(x.T.Context(), cache, nil, time.Hour, nil)).To(MatchError(cache.err))
		x.Expect(cache.calls).To(Equal(1))
		cache.err, cache.calls = apierrors.NewResourceExpired("too old"), 0
		x.Expect(ranger(a).Deleted(x.T.Context(), cache, nil, time.Hour, nil)).To(MatchError(cache.err))
		x.Expect(cache.calls).To(BeNumerically(">", 1))
		stop()
		a.end()
	})
}

// unremembering is a cache whose server does not remember events.
type unremembering struct {
	aging
	err   error
	calls int
}

func (f *unremembering) DeletedSince(
	context.Context, string, func(types.NamespacedName), ...sharding.ShardRangeRequirement,
) error {
	f.calls++
	return f.err
}

var _ slots.Cache = (*unremembering)(nil)

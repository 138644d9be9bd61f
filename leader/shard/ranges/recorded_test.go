package ranges_test

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/slots"
	"github.com/homeostat/homeostat/internal/test/leaseapi"
	"github.com/homeostat/homeostat/leader/shard"
	"github.com/homeostat/homeostat/leader/shard/ranges"
)

// waiting is a cache whose objects are unknown, because the server's answer is
// an error.
type waiting struct {
	unlistable
	uncounted unlistable
	objects   map[string]int
}

func (*waiting) SeenResourceVersion() string { return "" }

func (w *waiting) CountNamespaces(ctx context.Context) (map[string]int, error) {
	_, err := w.uncounted.ServerResourceVersion(ctx)
	return w.objects, err
}

// Ranges that were chosen without knowing the objects would stay.
func TestRangesAreNotChosenBeforeEverythingIsKnown(t *testing.T) {
	for name, fail := range map[string]func(primary, other *waiting, l *leaseapi.Link, fails bool){
		"the primary cannot be listed": func(p, _ *waiting, _ *leaseapi.Link, fails bool) { p.refuses.Store(fails) },
		"another cannot be listed":     func(_, o *waiting, _ *leaseapi.Link, fails bool) { o.refuses.Store(fails) },
		"the primary cannot be counted": func(p, _ *waiting, _ *leaseapi.Link, fails bool) {
			p.uncounted.refuses.Store(fails)
		},
		"the configuration cannot be read": func(_, _ *waiting, l *leaseapi.Link, fails bool) {
			l.Set(func(l *leaseapi.Link) {
				if l.Fail = nil; fails {
					l.Fail = leaseapi.ErrForbidden
				}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(x *fixture) {
				var logs diary
				primary, other, l := &waiting{objects: map[string]int{"big": 3, "small": 1}}, &waiting{}, x.API.Link(1)
				r, err := ranges.New(leaseOf(l, "a"), &shard.Options{Slots: 2})
				x.Expect(err).NotTo(HaveOccurred())
				fail(primary, other, l, true)
				stop := x.Run(func(ctx context.Context) error {
					ctx = logs.Log(ctx)
					if err := ranger(r).Divide(ctx, []slots.Cache{primary, other}); err != nil {
						return err
					}
					return r.Run(ctx, x.Work("a", 0))
				})
				pass(time.Minute + time.Second)
				x.Expect(r.Ready()).To(MatchError(ContainSubstring("forbidden")))
				x.Expect(logs.Count("failed, retrying")).To(Equal(31), "each two seconds")
				x.Expect(x.Owned()).To(BeEmpty())
				fail(primary, other, l, false)
				pass(10 * time.Second)
				x.Expect(logs.Count("namespace has too many objects")).To(Equal(1))
				x.Expect(logs.Count(`"namespace"="big"`)).To(Equal(1))
				weights := []float64{r.Status().Slots[0].Weight, r.Status().Slots[1].Weight}
				x.Expect(weights).To(ConsistOf(0.75, 0.25))
				stop()
			})
		})
	}
}

func TestNamespacesWithAThirdOfAllObjectsAreNotTooHeavy(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a := x.ranged("a", map[string]int{"a": 1, "b": 1, "c": 1})
		pass(10 * time.Second)
		x.Expect(a.logs.Count("ranges chosen")).To(Equal(1))
		x.Expect(a.logs.Count("too many objects")).To(BeZero())
		a.end()
	})
}

func TestDivideEndsWithItsContext(t *testing.T) {
	inBubble(t, func(x *fixture) {
		r, err := ranges.New(leaseOf(x.API.Link(1), "a"), nil)
		x.Expect(err).NotTo(HaveOccurred())
		refusing, why := &waiting{}, errors.New("no longer needed")
		refusing.refuses.Store(true)
		ctx, cancel := context.WithCancelCause(x.T.Context())
		wait := background(func() error { return ranger(r).Divide(ctx, []slots.Cache{refusing}) })
		pass(time.Minute)
		cancel(why)
		x.Expect(wait()).To(MatchError(why))
	})
}

// While the server's resourceVersion is unknown, Deleted looks back from an
// earlier time.
func TestRangesRememberAgainWhenTheServerAnswers(t *testing.T) {
	inBubble(t, func(x *fixture) {
		var logs diary
		r, err := ranges.New(leaseOf(x.API.Link(1), "a"), nil)
		x.Expect(err).NotTo(HaveOccurred())
		cache := &waiting{}
		cache.refuses.Store(true)
		stop := x.Run(func(ctx context.Context) error { ranger(r).Remember(logs.Log(ctx), cache, time.Minute); return nil })
		pass(time.Minute)
		x.Expect(logs.Count("reading the server's resourceVersion failed")).To(Equal(4))
		cache.refuses.Store(false)
		pass(time.Minute)
		x.Expect(logs.Read()).To(HaveLen(4))
		stop()
		x.Expect(logs.Read()).To(HaveLen(4), "the end is not an error")
	})
}

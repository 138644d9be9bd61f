package shard_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/internal/slots"
	"github.com/homeostat/homeostat/internal/test/leaseapi"
	"github.com/homeostat/homeostat/leader/shard"
)

// leaving is a replica that leaves keys with each slot, and records the keys left for it.
type leaving struct {
	*shard.Shards
	link *leaseapi.Link
	stop func()
	cut  atomic.Int64 // keys that were not left, by the log

	mu    sync.Mutex // guards the fields below
	found map[int][]types.NamespacedName
}

func (x *fixture) leaving(identity string, keys func(slot int) []types.NamespacedName) *leaving {
	l := &leaving{link: x.api.Link(7), found: map[int][]types.NamespacedName{}}
	l.Shards = newShards(x.t, l.link, identity, &shard.Options{Slots: 4})
	logger := funcr.New(func(_, args string) {
		var slot, keys int
		if _, at, found := strings.Cut(args, `"slot"=`); found && strings.Contains(args, "keys not left") {
			_, _ = fmt.Sscanf(at, `%d "keys"=%d`, &slot, &keys)
			l.cut.Add(int64(keys))
		}
	}, funcr.Options{})
	l.stop = x.run(func(ctx context.Context) error {
		return l.Run(klog.NewContext(ctx, logger), func(ctx context.Context, slot int) error {
			x.take(slot, identity)
			defer x.leave(slot)
			l.mu.Lock()
			l.found[slot] = l.Left(slot)
			l.mu.Unlock()
			<-ctx.Done()
			l.Leave(slot, keys(slot))
			return nil
		})
	})
	return l
}

// left returns the keys that were left for the replica, as text.
func (l *leaving) left() (all string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for slot := range 4 {
		if keys, ok := l.found[slot]; ok {
			all += fmt.Sprintf("%d%v ", slot, keys)
		}
	}
	return strings.TrimSpace(all)
}

func keyOf(slot int) []types.NamespacedName {
	return []types.NamespacedName{{Namespace: "ns", Name: fmt.Sprint("of/", slot)}, {Name: "cluster"}}
}

func none(int) []types.NamespacedName { return nil }

func keysMoveWithTheirSlot(x *fixture) {
	a := x.leaving("a", keyOf)
	pass(10 * time.Second)
	x.Expect(a.left()).To(Equal("0[] 1[] 2[] 3[]"))
	a.stop()
	b := x.leaving("b", none)
	pass(10 * time.Second)
	all := "0[ns/of/0 /cluster] 1[ns/of/1 /cluster] 2[ns/of/2 /cluster] 3[ns/of/3 /cluster]"
	x.Expect(b.left()).To(Equal(all))
	b.link.Set(func(l *leaseapi.Link) { l.Fail = context.DeadlineExceeded })
	c := x.leaving("c", none)
	pass(time.Minute)
	x.Expect(c.left()).To(Equal(all), "b has died before it has released them")
	c.stop()
	d := x.leaving("d", none)
	pass(time.Minute)
	x.Expect(d.left()).To(Equal("0[] 1[] 2[] 3[]"), "c has finished with them")
	d.stop()
	b.stop()
}

func TestKeysThatCouldNotBeLeftAreNotForgotten(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a := x.leaving("a", keyOf)
		pass(10 * time.Second)
		open := make(chan struct{})
		a.link.Set(func(l *leaseapi.Link) { l.Cut, l.Stall = open, open })
		pass(time.Minute) // fenced
		a.link.Set(func(l *leaseapi.Link) { l.Cut, l.Stall = nil, nil })
		close(open)
		pass(time.Minute)
		x.Expect(a.left()).To(HavePrefix("0[ns/of/0 /cluster] "))
		a.stop()
	})
}

// The record of a slot that was lost is not this replica's to write.
func TestKeysOfASlotThatWasLostAreKeptUntilItComesBack(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a := x.leaving("a", keyOf)
		pass(10 * time.Second)
		a.stop()
		b := x.leaving("b", keyOf)
		pass(10 * time.Second)
		for range 2 {
			lease, err := x.api.Get("test-slot-0")
			x.Expect(err).NotTo(HaveOccurred())
			lease.Spec.HolderIdentity = new("other")
			delete(lease.Annotations, "leader.homeostat.dev/keys")
			_, err = x.api.Update(lease)
			x.Expect(err).NotTo(HaveOccurred())
			pass(10 * time.Second)
			lease, err = x.api.Get("test-slot-0")
			x.Expect(err).NotTo(HaveOccurred())
			x.Expect(lease.Spec.HolderIdentity).To(HaveValue(Equal("other")), "it is not released in its place")
			pass(2 * time.Minute)
			x.Expect(x.taken(0)).To(BeNumerically(">", 2))
			x.Expect(b.left()).To(HavePrefix("0[ns/of/0 /cluster] "), "once, and not forgotten")
		}
		lease, err := x.api.Get("test-slot-0")
		x.Expect(err).NotTo(HaveOccurred())
		lease.Spec.HolderIdentity = new("other")
		lease.Annotations = map[string]string{"leader.homeostat.dev/keys": `["ns/of/0"]`}
		_, err = x.api.Update(lease)
		x.Expect(err).NotTo(HaveOccurred())
		pass(2 * time.Minute)
		x.Expect(b.left()).To(HavePrefix("0[ns/of/0 /cluster] "), "the record has one of them, too")
		b.stop()
	})
}

// aging is a cache whose resourceVersion is how many seconds have passed.
type aging struct {
	slots.Cache
	began time.Time
	asked string
}

func (a *aging) LastResourceVersion() string { return fmt.Sprint(int(time.Since(a.began).Seconds())) }

func (a *aging) DeletedSince(
	_ context.Context, rv string, _ func(types.NamespacedName), _ ...sharding.ShardRangeRequirement,
) error {
	a.asked = rv
	return nil
}

// The time for which an owner may drain has no bound.
func TestRangesRememberAsLongAsDeletedLooksBack(t *testing.T) {
	for _, ago := range []time.Duration{time.Minute, time.Hour} {
		inBubble(t, func(x *fixture) {
			r, err := shard.NewRanges(leaseOf(x.api.Link(1), "a"), nil)
			x.Expect(err).NotTo(HaveOccurred())
			cache := &aging{began: time.Now()}
			stop := x.run(func(ctx context.Context) error { r.Remember(ctx, cache, ago); return nil })
			pass(3 * time.Hour)
			x.Expect(r.Deleted(x.t.Context(), cache, nil, ago, nil)).To(Succeed())
			moment := (3*time.Hour - ago).Seconds()
			asked, err := strconv.Atoi(cache.asked)
			x.Expect(err).NotTo(HaveOccurred())
			x.Expect(asked).To(And(BeNumerically("<=", moment), BeNumerically(">=", moment-15)))
			stop()
		})
	}
}

var errForbidden = errors.New("forbidden")

// unlistable is a cache whose kind cannot be listed while it refuses.
type unlistable struct {
	slots.Cache
	refuses atomic.Bool
}

func (u *unlistable) ServerResourceVersion(context.Context) (string, error) {
	if u.refuses.Load() {
		return "", errForbidden
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

// A replica that waits for a permission for an hour looks as far back as the server remembers, without asking for all
// of the hour.
func TestRangesRememberWhileAKindCannotBeListed(t *testing.T) {
	inBubble(t, func(x *fixture) {
		r, err := shard.NewRanges(leaseOf(x.api.Link(1), "a"), nil)
		x.Expect(err).NotTo(HaveOccurred())
		primary, other := &forgetful{aging: aging{began: time.Now()}}, &unlistable{}
		other.refuses.Store(true)
		wait := background(func() error { return r.Divide(x.t.Context(), []slots.Cache{primary, other}) })
		pass(time.Hour)
		other.refuses.Store(false)
		x.Expect(wait()).To(Succeed())
		x.Expect(r.Deleted(x.t.Context(), primary, nil, 2*time.Hour, nil)).To(Succeed())
		x.Expect(primary.requests).To(BeNumerically("<=", 3))
		asked, err := strconv.Atoi(primary.asked)
		x.Expect(err).NotTo(HaveOccurred())
		x.Expect(asked).To(BeNumerically("~", (55 * time.Minute).Seconds(), 5))
	})
}

// failing is an aging cache whose server has forgotten everything, or fails.
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

func TestDeletedAsksForLessOnlyWhereTheServerHasForgotten(t *testing.T) {
	for err, requests := range map[error]int{
		apierrors.NewResourceExpired("too old"): 4, errForbidden: 1,
		apierrors.NewGone("too old"): 4, //nolint:staticcheck // servers may answer it
	} {
		inBubble(t, func(x *fixture) {
			r, e := shard.NewRanges(leaseOf(x.api.Link(1), "a"), nil)
			x.Expect(e).NotTo(HaveOccurred())
			cache := &failing{aging: aging{began: time.Now()}, err: err}
			x.Expect(r.Deleted(x.t.Context(), cache, nil, time.Hour, nil)).To(Succeed(), "it remembers nothing yet")
			stop := x.run(func(ctx context.Context) error { r.Remember(ctx, cache, time.Hour); return nil })
			pass(time.Minute + time.Second)
			x.Expect(r.Deleted(x.t.Context(), cache, nil, 59*time.Second, nil)).To(MatchError(err))
			x.Expect(cache.requests).To(Equal(requests), "there are four samples")
			stop()
		})
	}
}

func TestFewKeysAreLeftWithASlot(t *testing.T) {
	for _, c := range []struct{ size, of, keys int }{{5, 200, 100}, {251, 200, 64}, {5, 1, 1}, {17_000, 1, 0}} {
		inBubble(t, func(x *fixture) {
			var keys []types.NamespacedName
			for n := range c.of {
				keys = append(keys, types.NamespacedName{Namespace: "n", Name: fmt.Sprintf("%0*d", c.size, n)})
			}
			a := x.leaving("a", func(int) []types.NamespacedName { return keys })
			pass(10 * time.Second)
			a.stop()
			x.Expect(a.cut.Load()).To(BeEquivalentTo(4*(c.of-c.keys)), "it is logged, of each slot")
			b := x.leaving("b", none)
			pass(10 * time.Second)
			b.mu.Lock()
			x.Expect(b.found[0]).To(HaveLen(c.keys))
			x.Expect(slices.Equal(b.found[0], keys[:c.keys])).To(BeTrue())
			b.mu.Unlock()
			lease, err := x.api.Get("test-slot-0")
			x.Expect(err).NotTo(HaveOccurred())
			for name := range lease.Annotations {
				lease.Annotations[name] = "edited by another client"
			}
			_, err = x.api.Update(lease)
			x.Expect(err).NotTo(HaveOccurred())
			b.stop()
		})
	}
}

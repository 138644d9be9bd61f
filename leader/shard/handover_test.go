package shard_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/internal/test/leaseapi"
	"github.com/homeostat/homeostat/leader/shard"
)

// leaving is a replica that leaves keys with each slot, and records the keys
// that were left for it.
type leaving struct {
	*shard.Shards
	link *leaseapi.Link
	stop func()
	cut  atomic.Int64 // number of dropped keys, as logged

	mu    sync.Mutex // guards the fields below
	found map[int][]types.NamespacedName
}

func (x *fixture) leaving(identity string, keys func(slot int) []types.NamespacedName) *leaving {
	l := &leaving{link: x.API.Link(7), found: map[int][]types.NamespacedName{}}
	l.Shards = newShards(x.T, l.link, identity, &shard.Options{Slots: 4})
	logger := funcr.New(func(_, args string) {
		var slot, keys int
		if _, at, found := strings.Cut(args, `"slot"=`); found && strings.Contains(args, "its next owner may miss some keys") {
			_, _ = fmt.Sscanf(at, `%d "keys"=%d`, &slot, &keys)
			l.cut.Add(int64(keys))
		}
	}, funcr.Options{})
	l.stop = x.Run(func(ctx context.Context) error {
		return l.Run(klog.NewContext(ctx, logger), func(ctx context.Context, slot int) error {
			x.Take(slot, identity)
			defer x.Leave(slot)
			l.mu.Lock()
			l.found[slot] = l.Parts().Left(slot)
			l.mu.Unlock()
			<-ctx.Done()
			l.Parts().Leave(slot, keys(slot))
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

func TestKeysThatCouldNotBeHandedOverAreNotForgotten(t *testing.T) {
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

// This replica must not write the record of a slot that it has lost.
func TestKeysOfALostSlotAreKeptUntilItReturns(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a := x.leaving("a", keyOf)
		pass(10 * time.Second)
		a.stop()
		b := x.leaving("b", keyOf)
		pass(10 * time.Second)
		for range 2 {
			lease, err := x.API.Get("test-slot-0")
			x.Expect(err).NotTo(HaveOccurred())
			lease.Spec.HolderIdentity = new("other")
			delete(lease.Annotations, "leader.homeostat.dev/keys")
			_, err = x.API.Update(lease)
			x.Expect(err).NotTo(HaveOccurred())
			pass(10 * time.Second)
			lease, err = x.API.Get("test-slot-0")
			x.Expect(err).NotTo(HaveOccurred())
			x.Expect(lease.Spec.HolderIdentity).To(HaveValue(Equal("other")), "it is not released in its place")
			pass(2 * time.Minute)
			x.Expect(x.Taken(0)).To(BeNumerically(">", 2))
			x.Expect(b.left()).To(HavePrefix("0[ns/of/0 /cluster] "), "once, and not forgotten")
		}
		lease, err := x.API.Get("test-slot-0")
		x.Expect(err).NotTo(HaveOccurred())
		lease.Spec.HolderIdentity = new("other")
		lease.Annotations = map[string]string{"leader.homeostat.dev/keys": `["ns/of/0"]`}
		_, err = x.API.Update(lease)
		x.Expect(err).NotTo(HaveOccurred())
		pass(2 * time.Minute)
		x.Expect(b.left()).To(HavePrefix("0[ns/of/0 /cluster] "), "the record has one of them, too")
		b.stop()
	})
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
			lease, err := x.API.Get("test-slot-0")
			x.Expect(err).NotTo(HaveOccurred())
			for name := range lease.Annotations {
				lease.Annotations[name] = "edited by another client"
			}
			_, err = x.API.Update(lease)
			x.Expect(err).NotTo(HaveOccurred())
			b.stop()
		})
	}
}

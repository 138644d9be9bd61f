package shard_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/homeostat/homeostat/internal/slots"
	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/leader/shard"
)

// cluster has namespaces, and replicas that reconcile their objects.
type cluster struct {
	*fixture
	replicas map[string]*busyReplica

	mu      sync.Mutex // guards the fields below
	objects map[string]int
}

// busyReplica reconciles each object for a millisecond of each second.
type busyReplica struct {
	*shard.Ranges
	cluster *cluster
	logs    diary
	stop    func()
	slots   map[int]time.Time // since when it works on them; the mutex of the cluster guards it
}

// counted is a cache that only knows the number of its objects.
type counted struct {
	slots.Cache
	of map[string]int
}

func (counted) LastResourceVersion() string { return "1" }

func (c counted) CountNamespaces(context.Context) (map[string]int, error) { return c.of, nil }

// inCluster runs f in a cluster with replicas, the first of which has seen all namespaces.
func inCluster(t *testing.T, objects map[string]int, names string, f func(x *cluster)) {
	t.Helper()
	inBubble(t, func(fixture *fixture) {
		x := &cluster{fixture: fixture, replicas: map[string]*busyReplica{}, objects: objects}
		for name := range strings.FieldsSeq(names) {
			x.start(name)
			pass(13 * time.Second) // they renew at different times
		}
		defer func() {
			for _, r := range x.replicas {
				r.stop()
			}
		}()
		f(x)
	})
}

func (x *cluster) start(name string) {
	x.t.Helper()
	x.startAt(name, x.api.Link(int64(len(name))))
}

// startAt starts a replica that has its way to the API.
func (x *cluster) startAt(name string, way coordinationclient.LeasesGetter) {
	x.t.Helper()
	r := &busyReplica{cluster: x, slots: map[int]time.Time{}}
	var err error
	r.Ranges, err = shard.NewRanges(leader.Lease{
		Client: way, Namespace: "default", Name: "test", Identity: name,
	}, &shard.Options{Slots: 32, Member: leader.Options{LeaseDuration: 2 * time.Minute}})
	x.Expect(err).NotTo(HaveOccurred())
	x.replicas[name] = r
	cache := counted{of: maps.Clone(x.objects)}
	r.stop = x.run(func(ctx context.Context) error {
		if err := r.Divide(ctx, []slots.Cache{cache}); err != nil {
			return err
		}
		var measuring sync.WaitGroup
		defer measuring.Wait()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		measuring.Go(func() { r.Measure(r.logs.log(ctx), r.cost) })
		return r.Run(ctx, r.work)
	})
}

func (r *busyReplica) work(ctx context.Context, slot int) error {
	r.cluster.mu.Lock()
	r.slots[slot] = time.Now()
	r.cluster.mu.Unlock()
	<-ctx.Done()
	r.cluster.mu.Lock()
	delete(r.slots, slot)
	r.cluster.mu.Unlock()
	return nil
}

// cost is the cost as package reconcile counts it.
func (r *busyReplica) cost() slots.Work {
	x := r.cluster
	x.mu.Lock()
	defer x.mu.Unlock()
	w := slots.Work{Objects: map[string]int{}, Slots: map[int]slots.Busy{}}
	for slot, since := range r.slots {
		w.Slots[slot] = slots.Busy{Since: since}
	}
	for name, objects := range x.objects {
		slot := r.Slot(types.NamespacedName{Namespace: name})
		if since, here := r.slots[slot]; here {
			w.Objects[name] = objects
			busy := w.Slots[slot]
			busy.Time += time.Since(since) * time.Duration(objects) / 1000
			w.Slots[slot] = busy
		}
	}
	return w
}

// come adds namespaces.
func (x *cluster) come(objects map[string]int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	maps.Copy(x.objects, objects)
}

// grow multiplies the objects in the namespaces of a replica.
func (x *cluster) grow(name string, by int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	r := x.replicas[name]
	for namespace := range x.objects {
		if _, here := r.slots[r.Slot(types.NamespacedName{Namespace: namespace})]; here {
			x.objects[namespace] *= by
		}
	}
}

// heaviest returns the objects of the heaviest replica beside the mean. Each namespace has one owner.
func (x *cluster) heaviest() float64 {
	x.t.Helper()
	x.mu.Lock()
	defer x.mu.Unlock()
	of, total, most := map[string]int{}, 0, 0
	for name, objects := range x.objects {
		var owners []string
		for replica, r := range x.replicas {
			if _, here := r.slots[r.Slot(types.NamespacedName{Namespace: name})]; here {
				owners = append(owners, replica)
				of[replica] += objects
			}
		}
		x.Expect(owners).To(HaveLen(1), name)
		total += objects
	}
	for _, objects := range of {
		most = max(most, objects)
	}
	return float64(most*len(x.replicas)) / float64(total)
}

// teams are n namespaces, whose hashes lie close together, with the objects of each.
func teams(n, objects int) map[string]int {
	all := map[string]int{}
	for team := range n {
		all[fmt.Sprintf("team-%02d", team+1)] = objects + team%7
	}
	return all
}

// config returns the resourceVersion of the record of the configuration, and its ranges.
func (x *cluster) config() (rv, ranges string) {
	x.t.Helper()
	l, err := x.api.Get("test")
	x.Expect(err).NotTo(HaveOccurred())
	return l.ResourceVersion, l.Annotations["leader.homeostat.dev/ranges"]
}

func TestNamespacesThatComeToAnEmptyClusterAreShared(t *testing.T) {
	inCluster(t, map[string]int{}, "a b c", func(x *cluster) {
		first, _ := x.config()
		pass(30 * time.Minute)
		rv, _ := x.config()
		x.Expect(rv).To(Equal(first), "there is nothing to divide")
		x.come(teams(99, 10))
		pass(2 * time.Second)
		x.Expect(x.heaviest()).To(BeNumerically(">", 2), "all are in one range or two")
		pass(10 * time.Minute)
		x.Expect(x.heaviest()).To(BeNumerically("<=", 1.2))
		x.Expect(x.replicas["a"].logs.read()).To(ConsistOf(ContainSubstring("recorded ranges that suit")))
		rv, ranges := x.config()
		x.Expect(strings.Fields(ranges)[0]).To(HaveSuffix(":2"), "it is the second division: %s", ranges)
		pass(3 * time.Hour)
		again, _ := x.config()
		x.Expect(again).To(Equal(rv), "nothing is recorded afterwards")
		x.Expect(x.heaviest()).To(BeNumerically("<=", 1.2))
	})
}

func TestSlotsOfARangeThatHasGrownMoveWithoutOtherRanges(t *testing.T) {
	inCluster(t, teams(99, 10), "a b c", func(x *cluster) {
		pass(5 * time.Minute)
		x.Expect(x.heaviest()).To(BeNumerically("<=", 1.2))
		pass(time.Hour)
		_, before := x.config()
		x.grow("a", 4)
		x.Expect(x.heaviest()).To(BeNumerically(">", 1.8))
		pass(3 * time.Hour)
		_, after := x.config()
		x.Expect(after).NotTo(Equal(before))
		first := strings.Fields(after)[0]
		x.Expect(strings.Count(first, ":")).To(Equal(1), "it is the first version with other weights: %s", after)
		x.Expect(x.heaviest()).To(BeNumerically("<=", 1.2))
	})
}

// A replica that does not publish the costs of its slots, such as one of an older build, may plan differently.
func TestNothingIsRecordedWhileAMemberPublishesNothing(t *testing.T) {
	inCluster(t, map[string]int{}, "b c", func(x *cluster) {
		old, err := shard.NewRanges(leaseOf(x.api.Link(7), "a"), &shard.Options{Slots: 32})
		x.Expect(err).NotTo(HaveOccurred())
		stop := x.run(func(ctx context.Context) error {
			return old.Run(ctx, func(ctx context.Context, _ int) error { <-ctx.Done(); return nil })
		})
		x.come(teams(99, 10))
		first, _ := x.config()
		pass(time.Hour)
		again, _ := x.config()
		x.Expect(again).To(Equal(first))
		stop()
		pass(40 * time.Minute)
		x.Expect(x.heaviest()).To(BeNumerically("<=", 1.3))
		again, _ = x.config()
		x.Expect(again).NotTo(Equal(first))
	})
}

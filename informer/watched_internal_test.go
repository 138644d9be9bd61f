package informer

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/internal/keyspace"
)

// The reflector counts the time of a watch from the end of its first list, and
// lists everything again after a short one.
func TestAWatchThatHasJustListedIsNotEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		first, both := keyspace.Set{{First: 0, Last: 9}}, keyspace.Set{{First: 0, Last: 19}}
		w := &watched{}
		of := watch.NewFake()
		w.opened(of, first, true)
		covered := make(chan error, 1)
		go func() { covered <- w.covering(t.Context(), nil, both) }()
		<-time.After(time.Minute)
		w.streamed()
		<-time.After(time.Second)
		synctest.Wait()
		g.Expect(of.IsStopped()).To(BeFalse())
		<-time.After(time.Second)
		synctest.Wait()
		g.Expect(of.IsStopped()).To(BeTrue(), "the watch has fewer shards than are wanted")
		w.opened(watch.NewFake(), both, false)
		g.Expect(<-covered).To(Succeed())
	})
}

// Added shards do not wait for as long as the watch has been open.
func TestAWatchThatHasBeenOpenForLongIsEndedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		w, of := &watched{}, watch.NewFake()
		w.opened(of, nil, false)
		<-time.After(time.Hour)
		covered := make(chan error, 1)
		go func() { covered <- w.covering(t.Context(), nil, keyspace.Whole()) }()
		<-time.After(time.Millisecond)
		synctest.Wait()
		g.Expect(of.IsStopped()).To(BeTrue())
		w.opened(watch.NewFake(), keyspace.Whole(), false)
		g.Expect(<-covered).To(Succeed())
	})
}

// A timer that is set again and again would keep the reflector in memory, and
// would still fire after Run has returned.
func TestAWatchIsNotNarrowedAfterTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		w, asked := &watched{}, 0
		wanted := func() keyspace.Set {
			asked++
			return nil
		}
		w.opened(watch.NewFake(), keyspace.Whole(), true)
		w.narrow(wanted, nil)
		<-time.After(5 * time.Second)
		synctest.Wait()
		g.Expect(asked).To(Equal(2), "it is still streaming")
		w.end()
		w.narrow(wanted, nil)
		<-time.After(time.Minute)
		synctest.Wait()
		g.Expect(asked).To(Equal(2))
		w.mu.Lock()
		g.Expect(w.narrowing).To(BeNil())
		w.mu.Unlock()
	})
}

func TestAWatchThatIsBeingOpenedIsNarrowedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		w := &watched{}
		first, second := watch.NewFake(), watch.NewFake()
		w.opened(first, keyspace.Whole(), false)
		w.opening()
		w.narrow(func() keyspace.Set { return nil }, func() bool { return true })
		<-time.After(3 * time.Second)
		w.opened(second, keyspace.Whole(), false)
		<-time.After(5 * time.Second)
		synctest.Wait()
		g.Expect(second.IsStopped()).To(BeTrue())
	})
}

// The watch ends when its last shards are removed.
func TestTheWatchOfShardsThatHaveGoneIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		sim, err := apisim.New(nil)
		g.Expect(err).NotTo(HaveOccurred())
		in := For(kubernetes.NewForConfigOrDie(sim.Config("c")).CoreV1().ConfigMaps(""), nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- in.Parts().Shards().RunShards(ctx, nil) }()
		synctest.Wait()
		all := sharding.ShardRangeRequirement(keyspace.Range{Last: 1<<61 - 1}.Requirement())
		remove, err := in.Parts().Shards().AddShards(t.Context(), all)
		g.Expect(err).NotTo(HaveOccurred())
		watches, _ := in.feed.current()
		remove(all)
		w := &watches[0].watched
		w.mu.Lock()
		g.Expect(w.hasEnded).To(BeTrue())
		w.mu.Unlock()
		cancel()
		g.Expect(<-done).To(Succeed())
	})
}

func TestAUserWithoutShardsIsForgotten(t *testing.T) {
	set := keyspace.Whole()
	h := &hold{set}
	d := &divided[*corev1.Pod]{feed: &feed[*corev1.Pod]{}, holds: []*hold{h}}
	d.remove(&session[*corev1.Pod]{}, h, set)
	NewWithT(t).Expect(d.holds).To(BeEmpty())
}

func TestAWatchIsNarrowedAsSoonAsItMayBeEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		w, of := &watched{}, watch.NewFake()
		w.narrow(func() keyspace.Set { return nil }, func() bool { return true })
		<-time.After(narrowAfter - shortWatch)
		w.opened(of, keyspace.Whole(), false)
		<-time.After(shortWatch)
		synctest.Wait()
		g.Expect(of.IsStopped()).To(BeTrue())
	})
}

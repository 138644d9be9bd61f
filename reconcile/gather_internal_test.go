package reconcile

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/slots"
)

// If the server does not select by shard, each list costs as much as a list of
// the whole kind.
func TestSlotsThatComeOneAfterTheOtherAreListedTogether(t *testing.T) {
	for name, c := range map[string]struct {
		every time.Duration
		slots int
		took  time.Duration
	}{
		"one comes":                 {time.Second, 1, 300 * time.Millisecond},
		"they come for some time":   {200 * time.Millisecond, 5, 1200 * time.Millisecond},
		"they do not cease to come": {100 * time.Millisecond, 1000, 1500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				ctx, cancel := context.WithCancel(t.Context())
				s := &shardCaches{waiting: map[int]*cachedSlot{}}
				s.join(0)
				go func() {
					for slot := 1; slot < c.slots; slot++ {
						select {
						case <-ctx.Done():
							return
						case <-time.After(c.every):
							s.join(slot)
						}
					}
				}()
				began := time.Now()
				g.Expect(s.gathered(ctx)).To(BeTrue())
				g.Expect(time.Since(began)).To(Equal(c.took))
				cancel()
				g.Expect(s.gathered(ctx)).To(BeFalse())
			})
		})
	}
}

// filling is a Ranger whose Fill takes a while. It fails for the slots of the
// first call if it has an error.
type filling struct {
	slots.Ranger
	takes time.Duration
	err   error
	fills [][]int

	mu      sync.Mutex // guards dropped
	dropped []int
}

func (f *filling) Fill(_ context.Context, _ []slots.Cache, of []int) (drop func(int), err error) {
	<-time.After(f.takes)
	if f.fills = append(f.fills, of); len(f.fills) == 1 && f.err != nil {
		return nil, f.err
	}
	return func(slot int) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.dropped = append(f.dropped, slot)
	}, nil
}

func (*filling) Deleted(context.Context, slots.Cache, []int, time.Duration, func(types.NamespacedName)) error {
	return nil
}

// A slot that arrives while others are gathered waits neither for a second
// gathering nor for a second list.
func TestASlotThatArrivesDuringAGatheringWorksAfterIt(t *testing.T) {
	const all = 12
	broken := errors.New("forbidden")
	for name, c := range map[string]struct {
		takes time.Duration
		err   error
		most  time.Duration // from its coming
		fails int           // slots
		fills int
	}{
		"a fast list":          {0, nil, 1500 * time.Millisecond, 0, 2},
		"a slow list":          {time.Second, nil, 3800 * time.Millisecond, 0, 2}, // the rest of one, a gathering and another
		"the first list fails": {0, broken, 1500 * time.Millisecond, 8, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				ranger := &filling{takes: c.takes, err: c.err}
				var running sync.WaitGroup
				secrets := informer.For(fake.NewClientset().CoreV1().Secrets("d"), nil)
				of := &core{intake: intake{sources: sources{typed[*corev1.Secret]{secrets}}}}
				caches := &shardCaches{ranger: ranger, controller: of, replays: &running, waiting: map[int]*cachedSlot{}}
				run := &shardRunner{controller: of, caches: caches}
				run.latest = coalescer{running: &running, call: func() error { run.caches.fill(t.Context()); return nil }}
				var worst time.Duration
				var failed []int
				var mu sync.Mutex
				for slot := range all {
					running.Go(func() {
						<-time.After(time.Duration(slot) * 200 * time.Millisecond)
						came := time.Now()
						call, leave := run.cachesWith(slot)
						defer leave()
						err := call.wait(t.Context())
						mu.Lock()
						defer mu.Unlock()
						worst = max(worst, time.Since(came))
						if err != nil {
							failed = append(failed, slot)
						}
					})
				}
				running.Wait()
				g.Expect(worst).To(BeNumerically("<=", c.most))
				g.Expect(failed).To(HaveLen(c.fails))
				g.Expect(ranger.fills).To(HaveLen(c.fills))
			})
		})
	}
}

// noting is a replica with one slot that notes the caches it is given.
type noting struct {
	filling
	all                 []slots.Cache
	remembered, deleted slots.Cache
}

func (n *noting) Parts() slots.Handover { return n }

func (*noting) Owners() ([]slots.Status, float64) { return nil, 0 }

func (*noting) Leave(int, []Key) {}

func (*noting) Left(int) []Key { return nil }

func (*noting) Slot(Key) int { return 0 }

func (*noting) Run(ctx context.Context, fn func(ctx context.Context, slot int) error) error {
	return fn(ctx, 0)
}

func (n *noting) Divide(_ context.Context, caches []slots.Cache) error {
	n.all = caches
	return nil
}

func (*noting) RunCache(ctx context.Context, c slots.Cache, joined func()) error {
	return c.RunShards(ctx, joined)
}

func (n *noting) Remember(_ context.Context, primary slots.Cache, _ time.Duration) {
	n.remembered = primary
}

func (*noting) Measure(context.Context, func() int) {}

func (n *noting) Deleted(
	_ context.Context, primary slots.Cache, _ []int, _ time.Duration, _ func(types.NamespacedName),
) error {
	n.deleted = primary
	return nil
}

// Deletions are looked for in the cache of the controller's own objects, from
// where it has been noted to be.
func TestOnlyDeletionsOfTheControllersOwnObjectsAreLookedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		core := fake.NewClientset().CoreV1()
		maps, secrets := informer.For(core.ConfigMaps("d"), nil), informer.For(core.Secrets("d"), nil)
		n := &noting{}
		c, err := New("c", maps, Func[*corev1.ConfigMap](
			func(context.Context, Request[*corev1.ConfigMap]) (Result, error) { return Result{}, nil },
		), &Options{Shards: n, Triggers: []Trigger{Owned(secrets)}})
		g.Expect(err).NotTo(HaveOccurred())
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		<-time.After(time.Minute)
		cancel()
		g.Expect(<-done).To(Succeed())
		g.Expect(n.all).To(Equal([]slots.Cache{maps.Parts().Shards(), secrets.Parts().Shards()}))
		g.Expect(n.remembered).To(BeIdenticalTo(maps.Parts().Shards()))
		g.Expect(n.deleted).To(BeIdenticalTo(maps.Parts().Shards()))
	})
}

// A replica may lose slots while it lists them, or before it does.
func TestASlotThatLeavesWhileItIsListedIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		ranger := &filling{takes: time.Second}
		var running sync.WaitGroup
		secrets := informer.For(fake.NewClientset().CoreV1().Secrets("d"), nil)
		s := &shardCaches{
			ranger: ranger, replays: &running, waiting: map[int]*cachedSlot{},
			controller: &core{intake: intake{sources: sources{typed[*corev1.Secret]{secrets}}}},
		}
		leaves := func(slots map[int]time.Duration) {
			for slot, after := range slots {
				_, leave := s.join(slot)
				time.AfterFunc(after, leave)
			}
			s.fill(t.Context())
			synctest.Wait()
		}
		leaves(map[int]time.Duration{1: time.Millisecond})
		g.Expect(ranger.fills).To(BeEmpty(), "there is nothing to list")
		leaves(map[int]time.Duration{1: time.Millisecond, 2: time.Second, 3: time.Minute})
		g.Expect(ranger.fills).To(HaveExactElements(ConsistOf(2, 3)))
		dropped := func() []int {
			ranger.mu.Lock()
			defer ranger.mu.Unlock()
			return slices.Clone(ranger.dropped)
		}
		g.Expect(dropped()).To(Equal([]int{2}))
		<-time.After(time.Minute)
		synctest.Wait()
		g.Expect(dropped()).To(Equal([]int{2, 3}))
	})
}

// undivided fails to divide the caches, or does not until the controller stops.
type undivided struct {
	noting
	err error
}

func (u *undivided) Parts() slots.Handover { return u }

func (u *undivided) Divide(ctx context.Context, _ []slots.Cache) error {
	if u.err == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	return u.err
}

func TestCachesThatCannotBeDividedEndRun(t *testing.T) {
	for name, err := range map[string]error{"refused": errors.New("forbidden"), "stopped": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				in := informer.For(fake.NewClientset().CoreV1().ConfigMaps("d"), nil)
				c, failed := New("c", in, Func[*corev1.ConfigMap](
					func(context.Context, Request[*corev1.ConfigMap]) (Result, error) { return Result{}, nil },
				), &Options{Shards: &undivided{err: err}})
				g.Expect(failed).NotTo(HaveOccurred())
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				ended := c.Run(ctx)
				if err == nil {
					g.Expect(ended).To(Succeed())
				} else {
					g.Expect(ended).To(MatchError(err))
					g.Expect(ctx.Err()).NotTo(HaveOccurred())
				}
			})
		})
	}
}

// amnesiac does not know which objects were deleted.
type amnesiac struct{ filling }

func (*amnesiac) Deleted(context.Context, slots.Cache, []int, time.Duration, func(types.NamespacedName)) error {
	return errors.New("too old")
}

func TestThatDeletionsMayHaveBeenMissedIsLogged(t *testing.T) {
	g := NewWithT(t)
	var log []string
	logger := funcr.New(func(_, args string) { log = append(log, args) }, funcr.Options{})
	ctx, stop := context.WithCancel(logr.NewContext(t.Context(), logger))
	all := sources{typed[*corev1.Secret]{informer.For(fake.NewClientset().CoreV1().Secrets("d"), nil)}}
	s := &shardCaches{ranger: &amnesiac{}, controller: &core{intake: intake{sources: all}}}
	s.replay(ctx, []int{1})
	g.Expect(log).To(HaveExactElements(And(ContainSubstring("some deletions may be missed"), ContainSubstring("too old"))))
	stop()
	s.replay(ctx, []int{1})
	g.Expect(log).To(HaveLen(1), "the controller stops")
}

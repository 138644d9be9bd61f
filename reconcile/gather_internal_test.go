package reconcile

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/slots"
)

// Each list costs that of a whole kind where the server does not select.
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

// filling is a Ranger whose Fill takes a while. It fails for the slots of the first call if it has an error.
type filling struct {
	slots.Ranger
	takes time.Duration
	err   error
	fills [][]int
}

func (f *filling) Fill(_ context.Context, _ []slots.Cache, of []int) (drop func(int), err error) {
	<-time.After(f.takes)
	if f.fills = append(f.fills, of); len(f.fills) == 1 && f.err != nil {
		return nil, f.err
	}
	return func(int) {}, nil
}

func (*filling) Deleted(context.Context, slots.Cache, []int, time.Duration, func(types.NamespacedName)) error {
	return nil
}

// A slot that comes while others are gathered does not wait for a second gathering, nor for a second list.
func TestASlotThatComesDuringAGatheringWorksAfterIt(t *testing.T) {
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
				run.latest = coalescer{running: &running, do: func() error { run.caches.fill(t.Context()); return nil }}
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

func (*noting) Slot(Key) int { return 0 }

func (*noting) Run(ctx context.Context, fn func(ctx context.Context, slot int) error) error {
	return fn(ctx, 0)
}

func (n *noting) Divide(_ context.Context, caches []slots.Cache) error {
	n.all = caches
	return nil
}

func (*noting) RunCache(ctx context.Context, c slots.Cache, joined func()) error {
	return c.RunWhole(ctx, joined)
}

func (n *noting) Remember(_ context.Context, primary slots.Cache, _ time.Duration) {
	n.remembered = primary
}

func (*noting) Measure(context.Context, func() slots.Work) {}

func (n *noting) Deleted(
	_ context.Context, primary slots.Cache, _ []int, _ time.Duration, _ func(types.NamespacedName),
) error {
	n.deleted = primary
	return nil
}

// Deletions are looked for in the cache of the controller's own objects, from where it has been noted to be.
func TestDeletionsAreOnesOfTheControllersOwnObjects(t *testing.T) {
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
		g.Expect(n.all).To(Equal([]slots.Cache{maps.Shards(), secrets.Shards()}))
		g.Expect(n.remembered).To(BeIdenticalTo(maps.Shards()))
		g.Expect(n.deleted).To(BeIdenticalTo(maps.Shards()))
	})
}

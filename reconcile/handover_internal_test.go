package reconcile

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/leader/shard"
	"github.com/homeostat/homeostat/leader/shard/ranges"
)

// byLength are shards by the length of a name.
type byLength struct{ Shards }

func (byLength) Slot(key Key) int { return len(key.Name) }

// A replica whose cache is whole sees the deletions in all slots. Deletions in
// other replicas' slots must not take the room of its own.
func TestABoundedNumberOfUnfinishedKeysIsKeptOfOwnSlotsOnly(t *testing.T) {
	g := NewWithT(t)
	s := &shardRunner{
		controller: &core{options: Options{Shards: byLength{}}}, failed: unfinished{}, waiting: unfinished{},
		runs: map[int]*slotRun{6: {}}, draining: map[int]bool{7: true},
	}
	own := func(n int) Key { return Key{Name: fmt.Sprintf("%06d", n)} }
	for n := range passingKeys + 10 {
		s.noteDeletion(Key{Name: fmt.Sprintf("%05d", n)})
	}
	g.Expect(s.waiting).To(BeEmpty())
	s.noteDeletion(own(0))
	s.noteDeletion(Key{Name: "drained"})
	g.Expect(s.waiting).To(Equal(unfinished{own(0): true, {Name: "drained"}: true}))
	s.noteDeletion(Key{Name: "soon"})
	g.Expect(s.deleted.keys()).To(ContainElement(Key{Name: "soon"}), "this replica may own it before it is dispatched")
	for n := range passingKeys + 10 {
		s.noteDeletion(own(n))
	}
	g.Expect(s.waiting).To(HaveLen(passingKeys))
	s.noteIn(s.failed, own(passingKeys+20))
	g.Expect(s.failed).To(HaveLen(1), "it has room of its own")
}

// The replica may lose the slot again before its key is dispatched.
func TestAKeyThatWasDeletedBeforeItsSlotCameIsUnfinished(t *testing.T) {
	g := NewWithT(t)
	s := &shardRunner{
		controller: &core{intake: intake{queue: newTestQueue(g)}, options: Options{Shards: byLength{}}},
		failed:     unfinished{}, waiting: unfinished{}, runs: map[int]*slotRun{3: {}},
	}
	s.acceptDeleted(Key{Name: "own"})
	s.acceptDeleted(Key{Name: "other"})
	g.Expect(s.waiting).To(Equal(unfinished{{Name: "own"}: true}))
	g.Expect(s.deleted.keys()).To(ConsistOf(Key{Name: "own"}, Key{Name: "other"}))
}

// moving are shards in which a key moves to another slot after Slot was called,
// and the slot returns without the key.
type moving struct {
	Shards

	moved func()
}

func (m *moving) Slot(Key) int {
	if m.moved != nil {
		m.moved()
		m.moved = nil
		return 0
	}
	return 1
}

func TestASlotThatReturnsWithAnotherRangeHasNoKeyThatMoved(t *testing.T) {
	for name, use := range map[string]func(s *shardRunner) bool{
		"dispatched": func(s *shardRunner) bool { return s.enter(Key{Name: "x"}) != nil },
		"owned":      func(s *shardRunner) bool { return s.owns(Key{Name: "x"}) },
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			shards := &moving{}
			s := &shardRunner{
				controller: &core{options: Options{Shards: shards}}, caches: &shardCaches{}, runs: map[int]*slotRun{},
			}
			shards.moved = func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.runs[0] = &slotRun{}
			}
			g.Expect(use(s)).To(BeFalse())
		})
	}
}

// The keys of a moved slot would fill the map, and the next owner has them.
func TestObjectsOfAReleasedSlotAreNotUnfinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		sim, err := apisim.New(nil)
		g.Expect(err).NotTo(HaveOccurred())
		clientset := kubernetes.NewForConfigOrDie(sim.Config("c"))
		for _, namespace := range []string{"a", "b"} {
			_, err = clientset.CoreV1().ConfigMaps(namespace).Create(t.Context(),
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{})
			g.Expect(err).NotTo(HaveOccurred())
		}
		shards, err := ranges.New(leader.Lease{
			Client: clientset.CoordinationV1(), Namespace: "default", Name: "fleet", Identity: "me",
		}, &shard.Options{Slots: 2})
		g.Expect(err).NotTo(HaveOccurred())
		busy := make(chan struct{})
		in := informer.For(clientset.CoreV1().ConfigMaps(""), nil)
		c, err := New("fleet", in, Func[*corev1.ConfigMap](
			func(context.Context, Request[*corev1.ConfigMap]) (Result, error) {
				<-busy
				return Result{}, nil
			}), &Options{Shards: shards, Workers: 1, Grace: time.Hour})
		g.Expect(err).NotTo(HaveOccurred())
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		<-time.After(time.Minute)
		g.Expect(in.Snapshot().Len()).To(Equal(2))
		cancel()
		<-time.After(time.Minute)
		g.Expect(in.Snapshot().Len()).To(Equal(1), "one slot waits for its reconcile, the other has gone")
		c.slots.mu.Lock()
		g.Expect(c.slots.waiting).To(BeEmpty())
		c.slots.mu.Unlock()
		close(busy)
		g.Expect(<-done).To(Succeed())
	})
}

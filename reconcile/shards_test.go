package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/informer/clientgo"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// moves is a cause for which this replica keeps the slot until its function
// returns.
type moves string

func (m moves) Error() string  { return string(m) }
func (m moves) Draining() bool { return true }

const errMoves = moves("the slot moves")

// parts are the slots that the test gives and takes; the slot of a key is the
// first letter of its name.
type parts struct {
	mu    sync.Mutex // guards the fields below
	fn    func(ctx context.Context, slot int) error
	ends  map[int]context.CancelCauseFunc
	ended map[int]chan error
}

func newParts() *parts {
	return &parts{ends: map[int]context.CancelCauseFunc{}, ended: map[int]chan error{}}
}

func (p *parts) Slot(key reconcile.Key) int { return int(key.Name[0]) }

func (p *parts) Run(ctx context.Context, fn func(ctx context.Context, slot int) error) error {
	p.mu.Lock()
	p.fn = fn
	p.mu.Unlock()
	<-ctx.Done()
	p.mu.Lock()
	defer p.mu.Unlock()
	for slot, end := range p.ends {
		end(errMoves)
		if err := <-p.ended[slot]; err != nil {
			return err
		}
	}
	return nil
}

func (p *parts) take(letter byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	slot, ended := int(letter), make(chan error, 1)
	ctx, end := context.WithCancelCause(context.Background())
	p.ends[slot], p.ended[slot] = end, ended
	go func() { ended <- p.fn(ctx, slot) }()
}

// leave ends a slot; wait returns what its function returned.
func (p *parts) leave(letter byte, why error) (wait func() error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	slot := int(letter)
	p.ends[slot](why)
	ended := p.ended[slot]
	delete(p.ends, slot)
	return func() error { return <-ended }
}

func (p *parts) Owners() ([]inspect.SlotStatus, float64) {
	return []inspect.SlotStatus{{State: inspect.Here, Owner: "me"}, {State: inspect.Claimable}}, 0
}

func (p *parts) String() string { return "1 of 2" }
func (p *parts) Ready() error   { return errLost }
func (p *parts) Healthy() error { return nil }

func TestReconcilesRunForTheSlotsThatThisReplicaHas(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a1", "a2", "b1")
		p := newParts()
		stop := w.start(&reconcile.Options{Shards: p}, func(_ context.Context, r request) (reconcile.Result, error) {
			w.ran(r.Key.Name)
			return nothing, nil
		})
		pass(time.Hour)
		w.Expect(w.reconciled()).To(BeEmpty(), "it has no slot")
		p.take('a')
		w.Expect(w.reconciled()).To(ConsistOf("a1", "a2"))
		w.create("a3", "b2")
		w.Expect(w.reconciled()).To(Equal([]string{"a3"}))
		p.take('b')
		w.Expect(w.reconciled()).To(ConsistOf("b1", "b2"), "all of it, and nothing of a")
		w.Expect(p.leave('a', errMoves)()).To(Succeed())
		w.create("a4", "b3")
		w.Expect(w.reconciled()).To(Equal([]string{"b3"}))
		p.take('a')
		w.Expect(w.reconciled()).To(ConsistOf("a1", "a2", "a3", "a4"))
		w.Expect(stop()).To(Succeed())
	})
}

func TestAMovedSlotWaitsForItsReconcilesAndALostOneCancelsThem(t *testing.T) {
	for _, c := range []struct {
		why   error
		after time.Duration
		want  string
	}{
		{errMoves, 20 * time.Second, "finished"},
		{errMoves, time.Hour, "the slot moves"},
		{errLost, 20 * time.Second, "leadership is lost"},
	} {
		inFixture(t, func(w *fixture) {
			w.create("a1", "a2", "b1")
			p := newParts()
			stop := w.start(&reconcile.Options{Shards: p, Workers: 1, Grace: time.Minute},
				func(ctx context.Context, r request) (reconcile.Result, error) {
					if r.Key.Name[0] == 'b' {
						return nothing, nil
					}
					select {
					case <-ctx.Done():
						w.ran(context.Cause(ctx).Error())
						return nothing, ctx.Err()
					case <-time.After(c.after):
						w.ran("finished")
						return nothing, nil
					}
				})
			pass(time.Second)
			p.take('a')
			p.take('b')
			pass(time.Second)
			began := time.Now()
			w.Expect(p.leave('a', c.why)()).To(Succeed())
			w.Expect(w.reconciled()).To(Equal([]string{c.want}), "and the other key had no reconcile")
			switch c.want {
			case "finished":
				w.Expect(time.Since(began)).To(Equal(19 * time.Second))
			case errMoves.Error():
				w.Expect(time.Since(began)).To(Equal(time.Minute))
			default:
				w.Expect(time.Since(began)).To(BeZero())
			}
			w.Expect(stop()).To(Succeed())
		})
	}
}

func TestAStopDrainsTheSlotsWithinTheGracePeriod(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a1")
		p := newParts()
		stop := w.start(&reconcile.Options{Shards: p, Grace: time.Minute},
			func(ctx context.Context, _ request) (reconcile.Result, error) {
				<-ctx.Done()
				w.ran(context.Cause(ctx).Error())
				return nothing, ctx.Err()
			})
		pass(time.Second)
		p.take('a')
		pass(time.Second)
		began := time.Now()
		w.Expect(stop()).To(Succeed())
		w.Expect(time.Since(began)).To(Equal(time.Minute))
		w.Expect(w.reconciled()).To(Equal([]string{reconcile.ErrGraceExpired.Error()}))
	})
}

func TestReconcilesOfASlotBeginWhenTheCacheHasSeenWhatTheLastOwnerWrote(t *testing.T) {
	inLateFixture(t, 5*time.Second, func(w *lateFixture) {
		p := newParts()
		stop := w.start(reconcile.Options{Shards: p})
		pass(time.Minute)
		_, err := w.secrets.Create(w.t.Context(),
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "of-the-last-owner"}}, metav1.CreateOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		p.take('a')
		pass(4 * time.Second)
		w.Expect(w.reconciled()).To(BeEmpty())
		pass(10 * time.Second)
		w.Expect(w.reconciled()).To(ContainElement("a"))
		w.Expect(w.count()).To(Equal(1))
		w.Expect(stop()).To(Succeed())
	})
}

// Another replica may own the slot by then.
func TestASlotThatEndsWhileItsCacheIsBehindIsNotWorkedOn(t *testing.T) {
	for _, why := range []error{errMoves, errLost} {
		inLateFixture(t, 5*time.Second, func(w *lateFixture) {
			p := newParts()
			stop := w.start(reconcile.Options{Shards: p})
			pass(time.Minute)
			_, err := w.secrets.Create(w.t.Context(),
				&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "of-the-last-owner"}}, metav1.CreateOptions{})
			w.Expect(err).NotTo(HaveOccurred())
			added := w.controllers[0].QueueStats().Added
			p.take('a')
			pass(4 * time.Second)
			w.Expect(p.leave('a', why)()).To(Succeed())
			pass(10 * time.Second)
			w.Expect(w.reconciled()).To(BeEmpty())
			w.Expect(w.controllers[0].QueueStats().Added).To(Equal(added+1), "the Secret's event, and no key of the slot")
			w.Expect(stop()).To(Succeed())
		})
	}
}

func TestOrphansOfASlotAreLookedForWhenItArrives(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a1")
		p := newParts()
		known := knownKeys("a1", "a2", "b1")
		stop := w.start(&reconcile.Options{Shards: p, Known: known},
			func(_ context.Context, r request) (reconcile.Result, error) {
				w.ran(r.Key.Name)
				return nothing, nil
			})
		pass(time.Second)
		p.take('a')
		w.Expect(w.reconciled()).To(Equal([]string{"a1"}))
		pass(5 * time.Second)
		w.Expect(w.reconciled()).To(Equal([]string{"a2"}))
		p.take('b')
		pass(5 * time.Second)
		w.Expect(w.reconciled()).To(ConsistOf("a2", "b1"))
		w.Expect(stop()).To(Succeed())
	})
}

func TestAControllerForgetsTheFailuresOfAReleasedSlot(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a1", "b1")
		p := newParts()
		c, err := reconcile.New("test", w.in, reconcile.Func[*configMap](
			func(context.Context, request) (reconcile.Result, error) { return nothing, errLost }),
			&reconcile.Options{Shards: p})
		w.Expect(err).NotTo(HaveOccurred())
		stop := w.startRun(c.Run)
		pass(time.Second)
		w.Expect(c.Phase()).To(Equal(inspect.Standby))
		p.take('a')
		p.take('b')
		pass(time.Second)
		w.Expect(c.Phase()).To(Equal(inspect.Working))
		w.Expect(c.Stats().Failing).To(Equal(2))
		w.Expect(p.leave('a', errMoves)()).To(Succeed())
		w.Expect(c.Stats().Failing).To(Equal(1))
		w.Expect(p.leave('b', errMoves)()).To(Succeed())
		w.Expect(c.Phase()).To(Equal(inspect.Standby))
		s := c.Status(0)
		w.Expect(s.Elects).To(BeTrue())
		w.Expect(s.LeaderName).To(Equal("1 of 2"))
		w.Expect(s.Slots).To(Equal([]inspect.SlotStatus{
			{State: inspect.Here, Owner: "me"}, {State: inspect.Claimable},
		}))
		w.Expect(c.LeaderReady()).To(MatchError(errLost))
		w.Expect(c.Healthy()).To(Succeed())
		w.Expect(stop()).To(Succeed())
	})
}

// The last owner may have drained already, or have failed to clean up.
func TestWhatWasDeletedBeforeASlotCameIsReconciled(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a1", "a2", "b1")
		p := newParts()
		stop := w.start(&reconcile.Options{Shards: p}, func(_ context.Context, r request) (reconcile.Result, error) {
			_, live := r.Object()
			w.ran(fmt.Sprint(r.Key.Name, " ", live))
			return nothing, nil
		})
		pass(time.Second)
		w.delete("a1")
		w.delete("b1")
		pass(30 * time.Second)
		p.take('a')
		pass(time.Second)
		w.Expect(w.reconciled()).To(ConsistOf("a1 false", "a2 true"))
		w.Expect(p.leave('a', errMoves)()).To(Succeed())

		w.delete("a2")
		pass(10 * time.Minute)
		w.create("c1")
		w.delete("c1")
		pass(time.Second)
		for _, slot := range []byte("abc") {
			p.take(slot)
		}
		pass(time.Second)
		w.Expect(w.reconciled()).To(Equal([]string{"c1 false"}), "the others were deleted too long ago")
		w.Expect(stop()).To(Succeed())
	})
}

// No replica has the slot while it moves.
func TestAKeyWithoutAnObjectThatArrivesBeforeItsSlotIsReconciled(t *testing.T) {
	inFixture(t, func(w *fixture) {
		p := newParts()
		c := w.made(&reconcile.Options{Shards: p}, w.recorder())
		stop := w.startRun(c.Run)
		pass(time.Second)
		c.Enqueue(key("a1"), key("b1"))
		pass(time.Second)
		w.Expect(w.reconciled()).To(BeEmpty())
		p.take('a')
		pass(time.Second)
		w.Expect(w.reconciled()).To(Equal([]string{"gone a1"}))
		w.Expect(stop()).To(Succeed())
	})
}

// The last owner may drain for that long, and fail to clean up at the end.
func TestWhatIsDeletedIsKnownForTheTimeOfADrain(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a1", "b1")
		p := newParts()
		stop := w.start(&reconcile.Options{Shards: p, Grace: 5 * time.Minute}, w.recorder())
		pass(time.Second)
		w.delete("a1")
		pass(5*time.Minute + 50*time.Second)
		w.delete("b1")
		pass(time.Second)
		p.take('a')
		pass(time.Second)
		w.Expect(w.reconciled()).To(Equal([]string{"gone a1"}))
		w.Expect(stop()).To(Succeed())
	})
}

func TestLeaderAndShardsExcludeEachOther(t *testing.T) {
	inFixture(t, func(w *fixture) {
		_, err := reconcile.New("test", w.in, reconcile.Func[*configMap](
			func(context.Context, request) (reconcile.Result, error) { return nothing, nil }),
			&reconcile.Options{Shards: newParts(), Leader: terms{}})
		w.Expect(err).To(MatchError(ContainSubstring("Options.Leader is set: must be nil with Shards")))
	})
}

// refusing are shards that cannot run.
type refusing struct{ *parts }

func (refusing) Run(context.Context, func(context.Context, int) error) error {
	return errors.New("the replicas divide differently")
}

func TestRunReturnsTheErrorOfTheShards(t *testing.T) {
	inFixture(t, func(w *fixture) {
		stop := w.start(&reconcile.Options{Shards: refusing{newParts()}},
			func(context.Context, request) (reconcile.Result, error) { return nothing, nil })
		pass(time.Second)
		w.Expect(stop()).To(MatchError(ContainSubstring("divide differently")))
	})
}

// A wrapped informer cannot tell whether its cache has seen what the last
// leader, or the last owner of a slot, wrote.
func TestLeadersAndShardsTakeNoWrappedInformer(t *testing.T) {
	g := NewWithT(t)
	client := fake.NewClientset()
	factory := clientinformers.NewSharedInformerFactory(client, 0)
	wrapped := clientgo.Wrap[*configMap](factory.Core().V1().ConfigMaps().Informer(), &informer.Options{Name: "shared"})
	own := informer.For(client.CoreV1().ConfigMaps("d"), nil)
	r := reconcile.Func[*configMap](func(context.Context, request) (reconcile.Result, error) { return nothing, nil })
	fault := MatchError(ContainSubstring("the informer of shared must be made by informer.For"))
	wayOut := MatchError(ContainSubstring("an informer of clientgo.Wrap does not know"))

	triggers := []reconcile.Trigger{reconcile.Owned(wrapped)}
	for field, o := range map[string]reconcile.Options{"Shards": {Shards: newParts()}, "Leader": {Leader: terms{}}} {
		named := MatchError(ContainSubstring("Options." + field + " is set"))
		_, err := reconcile.New("test", wrapped, r, &o)
		g.Expect(err).To(And(fault, named, wayOut))
		o.Triggers = triggers
		_, err = reconcile.New("test", own, r, &o)
		g.Expect(err).To(And(fault, named, wayOut))
	}
	_, err := reconcile.New("test", own, r, &reconcile.Options{Triggers: triggers})
	g.Expect(err).NotTo(HaveOccurred(), "each replica by itself")
}

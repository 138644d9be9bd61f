package reconcile_test

import (
	"context"
	"errors"
	goruntime "runtime"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clientgo "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/reconcile"
)

// recorder returns a reconciler that records what it sees of each key.
func (w *fixture) recorder() reconcFn {
	return func(_ context.Context, r request) (reconcile.Result, error) {
		if object, ok := r.Object(); ok {
			w.ran("object " + r.Key.Name + string(object.UID))
		} else {
			w.ran("gone " + r.Key.Name)
		}
		return nothing, nil
	}
}

func knownKeys(all ...string) names.Func {
	return func(context.Context) ([]names.Name, error) {
		var out []names.Name
		for _, name := range all {
			out = append(out, names.Name{Key: key(name)})
		}
		return out, nil
	}
}

func TestKnownReconcilesWhatWasDeletedWhileDown(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("live")
		stop := w.start(&reconcile.Options{Workers: 1, Known: knownKeys("live", "gone-while-down")}, w.recorder())
		w.Expect(w.reconciled()).To(ConsistOf("object live", "gone gone-while-down"))
		w.Expect(stop()).To(Succeed())
	})
}

func TestKnownSweepsAgainLater(t *testing.T) {
	inFixture(t, func(w *fixture) {
		var left atomic.Bool
		lister := names.Func(func(context.Context) ([]names.Name, error) {
			if left.Load() {
				return []names.Name{{Key: key("left-behind")}}, nil
			}
			return nil, nil
		})
		stop := w.start(&reconcile.Options{Known: lister, Sweep: &names.Options{Period: time.Minute}}, w.recorder())
		w.Expect(w.reconciled()).To(BeEmpty())
		left.Store(true)
		<-time.After(2 * time.Minute)
		w.Expect(w.reconciled()).To(Equal([]string{"gone left-behind"}))
		w.Expect(stop()).To(Succeed())
	})
}

func TestKnownReconcilesARecreatedObjectAsDeletedAndThenAsNew(t *testing.T) {
	inFixture(t, func(w *fixture) {
		_, err := w.client.CoreV1().ConfigMaps("d").Create(t.Context(), &configMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "a", UID: "2"},
		}, metav1.CreateOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		release := make(chan struct{})
		lister := names.Func(func(context.Context) ([]names.Name, error) {
			<-release
			return []names.Name{{Key: key("a"), UID: "1"}}, nil
		})
		broken := true
		see := w.recorder()
		stop := w.start(&reconcile.Options{Known: lister}, func(ctx context.Context, r request) (reconcile.Result, error) {
			if _, ok := r.Object(); !ok && broken {
				broken = false
				w.ran("failed")
				return nothing, errors.New("the zone is locked")
			}
			return see(ctx, r)
		})
		w.Expect(w.reconciled()).To(Equal([]string{"object a2"}))
		close(release)
		<-time.After(time.Minute)
		w.Expect(w.reconciled()).To(Equal([]string{"failed", "gone a", "object a2"}))
		w.Expect(stop()).To(Succeed())
	})
}

func TestKnownLeavesNamesAloneThatTheCacheWouldNotHold(t *testing.T) {
	inFixture(t, func(w *fixture) {
		lister := names.Func(func(context.Context) ([]names.Name, error) {
			elsewhere := types.NamespacedName{Namespace: "other", Name: "x"}
			return []names.Name{{Key: key("gone")}, {Key: key("theirs")}, {Key: elsewhere}}, nil
		})
		stop := w.start(&reconcile.Options{Known: lister, Sweep: &names.Options{
			Scope: func(n names.Name) bool { return n.Key.Name != "theirs" },
		}}, w.recorder())
		w.Expect(w.reconciled()).To(Equal([]string{"gone gone"}))
		w.Expect(stop()).To(Succeed())
	})
}

// The first list is older than the names: it is empty, although the object
// exists. An orphan is only a suspicion, so the reconciler asks the server.
func TestKnownWithAStaleFirstListDeletesNothingThatIsLive(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("live")
		w.client.PrependReactor("list", "configmaps", func(clientgo.Action) (bool, runtime.Object, error) {
			return true, &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}, nil
		})
		w.client.PrependWatchReactor("configmaps", clientgo.DefaultWatchReactor(watch.NewFake(), nil))
		stop := w.start(&reconcile.Options{Known: knownKeys("live", "gone")},
			func(ctx context.Context, r request) (reconcile.Result, error) {
				if _, ok := r.Object(); ok {
					return nothing, nil
				}
				_, live, err := names.Live(ctx, w.client.CoreV1().ConfigMaps("d"), r.Key.Name)
				if err != nil {
					return nothing, err
				}
				if !live {
					w.ran("deleted " + r.Key.Name)
				} else {
					w.ran("spared " + r.Key.Name)
				}
				return nothing, nil
			})
		w.Expect(w.reconciled()).To(ConsistOf("spared live", "deleted gone"))
		w.Expect(stop()).To(Succeed())
	})
}

func TestKnownThatFailsCleansNothingAndSaysSo(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("live")
		c, err := reconcile.New("test", w.in, reconcile.Func[*configMap](w.recorder()), &reconcile.Options{
			Known: names.Func(func(context.Context) ([]names.Name, error) {
				return []names.Name{{Key: key("gone")}}, errors.New("zone server is away")
			}),
		})
		w.Expect(err).NotTo(HaveOccurred())
		stop := w.startRun(c.Run)
		w.Expect(w.reconciled()).To(Equal([]string{"object live"}))
		w.Expect(c.Sweep().Ready()).To(MatchError(ContainSubstring("zone server is away")))
		w.Expect(c.Sweep().Stats().Failures).To(Equal(uint64(1)))
		w.Expect(w.logged()).To(ContainElement(ContainSubstring("zone server is away")))
		w.Expect(stop()).To(Succeed())
	})
}

func TestKnownSafetyLimitWarns(t *testing.T) {
	inFixture(t, func(w *fixture) {
		recorder := events.NewFakeRecorder(10)
		refused := 0
		c, err := reconcile.New("test", w.in, reconcile.Func[*configMap](w.recorder()), &reconcile.Options{
			Known: knownKeys("a", "b", "c"),
			Sweep: &names.Options{MaxCount: 2, Refused: func(e *names.RefusedError) {
				refused++
				e.Advice = "start once with --confirm-orphans=3"
			}},
			Events: recorder,
		})
		w.Expect(err).NotTo(HaveOccurred())
		stop := w.startRun(c.Run)
		w.Expect(w.reconciled()).To(BeEmpty())
		w.Expect(recorder.Events).To(Receive(And(ContainSubstring("OrphansRefused"), ContainSubstring("3 of 3 known names"),
			ContainSubstring("--confirm-orphans=3"))))
		w.Expect(refused).To(Equal(1))
		w.Expect(w.logged()).To(ContainElement(And(ContainSubstring("3 of 3 known names"),
			ContainSubstring("--confirm-orphans=3"))))
		c.Sweep().Confirm(3)
		w.Expect(w.reconciled()).To(ConsistOf("gone a", "gone b", "gone c"))
		w.Expect(stop()).To(Succeed())
	})
}

func TestSweepWithoutKnownIsAnError(t *testing.T) {
	inFixture(t, func(w *fixture) {
		_, err := reconcile.New("test", informer.For(w.client.CoreV1().ConfigMaps("d"), nil),
			reconcile.Func[*configMap](w.recorder()), &reconcile.Options{Sweep: &names.Options{}})
		w.Expect(err).To(MatchError(ContainSubstring("Options.Sweep is set: must be nil without Known")))
		_, err = reconcile.New("test", w.in, reconcile.Func[*configMap](w.recorder()), &reconcile.Options{
			Known: knownKeys(), Sweep: &names.Options{MaxShare: 2},
		})
		w.Expect(err).To(MatchError(ContainSubstring("Options.MaxShare is 2")))
		for _, known := range []names.Lister{names.Func(nil), names.Union(knownKeys(), nil)} {
			_, err = reconcile.New("test", w.in, reconcile.Func[*configMap](w.recorder()), &reconcile.Options{Known: known})
			w.Expect(err).To(MatchError(ContainSubstring("lister is nil")))
		}
	})
}

func TestWithoutKnownNamesThereIsNoSweep(t *testing.T) {
	inFixture(t, func(w *fixture) { w.Expect(w.controller("one").Sweep()).To(BeNil()) })
}

// The first call of a lister has ended its goroutine, and the next is due in a
// minute.
func TestKnownNamesAreNotListedAgainAfterTheStop(t *testing.T) {
	inFixture(t, func(w *fixture) {
		calls := 0
		stop := w.start(&reconcile.Options{Known: names.Func(func(context.Context) ([]names.Name, error) {
			calls++
			goruntime.Goexit()
			return nil, nil
		})}, w.recorder())
		pass(30 * time.Second)
		w.Expect(stop()).To(Succeed())
		w.Expect(calls).To(Equal(1))
	})
}

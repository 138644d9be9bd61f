package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/simhook"
	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/queue"
	"github.com/homeostat/homeostat/reconcile"
)

func TestEveryObjectIsReconciledOnceAndAgainAfterEachChange(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a", "b")
		stop := w.start(nil, func(_ context.Context, r request) (reconcile.Result, error) {
			object, ok := r.Object()
			if !ok {
				w.ran(r.Key.Name + " gone")
				return nothing, nil
			}
			w.ran(r.Key.Name + " " + object.Data["v"])
			return nothing, nil
		})
		w.Expect(w.reconciled()).To(ConsistOf("a ", "b "))
		w.update("a", func(c *configMap) { c.Data = map[string]string{"v": "2"} })
		w.Expect(w.reconciled()).To(Equal([]string{"a 2"}))
		w.delete("b")
		w.Expect(w.reconciled()).To(Equal([]string{"b gone"}))
		w.Expect(stop()).To(Succeed())
	})
}

func TestNoReconcileBeforeEveryCacheHasItsFirstList(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a")
		var allowed atomic.Bool
		w.client.PrependReactor("list", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
			if allowed.Load() {
				return false, nil, nil
			}
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "", errors.New("no"))
		})
		secrets := informer.For(w.client.CoreV1().Secrets("d"), nil)
		stop := w.start(&reconcile.Options{Triggers: []reconcile.Trigger{reconcile.Owned(secrets)}},
			func(_ context.Context, r request) (reconcile.Result, error) {
				w.ran(r.Key.Name)
				return nothing, nil
			})
		pass(time.Minute)
		w.Expect(w.reconciled()).To(BeEmpty())
		allowed.Store(true)
		pass(time.Minute)
		w.Expect(w.reconciled()).To(Equal([]string{"a"}))
		w.Expect(stop()).To(Succeed())
	})
}

func TestAControllerThatNeverSyncedSaysWhichCacheAndWhy(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.client.PrependReactor("list", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "", errors.New("no role"))
		})
		stop := w.start(nil, func(context.Context, request) (reconcile.Result, error) { return nothing, nil })
		pass(time.Second)
		w.Expect(stop()).To(MatchError(And(
			ContainSubstring(`controller "test"`), ContainSubstring("configmaps"), ContainSubstring("no role"))))
	})
}

func TestOneKeyIsNeverWorkedOnTwiceAtOnce(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a")
		var mu sync.Mutex
		running, most := 0, 0
		stop := w.start(&reconcile.Options{Workers: 8}, func(context.Context, request) (reconcile.Result, error) {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			<-time.After(time.Second)
			mu.Lock()
			running--
			mu.Unlock()
			w.ran("a")
			return nothing, nil
		})
		pass(time.Second / 2)
		for range 5 {
			w.update("a", func(c *configMap) { c.Data = map[string]string{"at": time.Now().String()} })
			pass(100 * time.Millisecond)
		}
		pass(10 * time.Second)
		w.Expect(most).To(Equal(1))
		w.Expect(w.reconciled()).To(HaveLen(2), "the changes during a reconcile make one more")
		w.Expect(stop()).To(Succeed())
	})
}

func TestAfterLooksAgainWithoutAChange(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a")
		start := time.Now()
		stop := w.start(nil, func(context.Context, request) (reconcile.Result, error) {
			w.ran(time.Since(start).String())
			return reconcile.After(time.Hour), nil
		})
		pass(150 * time.Minute)
		w.Expect(w.reconciled()).To(Equal([]string{"0s", "1h0m0s", "2h0m0s"}))
		w.Expect(stop()).To(Succeed())
	})
}

func TestErrors(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "a", errors.New("newer"))
	throttled := &apierrors.StatusError{ErrStatus: metav1.Status{
		Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests,
		Details: &metav1.StatusDetails{RetryAfterSeconds: 7},
	}}
	for _, c := range []struct {
		name       string
		result     reconcile.Result
		err        error
		within     time.Duration
		reconciles OmegaMatcher
		log        string
		unlogged   string
	}{
		{"an error is retried", nothing, errors.New("boom"), time.Hour, BeNumerically(">", 10), "reconcile failed, retrying", ""},
		{"a terminal error is not", nothing, reconcile.Terminal(errors.New("boom")), time.Hour, Equal(1), "waiting for a change", "retrying"},
		{"a wrapped terminal error is not", nothing, errors.Join(reconcile.Terminal(errors.New("boom"))), time.Hour, Equal(1), "waiting for a change", "retrying"},
		{"a terminal error beside another is", nothing, errors.Join(reconcile.Terminal(errors.New("boom")), errors.New("bang")), time.Hour, BeNumerically(">", 1), "retrying", "waiting for a change"},
		{"two terminal errors are not", nothing, errors.Join(reconcile.Terminal(errors.New("boom")), reconcile.Terminal(errors.New("bang"))), time.Hour, Equal(1), "waiting for a change", "retrying"},
		{"an error with After waits exactly", reconcile.After(time.Minute), errors.New("boom"), 3*time.Minute + time.Second, Equal(4), "", ""},
		{"Retry-After is honoured", nothing, throttled, 22 * time.Second, Equal(4), "", ""},
		{"a conflict is repeated soon and quietly", nothing, conflict, 151 * time.Millisecond, Equal(3), "repeating the reconcile soon", "retrying"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inFixture(t, func(w *fixture) {
				w.create("a")
				stop := w.start(nil, func(context.Context, request) (reconcile.Result, error) {
					w.ran("a")
					return c.result, c.err
				})
				pass(c.within)
				w.Expect(len(w.reconciled())).To(c.reconciles)
				log := strings.Join(w.logged(), "\n")
				w.Expect(log).To(ContainSubstring(c.log))
				if c.unlogged != "" {
					w.Expect(log).NotTo(ContainSubstring(c.unlogged))
				}
				w.Expect(stop()).To(Succeed())
			})
		})
	}
}

func TestASimulatorDrawsTheBackoff(t *testing.T) {
	t.Cleanup(simhook.Use(&simhook.Hooks{Jitter: func() float64 { return 0.5 }}))
	inFixture(t, func(w *fixture) {
		w.create("a")
		start, mapped := time.Now(), 0
		at := func(who string) { w.ran(who + " " + time.Since(start).String()) }
		stop := w.start(&reconcile.Options{
			Backoff: queue.Backoff{Base: time.Second},
			Triggers: []reconcile.Trigger{reconcile.Mapped(w.in, func(context.Context, *configMap, *configMap) ([]reconcile.Key, error) {
				at("mapper")
				if mapped++; mapped < 3 {
					return nil, errors.New("not yet")
				}
				return nil, nil
			})},
		}, func(context.Context, request) (reconcile.Result, error) {
			at("reconcile")
			return nothing, errors.New("boom")
		})
		pass(3 * time.Second)
		w.Expect(w.reconciled()).To(ConsistOf(
			"reconcile 0s", "reconcile 500ms", "reconcile 1.5s", "mapper 0s", "mapper 50ms", "mapper 150ms"))
		w.Expect(stop()).To(Succeed())
	})
}

func TestTerminalRestsUntilTheObjectChanges(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a")
		stop := w.start(nil, func(context.Context, request) (reconcile.Result, error) {
			w.ran("a")
			return nothing, reconcile.Terminal(errors.New("no such thing"))
		})
		pass(time.Hour)
		w.reconciled()
		w.update("a", func(c *configMap) { c.Data = map[string]string{"v": "2"} })
		w.Expect(w.reconciled()).To(HaveLen(1))
		w.Expect(stop()).To(Succeed())
	})
}

func TestAPanicIsAnErrorOfItsKey(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.panics = true
		w.create("a", "b")
		stop := w.start(&reconcile.Options{Workers: 1}, func(_ context.Context, r request) (reconcile.Result, error) {
			w.ran(r.Key.Name)
			if r.Key.Name == "a" && len(w.logged()) == 1 {
				panic("no way")
			}
			return nothing, nil
		})
		pass(time.Hour)
		w.Expect(w.reconciled()).To(ConsistOf("a", "a", "b"))
		w.Expect(w.logged()).To(HaveLen(2))
		w.Expect(w.logged()[0]).To(ContainSubstring("caches are filled"))
		w.Expect(w.logged()[1]).To(And(ContainSubstring("no way"),
			ContainSubstring("controller_test.go"), ContainSubstring(`"name"="a"`)))
		w.Expect(stop()).To(Succeed())
	})
}

func TestAReconcileHasADeadlineAndItsCause(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a")
		stop := w.start(&reconcile.Options{ReconcileTimeout: time.Minute}, func(ctx context.Context, _ request) (reconcile.Result, error) {
			start := time.Now()
			child, cancel := context.WithCancel(ctx)
			defer cancel()
			<-child.Done()
			w.ran(time.Since(start).String())
			w.Expect(context.Cause(child)).To(MatchError(reconcile.ErrReconcileTimeout))
			w.Expect(ctx.Err()).To(MatchError(context.DeadlineExceeded))
			return nothing, nil
		})
		pass(time.Hour)
		w.Expect(w.reconciled()).To(Equal([]string{"1m0s"}))
		w.Expect(stop()).To(Succeed())
	})
}

func TestTheContextOfAReconcileEndsWithIt(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a")
		var kept context.Context
		var during <-chan struct{}
		stop := w.start(nil, func(ctx context.Context, _ request) (reconcile.Result, error) {
			kept, during = ctx, ctx.Done()
			return nothing, nil
		})
		w.reconciled()
		<-during
		w.Expect(kept.Err()).To(MatchError(context.Canceled))
		w.Expect(stop()).To(Succeed())
	})
}

func TestAContextThatIsFirstAskedAfterItsReconcileHasEndedToo(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a")
		var kept context.Context
		stop := w.start(nil, func(ctx context.Context, _ request) (reconcile.Result, error) {
			kept = ctx
			return nothing, nil
		})
		w.reconciled()
		<-kept.Done()
		w.Expect(stop()).To(Succeed())
	})
}

func TestTheLogOfAReconcileNamesKeyAndCauses(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a")
		stop := w.start(nil, func(ctx context.Context, _ request) (reconcile.Result, error) {
			reconcileLogger(ctx).Info("hello")
			return nothing, nil
		})
		w.Expect(w.logged()).To(ContainElement(And(
			ContainSubstring(`"controller"="test"`), ContainSubstring(`"kind"="ConfigMap"`),
			ContainSubstring(`"namespace"="d"`), ContainSubstring(`"name"="a"`),
			ContainSubstring(`configmaps: added d/a`))))
		w.Expect(stop()).To(Succeed())
	})
}

func TestStop(t *testing.T) {
	t.Run("lets reconciles in flight finish", func(t *testing.T) {
		inFixture(t, func(w *fixture) {
			w.create("a")
			stop := w.start(&reconcile.Options{Grace: time.Minute}, func(ctx context.Context, _ request) (reconcile.Result, error) {
				select {
				case <-ctx.Done():
					w.ran("cancelled")
				case <-time.After(30 * time.Second):
					w.ran("finished")
				}
				return nothing, nil
			})
			pass(time.Second)
			w.Expect(stop()).To(Succeed())
			w.Expect(w.reconciled()).To(Equal([]string{"finished"}))
		})
	})
	t.Run("cancels them when the grace is over", func(t *testing.T) {
		inFixture(t, func(w *fixture) {
			w.create("a")
			stop := w.start(&reconcile.Options{Grace: time.Minute}, func(ctx context.Context, _ request) (reconcile.Result, error) {
				<-ctx.Done()
				w.ran(context.Cause(ctx).Error())
				return nothing, ctx.Err()
			})
			pass(time.Second)
			began := time.Now()
			w.Expect(stop()).To(Succeed())
			w.Expect(time.Since(began)).To(Equal(time.Minute))
			w.Expect(w.reconciled()).To(Equal([]string{reconcile.ErrGraceExpired.Error()}))
		})
	})
	t.Run("leaves the caches running until the last reconcile has ended", func(t *testing.T) {
		inFixture(t, func(w *fixture) {
			w.create("a")
			stop := w.start(nil, func(context.Context, request) (reconcile.Result, error) {
				<-time.After(10 * time.Second)
				w.ran(fmt.Sprint(w.in.Snapshot().Len()))
				return nothing, nil
			})
			pass(time.Second)
			go func() {
				<-time.After(time.Second)
				w.create("b")
			}()
			w.Expect(stop()).To(Succeed())
			w.Expect(w.reconciled()).To(Equal([]string{"2"}))
			w.Expect(w.in.Status().Running).To(BeFalse())
		})
	})
	t.Run("takes no new key", func(t *testing.T) {
		inFixture(t, func(w *fixture) {
			w.create("a")
			stop := w.start(&reconcile.Options{Workers: 1}, func(_ context.Context, r request) (reconcile.Result, error) {
				w.ran(r.Key.Name)
				<-time.After(10 * time.Second)
				return nothing, nil
			})
			pass(time.Second)
			w.create("b")
			pass(time.Second)
			w.Expect(stop()).To(Succeed())
			w.Expect(w.reconciled()).To(Equal([]string{"a"}))
		})
	})
}

func TestAControllerRunsOnce(t *testing.T) {
	inFixture(t, func(w *fixture) {
		c, err := reconcile.New("test", w.in, reconcile.Func[*configMap](
			func(context.Context, request) (reconcile.Result, error) { return nothing, nil }), nil)
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(w.startRun(c.Run)()).To(Or(Succeed(), MatchError(ContainSubstring("configmaps"))))
		w.Expect(c.Run(w.context())).To(MatchError(ContainSubstring("has run already")))
	})
}

func TestNewNamesEveryMistake(t *testing.T) {
	g := NewWithT(t)
	_, err := reconcile.New[*corev1.ConfigMap]("", nil, nil, &reconcile.Options{
		Workers: -1, ReconcileTimeout: -time.Second, Grace: -time.Second, FreshnessDeadline: -time.Second,
		Resync: -time.Second, MinInterval: -time.Second, Backoff: queue.Backoff{Base: -time.Second, Cap: -time.Minute},
		FieldManager: strings.Repeat("x", 129), Triggers: []reconcile.Trigger{nil},
		Known: names.Union(), Sweep: &names.Options{MaxShare: 2},
	})
	for _, fault := range []string{
		"name is empty", "informer is nil", "reconciler is nil", "Options.Workers is -1",
		"Options.ReconcileTimeout is -1s", "Options.Grace is -1s", "Options.FreshnessDeadline is -1s", "Options.Resync is -1s",
		"Options.MinInterval is -1s", "queue.Backoff.Base is -1s", "queue.Backoff.Cap is -1m0s",
		"Options.FieldManager", "Options.Triggers[0] is nil", "Options.MaxShare",
	} {
		g.Expect(err).To(MatchError(ContainSubstring(fault)))
	}
	g.Expect(strings.Count(err.Error(), "MinInterval")).To(Equal(1), "once each")
}

func TestNewNamesTheMistakesOfItsInformers(t *testing.T) {
	g := NewWithT(t)
	client := fake.NewClientset().CoreV1()
	primary := informer.For(client.ConfigMaps(""), &informer.Options{PageSize: -1})
	owned := informer.For(client.Secrets(""), &informer.Options{LabelSelector: "a in"})
	r := reconcile.Func[*corev1.ConfigMap](func(context.Context, request) (reconcile.Result, error) { return nothing, nil })
	_, err := reconcile.New("test", primary, r, &reconcile.Options{Triggers: []reconcile.Trigger{reconcile.Owned(owned)}})
	g.Expect(err).To(MatchError(And(
		ContainSubstring("informer of configmaps: informer.Options.PageSize is -1: must not be negative"),
		ContainSubstring(`informer of secrets: informer.Options.LabelSelector is "a in"`),
	)))
}

func TestAKeyRestsForTheMinimumIntervalBetweenItsReconciles(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a")
		start := time.Now()
		stop := w.start(&reconcile.Options{MinInterval: time.Minute}, func(context.Context, request) (reconcile.Result, error) {
			w.ran(time.Since(start).String())
			return nothing, nil
		})
		pass(time.Second)
		w.update("a", func(c *configMap) { c.Data = map[string]string{"v": "2"} })
		pass(time.Hour)
		w.Expect(w.reconciled()).To(Equal([]string{"0s", "1m0s"}))
		w.Expect(stop()).To(Succeed())
	})
}

func TestGroupsOfKeysTakeReconciles(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a1", "a2", "a3", "a4", "b1", "b2")
		c := w.made(&reconcile.Options{
			Workers: 1, Group: func(key reconcile.Key) string { return key.Name[:1] },
		}, func(_ context.Context, r request) (reconcile.Result, error) {
			w.ran(r.Key.Name)
			return nothing, nil
		})
		stop := w.startRun(c.Run)
		pass(time.Second)
		w.Expect(w.reconciled()).To(Equal([]string{"a1", "b1", "a2", "b2", "a3", "a4"}))
		w.Expect(c.Stats().Panics).To(BeZero())
		w.Expect(stop()).To(Succeed())
	})
}

func TestResyncSpreadsAllKeysOverItsPeriod(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a", "b")
		start := time.Now()
		stop := w.start(&reconcile.Options{Resync: time.Hour, Workers: 1}, func(_ context.Context, r request) (reconcile.Result, error) {
			w.ran(r.Key.Name + " " + time.Since(start).String())
			return nothing, nil
		})
		pass(100 * time.Minute)
		w.Expect(w.reconciled()).To(Equal([]string{"a 0s", "b 0s", "a 1h0m0s", "b 1h30m0s"}))
		w.Expect(stop()).To(Succeed())
	})
}

func TestWritesWithoutVersionsAsOnFakesDoNotHold(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a")
		stop := w.start(nil, func(ctx context.Context, r request) (reconcile.Result, error) {
			w.ran("a")
			object, _ := r.Object()
			reconcile.Wrote(ctx, object.DeepCopy())
			return reconcile.After(time.Second), nil
		})
		pass(3500 * time.Millisecond)
		w.Expect(w.reconciled()).To(HaveLen(4))
		w.Expect(stop()).To(Succeed())
	})
}

func TestAReconcilerThatEditsTheCacheIsNamedAndFailsItsTest(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a")
		edited := false
		stop := w.start(nil, func(_ context.Context, r request) (reconcile.Result, error) {
			if object, _ := r.Object(); !edited {
				edited = true
				object.Data = map[string]string{"v": "mine"}
			}
			return nothing, nil
		})
		pass(time.Minute)
		w.Expect(strings.Join(w.logged(), "\n")).To(And(
			ContainSubstring("modified the cache instead of a copy"), ContainSubstring(`"controller"="test"`), ContainSubstring("data")))
		w.Expect(stop()).To(MatchError(And(ContainSubstring(`controller "test"`), ContainSubstring("d/a"))))
	})
}

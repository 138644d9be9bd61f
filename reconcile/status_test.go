package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	. "github.com/onsi/gomega/gstruct"
	"github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clienttesting "k8s.io/client-go/testing"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/test/leaseapi"
	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/leader/shard"
	"github.com/homeostat/homeostat/queue"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

func (w *fixture) made(o *reconcile.Options, f reconcFn) *reconcile.Controller {
	w.t.Helper()
	c, err := reconcile.New("test", w.in, reconcile.Func[*configMap](f), o)
	w.Expect(err).NotTo(HaveOccurred())
	w.controllers = append(w.controllers, c)
	return c
}

func trigger(informer, kind, triggerType string) types.GomegaMatcher {
	return MatchFields(IgnoreExtras, Fields{"Informer": Equal(informer), "Kind": Equal(kind), "Type": Equal(triggerType)})
}

func keysOf(c *reconcile.Controller) map[string]inspect.KeyStatus {
	keys := map[string]inspect.KeyStatus{}
	for _, k := range c.Status(100).Keys {
		keys[k.Key.Name] = k
	}
	return keys
}

func TestStatusTellsPhaseTriggersAndOutputs(t *testing.T) {
	inFixture(t, func(w *fixture) {
		secrets := informer.For(w.client.CoreV1().Secrets("d"), nil)
		nodes := informer.For(w.client.CoreV1().Nodes(), nil)
		c := w.made(&reconcile.Options{Triggers: []reconcile.Trigger{
			reconcile.Owned(secrets),
			reconcile.Mapped(nodes, func(_ context.Context, _, _ *corev1.Node) ([]reconcile.Key, error) { return nil, nil }),
		}}, func(ctx context.Context, _ request) (reconcile.Result, error) {
			reconcile.Wrote(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "elsewhere"}})
			reconcile.Deleted(ctx, &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: "Job"}})
			return nothing, nil
		})
		w.Expect(c.Phase()).To(Equal(inspect.Created))
		w.create("a")
		stop := w.startRun(c.Run)
		w.reconciled()
		w.Expect(c.Status(0)).To(MatchFields(IgnoreExtras, Fields{
			"Name": Equal("test"), "Kind": Equal("ConfigMap"), "Phase": Equal(inspect.Working),
			"Triggers": HaveExactElements(
				trigger("configmaps", "ConfigMap", "primary"),
				trigger("secrets", "Secret", "owned"),
				trigger("nodes", "Node", "mapped"),
			),
			"Outputs": Equal([]string{"Job", "Secret"}), "Keys": BeEmpty(),
		}))
		w.Expect(stop()).To(Succeed())
		w.Expect(c.Phase()).To(Equal(inspect.Stopped))
	})
}

func TestStatusTellsWhatKeysAreUpTo(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.panics = true
		w.create("good", "held", "failing", "hopeless", "panicking")
		release := make(chan struct{})
		c := w.made(nil, func(_ context.Context, r request) (reconcile.Result, error) {
			switch r.Key.Name {
			case "held":
				<-release
			case "failing":
				return reconcile.After(time.Minute), errors.New("no\nfurther details")
			case "hopeless", "worse", "worst":
				return nothing, reconcile.Terminal(errors.New("contradiction"))
			case "panicking":
				panic("boom")
			}
			return nothing, nil
		})
		stop := w.startRun(c.Run)
		w.reconciled()
		keys := keysOf(c)
		w.Expect(keys).To(HaveLen(4))
		w.Expect(keys["held"]).To(MatchFields(IgnoreExtras, Fields{"Failure": BeEmpty(), "Resting": BeFalse()}))
		w.Expect(keys["held"].State).To(Equal(queue.Held))
		w.Expect(keys["held"].Causes[0].Trigger).To(Equal("configmaps"))
		w.Expect(keys["failing"].Failure).To(Equal("no"))
		w.Expect(keys["failing"].BackingOff).To(BeTrue())
		w.Expect(keys["failing"].Failures).To(Equal(1))
		w.Expect(keys["failing"].Next).To(Equal(keys["failing"].FailedAt.Add(time.Minute)))
		w.Expect(keys["hopeless"]).To(MatchFields(IgnoreExtras, Fields{
			"Resting": BeTrue(), "Failure": Equal("contradiction"), "FailedAt": Equal(time.Now()),
		}))
		w.Expect(keys["panicking"].Failure).To(Equal("panic: boom"))
		w.Expect(c.Status(1).Keys).To(HaveLen(1))
		w.Expect(c.Status(2).Keys).To(HaveLen(2))
		pass(time.Second)
		for _, later := range []string{"worse", "worst"} {
			w.create(later)
			pass(time.Second)
		}
		all := c.Status(100).Keys
		w.Expect(all[len(all)-3:]).To(HaveExactElements(HaveField("Key.Name", "worst"), HaveField("Key.Name", "worse"),
			HaveField("Key.Name", "hopeless")), "the keys that gave up, the latest first")
		w.Expect(c.Status(len(all) - 1).Keys).To(And(HaveLen(len(all)-1), ContainElement(HaveField("Key.Name", "worst"))))
		close(release)
		w.Expect(stop()).To(Succeed())
	})
}

func TestStatusForgetsFailuresThatAreOver(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a", "b")
		failing := true
		c := w.made(nil, func(_ context.Context, r request) (reconcile.Result, error) {
			if failing && r.Key.Name == "a" {
				return nothing, reconcile.Terminal(errors.New("not now"))
			}
			return nothing, nil
		})
		stop := w.startRun(c.Run)
		w.reconciled()
		w.Expect(keysOf(c)).To(HaveKey("a"))
		failing = false
		w.update("a", func(o *configMap) { o.Labels = map[string]string{"fixed": ""} })
		w.reconciled()
		w.Expect(keysOf(c)).To(BeEmpty())
		w.Expect(stop()).To(Succeed())
	})
}

func TestStatusRemembersABoundedNumberOfBoundedFailures(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("one")
		many := func(_ context.Context, _, _ *configMap) (keys []reconcile.Key, _ error) {
			for i := range 1100 {
				keys = append(keys, key(fmt.Sprintf("m%d", i)))
			}
			return keys, nil
		}
		c := w.made(&reconcile.Options{Triggers: []reconcile.Trigger{reconcile.Mapped(w.in, many)}}, func(context.Context, request) (reconcile.Result, error) {
			return nothing, reconcile.Terminal(errors.New(strings.Repeat("x", 10_000)))
		})
		stop := w.startRun(c.Run)
		w.reconciled()
		keys := c.Status(5000).Keys
		w.Expect(keys).To(HaveLen(1000))
		w.Expect(len(keys[0].Failure)).To(BeNumerically("<", 1100))
		w.Expect(c.Stats().Failing).To(Equal(1000))
		w.Expect(stop()).To(Succeed())
	})
}

func TestStatusQuotesNoValuesOfInvalidObjects(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a", "b")
		invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, "s", field.ErrorList{
			field.Invalid(field.NewPath("data", "token"), "hunter2", "too short"),
			field.Required(field.NewPath("data", "user"), ""),
		})
		c := w.made(nil, func(_ context.Context, r request) (reconcile.Result, error) {
			err := &apierrors.StatusError{ErrStatus: *invalid.ErrStatus.DeepCopy()}
			if r.Key.Name == "b" {
				err.ErrStatus.Details = nil
			}
			return nothing, fmt.Errorf("patching: %w", err)
		})
		stop := w.startRun(c.Run)
		w.reconciled()
		w.Expect(keysOf(c)["a"].Failure).To(Equal(`patching: Secret "s" is invalid: data.token, data.user`))
		w.Expect(keysOf(c)["b"].Failure).To(Equal("patching: the object is invalid"))
		w.Expect(stop()).To(Succeed())
	})
}

// A talker is a leadership that describes itself.
type talker struct{ terms }

func (talker) String() string    { return "replica-2 leads" }
func (talker) Ready() error      { return errors.New("no permission") }
func (talker) Healthy() error    { return errors.New("stuck") }
func (talker) LeaseName() string { return "d/test" }

func TestStatusTellsWhoLeads(t *testing.T) {
	inFixture(t, func(w *fixture) {
		leadership := talker{terms{make(chan bool)}}
		c := w.made(&reconcile.Options{Leader: leadership}, func(context.Context, request) (reconcile.Result, error) {
			return nothing, nil
		})
		stop := w.startRun(c.Run)
		w.reconciled()
		w.Expect(c.Status(0)).To(MatchFields(IgnoreExtras, Fields{
			"Phase": Equal(inspect.Standby), "Elects": BeTrue(), "LeaderName": Equal("replica-2 leads"),
			"LeaseName": Equal("d/test"),
		}))
		w.Expect(c.LeaderReady()).To(MatchError("no permission"))
		w.Expect(c.Healthy()).To(MatchError("stuck"))
		leadership.change <- true
		w.reconciled()
		w.Expect(c.Phase()).To(Equal(inspect.Working))
		leadership.change <- false
		w.reconciled()
		w.Expect(c.Phase()).To(Equal(inspect.Standby))
		w.Expect(stop()).To(Succeed())
		w.Expect(c.Phase()).To(Equal(inspect.Stopped))
	})
}

// Package reconcile can ask a leadership of package leader everything that it
// asks of a leadership.
func TestStatusShowsALease(t *testing.T) {
	inFixture(t, func(w *fixture) {
		lease := leader.Lease{Client: leaseapi.New(w.t).Link(1), Namespace: "d", Name: "test", Identity: "one"}
		elector, err := leader.New(lease, nil)
		w.Expect(err).NotTo(HaveOccurred())
		lease.Name = "slots"
		shards, err := shard.New(lease, &shard.Options{Slots: 3})
		w.Expect(err).NotTo(HaveOccurred())
		idle := func(context.Context, request) (reconcile.Result, error) { return nothing, nil }
		led := w.made(&reconcile.Options{Leader: elector}, idle)
		sharded := w.made(&reconcile.Options{Shards: shards}, idle)
		stopLed, stopSharded := w.startRun(led.Run), w.startRun(sharded.Run)
		pass(time.Minute)
		w.Expect(led.Status(0)).To(MatchFields(IgnoreExtras, Fields{
			"LeaderName": ContainSubstring(" leads; "), "LeaseName": Equal("test"), "Slots": BeEmpty(),
		}))
		w.Expect(sharded.Status(0)).To(MatchFields(IgnoreExtras, Fields{
			"LeaderName": Equal(shards.String()), "Slots": HaveEach(HaveField("State", inspect.Here)),
		}))
		w.Expect(sharded.Status(0).Slots).To(HaveLen(3))
		w.Expect(stopLed()).To(Succeed())
		w.Expect(stopSharded()).To(Succeed())
	})
}

func TestAControllerWithoutALeaderIsReadyAndHealthy(t *testing.T) {
	inFixture(t, func(w *fixture) {
		c := w.made(nil, func(context.Context, request) (reconcile.Result, error) { return nothing, nil })
		w.Expect(c.LeaderReady()).To(Succeed())
		w.Expect(c.Healthy()).To(Succeed())
		w.Expect(c.Status(0).Elects).To(BeFalse())
	})
}

func TestStatsTellHowLongReconcilesTook(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("quick", "slow", "endless")
		c := w.made(&reconcile.Options{ReconcileTimeout: time.Hour}, func(_ context.Context, r request) (reconcile.Result, error) {
			<-time.After(map[string]time.Duration{"quick": time.Millisecond, "slow": 2 * time.Second, "endless": 5 * time.Minute}[r.Key.Name])
			return nothing, nil
		})
		stop := w.startRun(c.Run)
		pass(time.Second)
		w.Expect(c.Stats().Active).To(Equal(2))
		pass(10 * time.Minute)
		s := c.Stats()
		w.Expect(s.DurationsSum).To(BeNumerically("~", 302.001, 1e-6))
		w.Expect(s.Durations).To(And(HaveKeyWithValue(0.001, uint64(1)), HaveKeyWithValue(1.0, uint64(1)),
			HaveKeyWithValue(2.5, uint64(2)), HaveKeyWithValue(120.0, uint64(2))), "by their upper bounds")
		w.Expect(s.Reconciles[inspect.Succeeded]).To(BeEquivalentTo(3))
		w.Expect(stop()).To(Succeed())
	})
}

func TestAStoppingControllerSaysSo(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a")
		release := make(chan struct{})
		c := w.made(nil, func(context.Context, request) (reconcile.Result, error) {
			<-release
			return nothing, nil
		})
		ctx, cancel := context.WithCancel(w.context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		w.reconciled()
		cancel()
		w.reconciled()
		w.Expect(c.Phase()).To(Equal(inspect.Stopping))
		close(release)
		w.Expect(<-ended).To(Succeed())
	})
}

func TestInformersAreListedOnceAndNamedApart(t *testing.T) {
	inFixture(t, func(w *fixture) {
		others := informer.For(w.client.CoreV1().ConfigMaps("e"), nil)
		secrets := informer.For(w.client.CoreV1().Secrets("d"), nil)
		one := w.controller("one")
		two, err := reconcile.New("two", others, reconcile.Func[*configMap](
			func(context.Context, request) (reconcile.Result, error) { return nothing, nil }),
			&reconcile.Options{Triggers: []reconcile.Trigger{reconcile.Owned(w.in), reconcile.Owned(secrets)}})
		w.Expect(err).NotTo(HaveOccurred())
		w.client.PrependReactor("list", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "", errors.New("no role"))
		})
		w.create("a", "b")
		stop := w.startRun(func(ctx context.Context) error { return reconcile.RunAll(ctx, one, two) })
		w.reconciled()
		informers := inspect.Informers(one, two)
		w.Expect(informers).To(HaveLen(3))
		w.Expect(informers[0]).To(MatchFields(IgnoreExtras, Fields{
			"Controllers": Equal([]string{"one", "two"}),
			"Status": MatchFields(IgnoreExtras, Fields{
				"Name": Equal("configmaps"), "Kind": Equal("ConfigMap"),
				"Synced": BeTrue(), "Reason": BeEmpty(), "Objects": Equal(2),
			}),
		}))
		w.Expect(informers[1].Name).To(Equal("configmaps-2"))
		triggers := two.Status(0).Triggers
		w.Expect(informers[1].Feeds(triggers[0])).To(BeTrue())
		w.Expect(informers[0].Feeds(triggers[0])).To(BeFalse(), "it has the same name")
		w.Expect(informers[2].Status).To(MatchFields(IgnoreExtras, Fields{
			"Name": Equal("secrets"), "Synced": BeFalse(), "Reason": ContainSubstring("no role"),
		}))
		w.Expect(one.Phase()).To(Equal(inspect.Working))
		w.Expect(two.Phase()).To(Equal(inspect.Syncing))
		w.Expect(stop()).To(HaveOccurred())
	})
}

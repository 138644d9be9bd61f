package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	. "github.com/onsi/gomega/gstruct"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

func TestHistoryTellsCausesWritesWhenTheyWereSeenAndTheOutcome(t *testing.T) {
	inFixture(t, func(w *fixture) {
		var began time.Time
		c := w.made(nil, func(ctx context.Context, r request) (reconcile.Result, error) {
			if began.IsZero() {
				began = time.Now()
			}
			object, _ := r.Object()
			if object.Labels["done"] == "yes" {
				return nothing, reconcile.Terminal(errors.New("no more\nsecrets"))
			}
			pass(2 * time.Second)
			changed := object.DeepCopy()
			changed.Labels = map[string]string{"done": "yes"}
			changed.ResourceVersion = "2"
			changed, err := w.client.CoreV1().ConfigMaps("d").Update(ctx, changed, metav1.UpdateOptions{})
			changed.Kind = "ConfigMap"
			reconcile.Wrote(ctx, changed)
			return nothing, err
		})
		w.create("a")
		stop := w.startRun(c.Run)
		pass(3 * time.Second)
		w.Expect(c.History(key("a"))).To(HaveExactElements(
			MatchAllFields(Fields{
				"Key": Equal(key("a")), "Number": Equal(1), "Start": Equal(began), "Took": Equal(2 * time.Second),
				"Causes":     HaveExactElements(HaveField("Type", "added")),
				"Writes":     HaveExactElements(inspect.Write{Kind: "ConfigMap", Namespace: "d", Name: "a", ResourceVersion: "2"}),
				"MoreWrites": BeZero(), "Seen": Equal(began.Add(2 * time.Second)), "Overdue": BeFalse(),
				"Outcome": Equal(inspect.Succeeded), "Failure": BeEmpty(),
			}),
			MatchFields(IgnoreExtras, Fields{
				"Causes":  HaveExactElements(HaveField("NewVersion", "2")),
				"Writes":  BeEmpty(),
				"Seen":    BeZero(),
				"Outcome": Equal(inspect.GaveUp), "Failure": Equal("no more"),
			}),
		))
		w.Expect(c.History(key("b"))).To(BeEmpty())
		w.Expect(stop()).To(Succeed())
	})
}

func TestHistoryHasTheLastTwentyAttemptsAndTenWritesOfEach(t *testing.T) {
	inFixture(t, func(w *fixture) {
		n := 0
		c := w.made(nil, func(ctx context.Context, _ request) (reconcile.Result, error) {
			if n++; n == 25 {
				for i := range 13 {
					reconcile.Wrote(ctx, configMapNamed(strconv.Itoa(i)))
				}
				return nothing, nil
			}
			return reconcile.After(time.Second), fmt.Errorf("attempt %d", n)
		})
		w.create("a")
		stop := w.startRun(c.Run)
		pass(time.Hour)
		attempts := c.History(key("a"))
		w.Expect(attempts).To(HaveLen(20))
		w.Expect(attempts[0]).To(And(HaveField("Number", 6), HaveField("Failure", "attempt 6")))
		w.Expect(attempts[18]).To(And(HaveField("Number", 24), HaveField("Outcome", inspect.Failed)))
		w.Expect(attempts[19]).To(And(HaveField("Writes", HaveLen(10)), HaveField("MoreWrites", 3)))
		w.Expect(stop()).To(Succeed())
	})
}

func TestAReconcileWithoutAnEffectTakesNoOtherKeysPlaceInTheHistory(t *testing.T) {
	inFixture(t, func(w *fixture) {
		c := w.made(&reconcile.Options{Workers: 1}, func(_ context.Context, r request) (reconcile.Result, error) {
			if object, _ := r.Object(); object.Labels["fail"] != "" {
				return nothing, reconcile.Terminal(errors.New("broken"))
			}
			return nothing, nil
		})
		stop := w.startRun(c.Run)
		pass(time.Second)
		for i := range 500 {
			w.create(fmt.Sprintf("old-%03d", i))
			pass(time.Second)
		}
		w.create("quiet")
		pass(time.Second)
		w.update("old-001", func(m *configMap) { m.Labels = map[string]string{"fail": "yes"} })
		pass(time.Second)
		w.create("broken")
		w.update("broken", func(m *configMap) { m.Labels = map[string]string{"fail": "yes"} })
		pass(time.Second)
		w.Expect(c.History(key("broken"))).To(ContainElement(HaveField("Failure", "broken")))
		w.Expect(c.History(key("old-001"))).To(HaveLen(2), "it was reconciled lately")
		w.Expect(c.History(key("old-499"))).To(HaveLen(1))
		w.Expect(c.History(key("old-000"))).To(BeEmpty(), "its place was taken by the key that failed")
		w.Expect(c.History(key("quiet"))).To(BeEmpty())
		w.Expect(stop()).To(Succeed())
	})
}

func TestCausesOfReconcilesWithoutAnEffectAreRecordedWhileTheyAreLookedAt(t *testing.T) {
	inFixture(t, func(w *fixture) {
		c := w.made(nil, func(context.Context, request) (reconcile.Result, error) { return nothing, nil })
		w.create("a")
		stop := w.startRun(c.Run)
		pass(time.Second)
		touch := func(label string) []inspect.Attempt {
			w.update("a", func(m *configMap) { m.Labels = map[string]string{"touched": label} })
			pass(time.Second)
			return c.History(key("a"))
		}
		w.Expect(c.History(key("a"))).To(HaveExactElements(HaveField("Causes", BeEmpty())))
		w.Expect(touch("once")[1]).To(HaveField("Causes", HaveLen(1)))
		pass(10 * time.Minute)
		w.Expect(touch("twice")[2]).To(HaveField("Causes", BeEmpty()))
		w.Expect(stop()).To(Succeed())
	})
}

type spanKey struct{}

func TestAroundIsCalledAtTheStartAndAtTheEndOfEachReconcile(t *testing.T) {
	inFixture(t, func(w *fixture) {
		broken := errors.New("broken")
		var ended []inspect.Attempt
		o := &reconcile.Options{Around: func(ctx context.Context, k reconcile.Key) (context.Context, func(inspect.Attempt, error)) {
			w.ran("start " + k.Name)
			return context.WithValue(ctx, spanKey{}, "span of "+k.Name), func(a inspect.Attempt, err error) {
				w.ran(fmt.Sprint("end ", a.Key.Name, " ", a.Outcome, " ", errors.Is(err, broken)))
				ended = append(ended, a)
			}
		}}
		c := w.made(o, func(ctx context.Context, r request) (reconcile.Result, error) {
			w.ran(fmt.Sprint(ctx.Value(spanKey{})))
			reconcile.Wrote(ctx, &configMap{ObjectMeta: metav1.ObjectMeta{Namespace: "elsewhere", Name: r.Key.Name}})
			return nothing, reconcile.Terminal(broken)
		})
		w.create("a")
		stop := w.startRun(c.Run)
		w.Expect(w.reconciled()).To(Equal([]string{"start a", "span of a", "end a terminal true"}))
		w.Expect(ended).To(HaveExactElements(And(
			HaveField("Causes", HaveLen(1)), HaveField("Writes", HaveExactElements(HaveField("Namespace", "elsewhere"))))))
		pass(time.Hour)
		w.Expect(c.Stats().Overran).To(BeZero(), "both functions have returned")
		w.Expect(stop()).To(Succeed())
	})
}

// The history also has the reconcile of a deleted object that was recreated.
func TestAroundIsCalledForARecreatedObjectToo(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a")
		around := 0
		c := w.made(&reconcile.Options{
			Known: names.Func(func(context.Context) ([]names.Name, error) {
				return []names.Name{{Key: key("a"), UID: "another"}}, nil
			}),
			Around: func(context.Context, reconcile.Key) (context.Context, func(inspect.Attempt, error)) {
				around++
				return nil, nil
			},
		}, w.recorder())
		_, err := w.client.CoreV1().ConfigMaps("d").Update(t.Context(), &configMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "a", UID: "new"},
		}, metav1.UpdateOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		stop := w.startRun(c.Run)
		runs := w.reconciled()
		w.Expect(runs).To(ContainElement("gone a"))
		w.Expect(around).To(Equal(len(runs)))
		w.Expect(stop()).To(Succeed())
	})
}

func TestAPanicOfAroundIsTheKeysAlone(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.panics = true
		o := &reconcile.Options{Around: func(_ context.Context, k reconcile.Key) (context.Context, func(inspect.Attempt, error)) {
			switch k.Name {
			case "start":
				panic("at the start")
			case "end":
				return nil, func(inspect.Attempt, error) { panic("at the end") }
			default:
				return nil, nil
			}
		}, Workers: 1}
		c := w.made(o, func(_ context.Context, r request) (reconcile.Result, error) {
			w.ran(r.Key.Name)
			return nothing, nil
		})
		w.create("end", "start", "third")
		stop := w.startRun(c.Run)
		w.Expect(w.reconciled()).To(ConsistOf("end", "third"))
		w.Expect(c.Stats().Reconciles[inspect.Succeeded]).To(Equal(uint64(2)))
		w.Expect(keysOf(c)).To(HaveKeyWithValue("start", HaveField("Failure", "panic: at the start")))
		w.Expect(w.logged()).To(ContainElement(ContainSubstring("Options.Around panicked after a reconcile")))
		w.Expect(stop()).To(Succeed())
	})
}

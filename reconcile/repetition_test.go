package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"net/http"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/homeostat/homeostat/internal/absent/absenttest"
	"github.com/homeostat/homeostat/internal/simhook"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

var (
	errBoom  = errors.New("boom")
	errStale = apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "a", errors.New("newer"))
	// errOwned is what the server answers to an apply of a field that another
	// manager owns.
	errOwned = apierrors.NewApplyConflict([]metav1.StatusCause{{
		Type: metav1.CauseTypeFieldManagerConflict, Message: `conflict with "kubectl"`, Field: ".data.a",
	}}, `Apply failed with 1 conflict: conflict with "kubectl": .data.a`)
)

// foreignConflictError is a conflict of a client that has a type of its own for
// the server's answers.
type foreignConflictError struct{ error }

func (foreignConflictError) Status() metav1.Status {
	return metav1.Status{Code: http.StatusConflict, Reason: metav1.StatusReasonConflict}
}

// repeating runs f for key a until within has passed, and returns when it ran.
func repeating(t *testing.T, within time.Duration, f func(n int) (reconcile.Result, error)) (
	at []time.Duration, c *reconcile.Controller, log string,
) {
	t.Helper()
	inFixture(t, func(w *fixture) {
		w.panics = strings.HasSuffix(t.Name(), "/panic")
		w.create("a")
		began := time.Now()
		defer simhook.Use(&simhook.Hooks{Jitter: func() float64 { return 0 }})()
		c = w.made(nil, func(context.Context, request) (reconcile.Result, error) {
			at = append(at, time.Since(began))
			return f(len(at))
		})
		stop := w.startRun(c.Run)
		pass(within)
		log = strings.Join(w.logged(), "\n")
		w.Expect(stop()).To(Succeed())
	})
	return at, c, log
}

// An attempt after which nothing observed has changed doubles the delay,
// however the attempt ended.
func TestEveryKindOfRepetitionDoublesItsDelay(t *testing.T) {
	for name, attempt := range map[string]func(n int) (reconcile.Result, error){
		"error":           func(int) (reconcile.Result, error) { return nothing, errBoom },
		"panic":           func(int) (reconcile.Result, error) { panic("boom") },
		"conflict":        func(int) (reconcile.Result, error) { return nothing, errStale },
		"apply conflict":  func(int) (reconcile.Result, error) { return nothing, errOwned },
		"After(0)":        func(int) (reconcile.Result, error) { return reconcile.After(0), nil },
		"After(49ms)":     func(int) (reconcile.Result, error) { return reconcile.After(49 * time.Millisecond), nil },
		"After(-1h)":      func(int) (reconcile.Result, error) { return reconcile.After(-time.Hour), nil },
		"error, After(0)": func(int) (reconcile.Result, error) { return reconcile.After(0), errBoom },
		"one after the other": func(n int) (reconcile.Result, error) {
			return reconcile.After(0), []error{errBoom, errStale, nil}[n%3]
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			at, c, _ := repeating(t, 20*time.Second, attempt)
			g.Expect(len(at)).To(BeNumerically("~", 9, 1))
			for i := 2; i < len(at); i++ {
				g.Expect(at[i]-at[i-1]).To(BeNumerically(">=", at[i-1]-at[i-2]), "%v", at)
			}
			g.Expect(c.Stats().Failing).To(Equal(1))
		})
	}
}

func TestTheFirstConflictsAreQuickAndQuiet(t *testing.T) {
	for name, err := range map[string]error{
		"plain": errStale, "wrapped": fmt.Errorf("updating: %w", errStale), "another client's": foreignConflictError{errBoom},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			at, c, log := repeating(t, time.Minute, func(n int) (reconcile.Result, error) {
				if n <= 3 {
					return nothing, err
				}
				return nothing, nil
			})
			g.Expect(at).To(HaveLen(4))
			g.Expect(at[3]).To(BeNumerically("<", 400*time.Millisecond))
			g.Expect(log).NotTo(ContainSubstring(`"error"`))
			g.Expect(log).NotTo(ContainSubstring(`"level"=0`))
			g.Expect(c.Stats().Reconciles[inspect.Conflicted]).To(BeEquivalentTo(3))
			g.Expect(c.Stats().Reconciles[inspect.Failed]).To(BeZero())
			g.Expect(c.Stats().Failing).To(BeZero())
		})
	}
}

func TestTheFourthConflictInARowIsShown(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a")
		attempts, shown := 0, []int(nil)
		var c *reconcile.Controller
		c = w.made(nil, func(context.Context, request) (reconcile.Result, error) {
			if attempts++; c.Stats().Failing > 0 {
				shown = append(shown, attempts)
			}
			return nothing, errStale
		})
		stop := w.startRun(c.Run)
		pass(20 * time.Second)
		w.Expect(shown).ToNot(BeEmpty())
		w.Expect(shown[0]).To(Equal(5), "the first three are quiet")
		w.Expect(stop()).To(Succeed())
	})
}

func TestAConflictThatStaysIsLoggedCountedAndShown(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a")
		c := w.made(nil, func(context.Context, request) (reconcile.Result, error) { return nothing, errStale })
		stop := w.startRun(c.Run)
		pass(20 * time.Second)
		w.Expect(c.Stats().Failing).To(Equal(1))
		w.Expect(c.Stats().Reconciles[inspect.Failed]).To(BeNumerically(">", 3))
		w.Expect(keysOf(c)["a"].Failure).To(ContainSubstring("newer"))
		log := strings.Join(w.logged(), "\n")
		conflicts := 3 + uint(c.Stats().Reconciles[inspect.Failed])
		w.Expect(strings.Count(log, "writes still conflict")).To(Equal(bits.Len(conflicts)-2),
			"the 4th, 8th … of %d", conflicts)
		w.Expect(log).To(MatchRegexp(`writes still conflict.*"causes"="configmaps: added d/a`), "causes survive a conflict")
		w.Expect(stop()).To(Succeed())
	})
}

// Changes reset the delay, and hide no conflict that stays nevertheless.
func TestAConflictAtEveryChangeIsNotQuietForever(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a")
		c := w.made(nil, func(context.Context, request) (reconcile.Result, error) { return nothing, errStale })
		stop := w.startRun(c.Run)
		for i := range 10 {
			w.update("a", func(o *configMap) { o.Data = map[string]string{"v": string(rune('0' + i))} })
			w.reconciled()
		}
		w.Expect(c.Stats().Failing).To(Equal(1))
		w.Expect(strings.Join(w.logged(), "\n")).To(ContainSubstring("writes still conflict"))
		w.Expect(stop()).To(Succeed())
	})
}

func TestAConflictWithAnotherFieldManagerIsNoStaleCache(t *testing.T) {
	g := NewWithT(t)
	_, c, log := repeating(t, 10*time.Millisecond, func(int) (reconcile.Result, error) { return nothing, errOwned })
	g.Expect(c.Stats().Reconciles[inspect.Failed]).To(BeEquivalentTo(1))
	g.Expect(c.Stats().Reconciles[inspect.Conflicted]).To(BeZero())
	g.Expect(log).To(ContainSubstring("kubectl"))
}

// A newer cache does not resolve a status 409 that a proxy or gateway has sent.
func TestAPageWithStatus409IsNoStaleCache(t *testing.T) {
	for _, page := range absenttest.Conflicts() {
		g := NewWithT(t)
		err := page.Err(t.Context(), corev1.SchemeGroupVersion.WithResource("configmaps"), "a")
		_, c, log := repeating(t, 10*time.Millisecond, func(int) (reconcile.Result, error) { return nothing, err })
		g.Expect(c.Stats().Reconciles[inspect.Failed]).To(BeEquivalentTo(1), page.Name)
		g.Expect(c.Stats().Reconciles[inspect.Conflicted]).To(BeZero(), page.Name)
		g.Expect(log).To(ContainSubstring("reconcile failed"), page.Name)
	}
}

func TestTerminalAndAfterWinOverWhatTheyWrap(t *testing.T) {
	for _, c := range []struct {
		name    string
		result  reconcile.Result
		err     error
		runs    int
		outcome inspect.Outcome
	}{
		{"a terminal conflict", nothing, reconcile.Terminal(errStale), 1, inspect.GaveUp},
		{"two terminal errors", nothing, errors.Join(reconcile.Terminal(errStale), reconcile.Terminal(errBoom)), 1, inspect.GaveUp},
		{"a terminal error with After(0)", reconcile.After(0), reconcile.Terminal(errBoom), 1, inspect.GaveUp},
		{"a conflict with After", reconcile.After(25 * time.Second), errStale, 3, inspect.Failed},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			at, controller, _ := repeating(t, time.Minute, func(int) (reconcile.Result, error) { return c.result, c.err })
			g.Expect(at).To(HaveLen(c.runs))
			g.Expect(controller.Stats().Reconciles[c.outcome]).To(BeEquivalentTo(c.runs))
		})
	}
}

func TestAConflictBesideAnotherErrorIsThatError(t *testing.T) {
	g := NewWithT(t)
	_, c, log := repeating(t, 10*time.Millisecond, func(int) (reconcile.Result, error) {
		return nothing, errors.Join(errStale, errBoom)
	})
	g.Expect(c.Stats().Reconciles[inspect.Failed]).To(BeEquivalentTo(1))
	g.Expect(log).To(ContainSubstring("boom"))
}

// several is an error that joins none, as fmt.Errorf("%w, %w", nil, nil) does.
type several struct{ error }

func (several) Unwrap() []error { return nil }

func TestAnErrorThatJoinsNoOthersIsNoConflict(t *testing.T) {
	g := NewWithT(t)
	_, c, _ := repeating(t, 10*time.Millisecond, func(int) (reconcile.Result, error) { return nothing, several{errBoom} })
	g.Expect(c.Stats().Reconciles[inspect.Failed]).To(BeEquivalentTo(1))
	g.Expect(c.Stats().Reconciles[inspect.Conflicted]).To(BeZero())
}

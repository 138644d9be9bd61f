package reconciletest_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/internal/test/breeding"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

func TestExplorePassesARightController(t *testing.T) {
	g := gomega.NewWithT(t)
	report := reconciletest.Search(t, breeding.Case(breeding.Right), &reconciletest.Options{Budget: time.Second})
	g.Expect(report.Failure).To(gomega.BeEmpty())
	t.Log(report, report.Rules)
	g.Expect(report.Planned).To(gomega.BeNumerically(">", 80))
	g.Expect(report.Runs).To(gomega.BeNumerically(">=", 3))
	if runtime.GOOS == "linux" { // others may not count it
		g.Expect(report.Processor).To(gomega.BeNumerically(">", 0))
	}
}

// State outside the API server survives a crash, and is reset for each run.
func TestOutsideIsResetForEachRun(t *testing.T) {
	g := gomega.NewWithT(t)
	c := breeding.Case(breeding.Right)
	made := 0
	c.Outside = func() any { made++; return new(int) }
	inner := c.Run
	c.Run = func(env *reconciletest.Env) error {
		*env.Outside().(*int)++
		return inner(env)
	}
	most := 0
	c.Goal = func(w *reconciletest.World) error {
		boots := *w.Outside().(*int)
		most = max(most, boots)
		if boots < 1 || boots > 4 {
			return fmt.Errorf("%d boots: want one, and one more after each crash", boots)
		}
		return nil
	}
	c.Workload = c.Workload[:1]
	report := reconciletest.Search(t, c, &reconciletest.Options{Budget: breeding.Budget, Seeds: 1})
	g.Expect(report.Failure).To(gomega.BeEmpty())
	g.Expect(made).To(gomega.Equal(report.Runs))
	g.Expect(most).To(gomega.BeNumerically(">", 1))
}

// The logs of hundreds of runs would bury the trace.
func TestAProgramLogsNothing(t *testing.T) {
	g := gomega.NewWithT(t)
	boots, logs := 0, false
	reconciletest.Search(t, &reconciletest.Case{Run: func(env *reconciletest.Env) error {
		boots++
		logs = logs || klog.FromContext(env.Context()).Enabled()
		<-env.Context().Done()
		return nil
	}}, nil)
	g.Expect(boots).NotTo(gomega.BeZero())
	g.Expect(logs).To(gomega.BeFalse())
}

// Runs that only find out whether the program decides by chance are not
// deviations.
func TestRunsThatTellChanceAreNoDeviations(t *testing.T) {
	g := gomega.NewWithT(t)
	runs := 0
	c := once()
	c.Outside = func() any { runs++; return runs }
	c.Run = func(env *reconciletest.Env) error {
		ctx, secrets := env.Context(), env.Client().CoreV1().Secrets("d")
		one := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "one"}, StringData: map[string]string{"a": "b"}}
		if env.Outside().(int)%5 == 2 {
			_, _ = secrets.Get(ctx, "one", metav1.GetOptions{})
			one.StringData["a"] = "c"
		}
		for ctx.Err() == nil {
			if _, err := secrets.Create(ctx, one, metav1.CreateOptions{}); err == nil || apierrors.IsAlreadyExists(err) {
				<-ctx.Done()
			}
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
		return nil
	}
	r := reconciletest.Search(t, c, &reconciletest.Options{Budget: breeding.Budget, SkipDrift: true, Seeds: 1})
	g.Expect(r.Failure).To(gomega.BeEmpty())
	g.Expect(r.Chance).NotTo(gomega.BeEmpty())
	g.Expect(r.Tried).To(gomega.Equal(r.Planned))
}

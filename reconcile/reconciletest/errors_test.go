package reconciletest_test

import (
	"errors"
	"testing"

	"github.com/go-logr/logr"
	"github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/homeostat/homeostat/internal/test/breeding"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// A manager of controller-runtime has a logger in its context that is silent
// unless it is set.
func TestAnErrorThatIsHandledIsInTheTrace(t *testing.T) {
	for name, logger := range map[string]func(own logr.Logger) logr.Logger{
		"the program's logger is silent": func(logr.Logger) logr.Logger { return logr.Discard() },
		"the program has the kit's": func(own logr.Logger) logr.Logger {
			return own.WithName("part").WithValues("key", "value")
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := &reconciletest.Case{
				Objects: []runtime.Object{breeding.Parent("a")},
				Run: func(env *reconciletest.Env) error {
					ctx := logr.NewContext(env.Context(), logger(logr.FromContextOrDiscard(env.Context())))
					utilruntime.HandleErrorWithContext(ctx, errors.New("no such luck"), "working")
					return breeding.Run(breeding.Right)(env)
				},
			}
			lines, _ := reconciletest.TraceOf(t, c, nil, "j1")
			gomega.NewWithT(t).Expect(lines).To(gomega.ContainElement(
				gomega.MatchRegexp(`^error     (part: )?"working" "error"="no such luck"`)))
		})
	}
}

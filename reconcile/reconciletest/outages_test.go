package reconciletest_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/homeostat/homeostat/internal/test/breeding"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// dropping breeds, and treats some errors as final. It records the dropped
// parents outside of the server, so that a restart does not repair them.
func dropping(drops func(err error, failures int) bool) *reconciletest.Case {
	c := breeding.Case(nil)
	c.Outside = func() any { return &sync.Map{} }
	c.Run = func(env *reconciletest.Env) error {
		record := env.Outside().(*sync.Map)
		var mu sync.Mutex
		failures := map[string]int{}
		return breeding.Run(func(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
			if _, dropped := record.Load(p.Name); dropped {
				return nil
			}
			err := breeding.Right(ctx, b, p)
			mu.Lock()
			defer mu.Unlock()
			if failures[p.Name]++; err == nil {
				delete(failures, p.Name)
			} else if drops(err, failures[p.Name]) {
				record.Store(p.Name, err)
				return nil
			}
			return err
		})(env)
	}
	return c
}

// timing breeds with a timeout for each write, and notes if all of it has taken
// longer than a slow write does. The right one notes nothing.
func timing(notes bool) *reconciletest.Case {
	return breeding.Case(func(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
		if p.Annotations["ready"] != "" && len(b.ChildrenOf(p)) > 0 {
			return nil
		}
		began := time.Now()
		for _, write := range []func(ctx context.Context) error{
			func(ctx context.Context) error { return b.Create(ctx, breeding.Child(p)) },
			func(ctx context.Context) error { return b.Ready(ctx, p) },
		} {
			ctx, cancel := context.WithTimeout(ctx, 6*time.Second)
			err := write(ctx)
			if cancel(); err != nil {
				return err
			}
		}
		if took := time.Since(began); took < 8*time.Second || !notes {
			return nil
		}
		return b.Annotate(ctx, p, "slow", "yes")
	})
}

func TestLongOutagesAreFound(t *testing.T) {
	for name, row := range map[string]struct {
		c     *reconciletest.Case
		match string
		want  string // in the failure; empty if the case must not fail
	}{
		"it tries seventeen times": {
			dropping(func(_ error, failures int) bool { return failures == 17 }), `\.1$`,
			"the server refuses every call for half an hour, from call",
		},
		"it tries twelve times, and less than half an hour suffices": {
			dropping(func(_ error, failures int) bool { return failures == 12 }), `\.1$`,
			"429 instead of every call for three minutes, from call",
		},
		"it takes 429 for a refusal": {
			dropping(func(err error, _ int) bool { return apierrors.IsTooManyRequests(err) }), `\.2$`,
			"429 instead of every call for three minutes, from call",
		},
		"it takes a long time for a failure": {timing(true), `\.3$`, "every write is slow for five minutes, from call"},
		"it takes 401 for a farewell": {
			dropping(func(err error, _ int) bool { return apierrors.IsUnauthorized(err) }), `\.4$`,
			"401 instead of every call until a restart, from call",
		},
		"it tries again":         {dropping(func(error, int) bool { return false }), "", ""},
		"it tries again in time": {timing(false), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			row.c.Goal, row.c.Workload = nil, row.c.Workload[:1]
			r := reconciletest.FailureOf(t, row.c, nil, `^y\d+`+row.match)
			if row.want == "" {
				g.Expect(r.Failure).To(gomega.BeEmpty())
				g.Expect(r.Runs).To(gomega.Equal(3 + 12))
				return
			}
			g.Expect(r.Oracle).To(gomega.Equal("state"), r.Failure)
			g.Expect(r.Failure).To(gomega.ContainSubstring(row.want))
			g.Expect(r.Trace).To(gomega.ContainElement(gomega.HavePrefix("DOWN      the server")))
			others := reconciletest.FailureOf(t, row.c, nil, `^[^y]`)
			g.Expect(others.Failure).To(gomega.BeEmpty(), "others find it, too")
		})
	}
}

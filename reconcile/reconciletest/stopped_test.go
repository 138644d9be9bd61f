package reconciletest_test

import (
	"context"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/test/breeding"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// awaits waits for something outside, and then notes that it was ready. The
// buggy one takes the end of the process for an answer, and never asks again.
func awaits(tellsApart bool) func(env *reconciletest.Env) error {
	return func(env *reconciletest.Env) error {
		return breeding.Run(func(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
			if p.Annotations["ready"] != "" {
				return nil
			}
			answer := "yes"
			select {
			case <-env.Context().Done():
				if tellsApart {
					return env.Context().Err()
				}
				answer = "no"
			case <-time.After(5 * time.Second):
			}
			return b.Annotate(ctx, p, "ready", answer)
		})(env)
	}
}

// detached runs the controller in a goroutine, and returns when it has told it
// to stop. The right one waits for it.
func detached(joins bool) func(env *reconciletest.Env) error {
	return func(env *reconciletest.Env) error {
		client := env.Client()
		b := &breeding.Breeder{Client: client, Children: informer.For(client.CoreV1().Secrets(""), nil), Breed: breeding.Right}
		c, err := reconcile.New("breeder", breeding.Parents(client), b,
			&reconcile.Options{Triggers: []reconcile.Trigger{reconcile.Owned(b.Children)}})
		if err != nil {
			return err
		}
		ended := make(chan error, 1)
		go func() { ended <- c.Run(env.Context()) }()
		<-env.Context().Done()
		if joins {
			return <-ended
		}
		return nil
	}
}

func TestAStopWhileAKeyIsBeingWorkedOnIsFound(t *testing.T) {
	for name, row := range map[string]struct {
		run            func(env *reconciletest.Env) error
		oracle, reason string
		want           string
	}{
		"the end of the process is an answer": {awaits(false), "state", "stopped", "told to stop in pause"},
		"the end of the process is an error":  {awaits(true), "", "", ""},
		"the process ends before its work":    {detached(false), "stop", "left-behind", "under way.*(create secrets|patch configmaps) d/a"},
		"the process ends after its work":     {detached(true), "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			c := breeding.Case(breeding.Right)
			c.Run, c.Goal = row.run, nil
			r := reconciletest.FailureOf(t, c, nil, "^[glh]")
			g.Expect(r.Oracle).To(gomega.Equal(row.oracle), r.Failure)
			g.Expect(r.Reason).To(gomega.Equal(row.reason))
			g.Expect(r.Failure).To(gomega.MatchRegexp(row.want))
		})
	}
}

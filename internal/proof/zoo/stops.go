package zoo

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

const classStop = "unclean stop"

func stops() []Specimen {
	return []Specimen{
		Specimen{
			Name: "leaves a goroutine behind", Class: classStop, World: noted, Found: "stop", SDKFound: "stop",
			Options: reconciletest.Options{Steps: 2000},
		}.reconciles(stateless(refreshes(true)), stateless(refreshes(false))),
	}
}

// refreshes returns a reconcile that starts a goroutine and waits for its end.
// If forever is true, the goroutine ignores ctx and never ends, and the
// reconcile does not wait.
func refreshes(forever bool) Reconcile {
	return func(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
		if forever {
			ctx = context.WithoutCancel(ctx)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
			for forever {
				<-make(chan struct{})
			}
		}()
		if !forever {
			<-done
		}
		return d.annotate(ctx, app, ready, "yes")
	}
}

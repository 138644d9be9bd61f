package zoo

import (
	"context"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

const classHotLoop = "hot loop"

func hotLoops() []Specimen {
	return []Specimen{
		Specimen{
			Name: "counts its reconciles", Class: classHotLoop, World: noted, Found: "rest", SDKFound: "rest",
			Options: reconciletest.Options{Steps: 2000},
		}.reconciles(stateless(counts), stateless(marks)),
		Specimen{
			Name: "notes the time of each look", Class: classHotLoop, World: noted, Found: "tail", SDKFound: "tail",
		}.reconciles(stateless(stamps), stateless(stampsOnce)),
	}
}

// counts increments a counter in every reconcile. Each write is a change that
// causes the next reconcile.
func counts(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
	n, _ := strconv.Atoi(app.Annotations["reconciles"])
	return d.annotate(ctx, app, "reconciles", strconv.Itoa(n+1))
}

// stamps writes the time in every reconcile, and each write causes another
// reconcile. The time has whole seconds, so in this case there is one write a
// second. With many objects, there is always one whose time has changed.
func stamps(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
	return d.annotate(ctx, app, "looked-at", time.Now().UTC().Format(time.RFC3339))
}

// stampsOnce writes the time once, and does not change it later.
func stampsOnce(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
	if app.Annotations["looked-at"] != "" {
		return nil
	}
	return stamps(ctx, d, app)
}

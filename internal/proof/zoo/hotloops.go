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
		}.reconciles(always(counts), always(marks)),
		Specimen{
			Name: "notes the time of each look", Class: classHotLoop, World: noted, Found: "tail", SDKFound: "tail",
		}.reconciles(always(stamps), always(stampsOnce)),
	}
}

// counts causes its own reconciles by its writes.
func counts(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
	n, _ := strconv.Atoi(app.Annotations["reconciles"])
	return d.annotate(ctx, app, "reconciles", strconv.Itoa(n+1))
}

// stamps writes in every reconcile. In this world this is once a second, and in
// a large one it is always.
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

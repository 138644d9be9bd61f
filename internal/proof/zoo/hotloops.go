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

// counts wakes itself with its own writes.
func counts(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
	n, _ := strconv.Atoi(app.Annotations["reconciles"])
	return d.annotate(ctx, app, "reconciles", strconv.Itoa(n+1))
}

// stamps writes at every look: in this world once a second, in a large one always.
func stamps(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
	return d.annotate(ctx, app, "looked-at", time.Now().UTC().Format(time.RFC3339))
}

// stampsOnce notes when it became so, and leaves it so.
func stampsOnce(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
	if app.Annotations["looked-at"] != "" {
		return nil
	}
	return stamps(ctx, d, app)
}

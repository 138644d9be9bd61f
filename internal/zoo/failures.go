package zoo

import (
	"context"

	corev1 "k8s.io/api/core/v1"
)

const classFailure = "failed call"

func failures() []Specimen {
	return []Specimen{
		Specimen{
			Name: "an error is swallowed", Class: classFailure, World: comeAndGo, Found: "state", SDKFound: "state",
		}.turns(always(swallow), always(right)),
	}
}

// swallow takes every error for a success.
func swallow(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
	_ = right(ctx, d, app)
	return nil
}

package zoo

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const classFailure = "failed call"

func failures() []Specimen {
	return []Specimen{
		Specimen{
			Name: "an error is swallowed", Class: classFailure, World: comeAndGo, Found: "state", SDKFound: "state",
		}.reconciles(stateless(swallow), stateless(right)),
		Specimen{
			Name: "comes again at once when told to wait", Class: classFailure, World: comeAndGo, Found: "retry",
			Why: "an error that says when to come again is retried then, and no sooner",
		}.reconciles(stateless(impatientClient), stateless(right)),
	}
}

// impatientClient disables the retries of its client. Only the queue's back-off
// of milliseconds is left. A server that asks for a pause gets even more calls.
func impatientClient(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
	if _, ok := find(d.secrets(app.Name), app.Name+"-key"); !ok {
		err := d.kube().CoreV1().RESTClient().Post().Namespace(app.Namespace).Resource("secrets").
			Body(newKey(app)).MaxRetries(0).Do(ctx).Error()
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return d.annotate(ctx, app, ready, "yes")
}

// swallow treats every error as a success.
func swallow(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
	_ = right(ctx, d, app)
	return nil
}

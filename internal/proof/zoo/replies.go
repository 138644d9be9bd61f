package zoo

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const classReply = "lost reply"

func replies() []Specimen {
	return []Specimen{
		Specimen{
			Name: "a name by chance, written down afterwards", Class: classReply, World: comeAndGo,
			Found: "state", SDKFound: "state",
		}.reconciles(stateless(writtenDown), stateless(right)),
		Specimen{
			Name: "what is there already is a failure", Class: classReply, World: comeAndGo,
			Found: "state", SDKFound: "state",
		}.reconciles(stateless(mustBeNew), stateless(right)),
	}
}

// unnamed returns a new key for app, whose name the server chooses.
func unnamed(app *corev1.ConfigMap) *corev1.Secret {
	s := newKey(app)
	s.Name, s.GenerateName = "", app.Name+"-"
	return s
}

// writtenDown makes a second key if the reply for the first is lost, or if the
// program crashes before it has recorded the name.
func writtenDown(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
	if app.Annotations["key"] == "" {
		key, err := d.kube().CoreV1().Secrets(app.Namespace).Create(ctx, unnamed(app), metav1.CreateOptions{})
		if err != nil {
			return err
		}
		if err := d.annotate(ctx, app, "key", key.Name); err != nil {
			return err
		}
		return nil
	}
	return d.annotate(ctx, app, ready, "yes")
}

// mustBeNew fails forever if the reply of its create is lost.
func mustBeNew(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
	if app.Annotations[ready] != "" {
		return nil
	}
	if _, err := d.kube().CoreV1().Secrets(app.Namespace).Create(ctx, newKey(app), metav1.CreateOptions{}); err != nil {
		return err
	}
	return d.annotate(ctx, app, ready, "yes")
}

package zoo

import (
	"context"

	corev1 "k8s.io/api/core/v1"
)

const classIntermediate = "intermediate state"

func intermediate() []Specimen {
	return []Specimen{
		Specimen{
			Name: "ready before the work", Class: classIntermediate, World: comeAndGo, Found: "state", SDKFound: "state",
		}.reconciles(stateless(readyFirst), stateless(right)),
		Specimen{
			Name: "one of two stands for both", Class: classIntermediate, World: comeAndGo, Found: "state", SDKFound: "state",
		}.reconciles(stateless(oneForBoth), stateless(eachForItself)),
	}
}

// readyFirst reports ready before its work is done. After a crash in between,
// the work is never done.
func readyFirst(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
	if app.Annotations[ready] != "" {
		return nil
	}
	if err := d.annotate(ctx, app, ready, "yes"); err != nil {
		return err
	}
	return d.create(ctx, newKey(app))
}

// oneForBoth concludes from the existence of the key that the certificate
// exists, too. After a crash between the two creates, the certificate is never
// created.
func oneForBoth(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
	if _, ok := find(d.secrets(app.Name), app.Name+"-key"); !ok {
		if err := d.create(ctx, newKey(app)); err != nil {
			return err
		}
		if err := d.create(ctx, newSecret(app, app.Name+"-cert")); err != nil {
			return err
		}
	}
	return d.annotate(ctx, app, ready, "yes")
}

func eachForItself(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
	for _, name := range []string{app.Name + "-key", app.Name + "-cert"} {
		if _, ok := find(d.secrets(app.Name), name); ok {
			continue
		}
		if err := d.create(ctx, newSecret(app, name)); err != nil {
			return err
		}
	}
	return d.annotate(ctx, app, ready, "yes")
}

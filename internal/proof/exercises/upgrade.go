package exercises

import (
	"cmp"
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/reconcile"
)

func noteLicense(ctx context.Context, s *shop, key reconcile.Key, app *corev1.ConfigMap) error {
	if app == nil {
		return nil
	}
	license, ok := s.secrets.Get(reconcile.Key{Namespace: key.Namespace, Name: app.Data["license"]})
	if !ok {
		return nil
	}
	return note(ctx, s, app, "serial", string(license.Data["serial"]))
}

// licenses returns a trigger that reconciles the apps that name the changed
// Secret.
func licenses(s *shop) reconcile.Trigger {
	return reconcile.Mapped(s.secrets, func(_ context.Context, old, new *corev1.Secret) (keys []reconcile.Key, _ error) {
		for app := range s.apps.Snapshot().All() {
			if app.Data["license"] == cmp.Or(new, old).Name {
				keys = append(keys, reconcile.Key{Namespace: app.Namespace, Name: app.Name})
			}
		}
		return keys, nil
	})
}

func keepAll(ctx context.Context, s *shop, key reconcile.Key, _ *corev1.ConfigMap) error {
	for app := range s.apps.Snapshot().All() {
		if err := ownLabel(ctx, s, key, app); err != nil {
			return err
		}
	}
	return nil
}

func keepEach(ctx context.Context, s *shop, key reconcile.Key, _ *corev1.ConfigMap) error {
	var errs []error
	for app := range s.apps.Snapshot().All() {
		errs = append(errs, ownLabel(ctx, s, key, app))
	}
	return errors.Join(errs...)
}

// keyType is the type that version 2 gives its Secrets.
const keyType corev1.SecretType = "example.com/key"

func keepTyped(ctx context.Context, s *shop, _ reconcile.Key, app *corev1.ConfigMap) error {
	if app == nil {
		return nil
	}
	return keep(ctx, s, app, app.Name, func(secret *corev1.Secret) {
		metav1.SetMetaDataLabel(&secret.ObjectMeta, "app", app.Name)
		secret.Type = keyType
	})
}

func replaceUntyped(ctx context.Context, s *shop, key reconcile.Key, app *corev1.ConfigMap) error {
	secret, ok := s.secrets.Get(key)
	if app == nil || !ok || secret.Type == keyType || !metav1.IsControlledBy(secret, app) {
		return keepTyped(ctx, s, key, app)
	}
	return s.client.CoreV1().Secrets(key.Namespace).Delete(ctx, key.Name,
		*metav1.NewPreconditionDeleteOptions(string(secret.UID)))
}

package exercises

import (
	"cmp"
	"context"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/patch"
	"github.com/homeostat/homeostat/reconcile"
)

// keep creates or updates the Secret with this name, which the app owns. edit
// sets its content.
func keep(ctx context.Context, s *shop, app *corev1.ConfigMap, name string, edit func(*corev1.Secret)) error {
	secret, ok := s.secrets.Get(reconcile.Key{Namespace: app.Namespace, Name: name})
	if !ok {
		secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: name}}
	}
	_, err := patch.Ensure(ctx, s.client.CoreV1().Secrets, secret, nil, func(secret *corev1.Secret) {
		secret.OwnerReferences = owned(app, name).OwnerReferences
		edit(secret)
	})
	return err
}

func wholeLabels(ctx context.Context, s *shop, _ reconcile.Key, app *corev1.ConfigMap) error {
	if app == nil {
		return nil
	}
	return keep(ctx, s, app, app.Name, func(secret *corev1.Secret) {
		secret.Labels = map[string]string{"app": app.Name}
	})
}

func ownLabel(ctx context.Context, s *shop, _ reconcile.Key, app *corev1.ConfigMap) error {
	if app == nil {
		return nil
	}
	return keep(ctx, s, app, app.Name, func(secret *corev1.Secret) {
		metav1.SetMetaDataLabel(&secret.ObjectMeta, "app", app.Name)
	})
}

func timeOfLook(ctx context.Context, s *shop, _ reconcile.Key, app *corev1.ConfigMap) error {
	if app == nil {
		return nil
	}
	return note(ctx, s, app, "checked", time.Now().Format(time.RFC3339))
}

func resultOfLook(ctx context.Context, s *shop, _ reconcile.Key, app *corev1.ConfigMap) error {
	if app == nil {
		return nil
	}
	return note(ctx, s, app, "checked", app.Data["size"])
}

func logAndGoOn(ctx context.Context, s *shop, key reconcile.Key, app *corev1.ConfigMap) error {
	if err := ownLabel(ctx, s, key, app); err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "creating or updating the Secret failed")
	}
	return nil
}

func newNameOnly(ctx context.Context, s *shop, _ reconcile.Key, app *corev1.ConfigMap) error {
	if app == nil {
		return nil
	}
	return keep(ctx, s, app, app.Data["name"], func(*corev1.Secret) {})
}

func newNameAndNoOther(ctx context.Context, s *shop, key reconcile.Key, app *corev1.ConfigMap) error {
	if err := newNameOnly(ctx, s, key, app); err != nil || app == nil {
		return err
	}
	for secret := range s.secrets.Snapshot().All() {
		if secret.Name == app.Data["name"] || !metav1.IsControlledBy(secret, app) {
			continue
		}
		live, ok, err := names.Live(ctx, s.client.CoreV1().ConfigMaps(key.Namespace), key.Name)
		if err != nil || !ok || live.Data["name"] == secret.Name {
			return err // the cache is stale: the Secret has the current name
		}
		if err := patch.Delete(ctx, s.client.CoreV1().Secrets, secret, nil); err != nil {
			return err
		}
	}
	return nil
}

func sweepByCache(ctx context.Context, s *shop, key reconcile.Key, app *corev1.ConfigMap) error {
	if app != nil {
		return unownedSecret(ctx, s, app)
	}
	err := s.client.CoreV1().Secrets(key.Namespace).Delete(ctx, key.Name, metav1.DeleteOptions{})
	if names.IsNotFound(err, corev1.Resource("secrets"), key.Name) {
		return nil
	}
	return err
}

func sweepByServer(ctx context.Context, s *shop, key reconcile.Key, app *corev1.ConfigMap) error {
	if app != nil {
		return unownedSecret(ctx, s, app)
	}
	secret, ok := s.secrets.Get(key)
	_, exists, err := names.Live(ctx, s.client.CoreV1().ConfigMaps(key.Namespace), key.Name)
	if err != nil || exists || !ok {
		return err
	}
	return patch.Delete(ctx, s.client.CoreV1().Secrets, secret, nil) // deletes only the Secret with this UID
}

// secretNames returns a trigger for changes of Secrets. The trigger reconciles
// the app that has the Secret's name, even if that app does not exist, so that
// the Secret is deleted.
func secretNames(s *shop) reconcile.Trigger {
	return reconcile.Mapped(s.secrets, func(_ context.Context, old, new *corev1.Secret) ([]reconcile.Key, error) {
		secret := cmp.Or(new, old)
		return []reconcile.Key{{Namespace: secret.Namespace, Name: secret.Name}}, nil
	})
}

// unownedSecret writes a Secret that outlives its app until the controller
// deletes it.
func unownedSecret(ctx context.Context, s *shop, app *corev1.ConfigMap) error {
	_, err := patch.Ensure(ctx, s.client.CoreV1().Secrets,
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: app.Name}}, nil, func(*corev1.Secret) {})
	return err
}

func createOrUpdate(ctx context.Context, s *shop, _ reconcile.Key, app *corev1.ConfigMap) error {
	if app == nil {
		return nil
	}
	want := &corev1.Secret{ObjectMeta: owned(app, app.Name), Data: map[string][]byte{"size": []byte(app.Data["size"])}}
	_, err := s.client.CoreV1().Secrets(app.Namespace).Create(ctx, want, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = s.client.CoreV1().Secrets(app.Namespace).Update(ctx, want, metav1.UpdateOptions{})
	}
	return err
}

func createOrRefuse(ctx context.Context, s *shop, key reconcile.Key, app *corev1.ConfigMap) error {
	if app == nil {
		return nil
	}
	if current, ok := s.secrets.Get(key); ok && !metav1.IsControlledBy(current, app) {
		return note(ctx, s, app, "problem", "the Secret exists, and is not ours")
	}
	return keep(ctx, s, app, app.Name, func(secret *corev1.Secret) {
		secret.Data = map[string][]byte{"size": []byte(app.Data["size"])}
	})
}

// named returns a trigger that reconciles the app that has a Secret's name when
// the Secret has changed. It does so for every Secret, including Secrets that
// other clients have created: after the deletion of such a Secret, the app can
// use its name.
func named(s *shop) reconcile.Trigger {
	return reconcile.Mapped(s.secrets, func(_ context.Context, old, new *corev1.Secret) ([]reconcile.Key, error) {
		secret := cmp.Or(new, old)
		return []reconcile.Key{{Namespace: secret.Namespace, Name: secret.Name}}, nil
	})
}

func notePrice(ctx context.Context, s *shop, key reconcile.Key, app *corev1.ConfigMap) error {
	if app == nil {
		return nil
	}
	prices, ok := s.secrets.Get(reconcile.Key{Namespace: key.Namespace, Name: "prices"})
	if !ok {
		return nil
	}
	return note(ctx, s, app, "price", string(prices.Data["price"]))
}

// prices returns a trigger that reconciles every app when the prices have
// changed.
func prices(s *shop) reconcile.Trigger {
	return reconcile.Mapped(s.secrets, func(_ context.Context, old, new *corev1.Secret) (keys []reconcile.Key, _ error) {
		if cmp.Or(new, old).Name != "prices" {
			return nil, nil
		}
		for app := range s.apps.Snapshot().All() {
			keys = append(keys, reconcile.Key{Namespace: app.Namespace, Name: app.Name})
		}
		return keys, nil
	})
}

func editTheCache(ctx context.Context, s *shop, _ reconcile.Key, app *corev1.ConfigMap) error {
	if app == nil {
		return nil
	}
	if app.Annotations == nil {
		app.Annotations = map[string]string{}
	}
	app.Annotations["size"] = app.Data["size"] // app is the cached object
	_, err := s.client.CoreV1().ConfigMaps(app.Namespace).Update(ctx, app, metav1.UpdateOptions{})
	return err
}

func editACopy(ctx context.Context, s *shop, _ reconcile.Key, app *corev1.ConfigMap) error {
	if app == nil {
		return nil
	}
	return note(ctx, s, app, "size", app.Data["size"])
}

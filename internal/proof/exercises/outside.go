package exercises

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/patch"
	"github.com/homeostat/homeostat/reconcile"
)

// note sets the annotation with the given key of an app to value.
func note(ctx context.Context, s *shop, app *corev1.ConfigMap, key, value string) error {
	_, err := patch.Merge(ctx, s.client.CoreV1().ConfigMaps, app, nil, func(edit *corev1.ConfigMap) {
		metav1.SetMetaDataAnnotation(&edit.ObjectMeta, key, value)
	})
	return err
}

func chargeAndNote(ctx context.Context, s *shop, _ reconcile.Key, app *corev1.ConfigMap) error {
	if app == nil || app.Annotations["charged"] != "" {
		return nil
	}
	s.charge("")
	return note(ctx, s, app, "charged", "yes")
}

func chargeByToken(ctx context.Context, s *shop, _ reconcile.Key, app *corev1.ConfigMap) error {
	if app == nil || app.Annotations["charged"] != "" {
		return nil
	}
	s.charge(string(app.UID)) // may be repeated, because the bank knows the token
	return note(ctx, s, app, "charged", "yes")
}

func mailAndRemember() step {
	mailed := map[reconcile.Key]bool{}
	return func(_ context.Context, s *shop, key reconcile.Key, app *corev1.ConfigMap) error {
		if app != nil && !mailed[key] {
			s.mail(app.Data["owner"])
			mailed[key] = true
		}
		return nil
	}
}

// noteAndMail may lose a mail, but never sends one twice. If two writers have
// the same resourceVersion, only one of them succeeds. After a lost reply it is
// not known whether the write succeeded, and no mail is sent.
func noteAndMail(ctx context.Context, s *shop, _ reconcile.Key, app *corev1.ConfigMap) error {
	if app == nil || app.Annotations["mailed"] != "" {
		return nil
	}
	_, err := patch.Merge(ctx, s.client.CoreV1().ConfigMaps, app, &patch.Options{Lock: true},
		func(edit *corev1.ConfigMap) { metav1.SetMetaDataAnnotation(&edit.ObjectMeta, "mailed", "yes") })
	if err == nil {
		s.mail(app.Data["owner"])
	}
	return err
}

func deleteWhenNotFound(_ context.Context, s *shop, key reconcile.Key, app *corev1.ConfigMap) error {
	if app == nil {
		_ = s.deleteBucket(key.Name)
		return nil
	}
	s.createBucket(key.Name)
	return nil
}

func deleteByFinalizer(ctx context.Context, s *shop, key reconcile.Key, app *corev1.ConfigMap) error {
	return withBucket(ctx, s, key, app, func(context.Context, *corev1.ConfigMap) error {
		if err := s.deleteBucket(key.Name); !errors.Is(err, errNoBucket) {
			return err
		}
		return nil
	})
}

func cleanOnce(ctx context.Context, s *shop, key reconcile.Key, app *corev1.ConfigMap) error {
	return withBucket(ctx, s, key, app, func(context.Context, *corev1.ConfigMap) error {
		return s.deleteBucket(key.Name)
	})
}

// withBucket creates a bucket for an app, and adds a finalizer to the app. When
// the app is deleted, it calls clean to delete the bucket, and then removes the
// finalizer.
func withBucket(
	ctx context.Context, s *shop, key reconcile.Key, app *corev1.ConfigMap,
	clean func(context.Context, *corev1.ConfigMap) error,
) error {
	if app == nil {
		return nil
	}
	f := patch.Finalizer[*corev1.ConfigMap, typedcorev1.ConfigMapInterface]{
		Name: "example.com/bucket", Client: s.client.CoreV1().ConfigMaps, Clean: clean,
	}
	if alive, _, err := f.Guard(ctx, app); err != nil || !alive {
		return err
	}
	live, ok, err := names.Live(ctx, s.client.CoreV1().ConfigMaps(key.Namespace), key.Name)
	if err != nil || !ok || live.UID != app.UID || live.DeletionTimestamp != nil {
		return err // the cache is stale
	}
	s.createBucket(key.Name)
	return nil
}

package zoo

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

const classFinalizer = "finalizer never goes"

func finalizers() []Specimen {
	return []Specimen{
		Specimen{
			Name: "what it cleans up must be there", Class: classFinalizer, World: comeAndGo,
			Found: "state", SDKFound: "state",
		}.reconciles(guarded(strictClean), guarded(removeOwn)),
		Specimen{
			Name: "will not clean up what is invalid", Class: classFinalizer, World: invalid, Found: "goal", SDKFound: "goal",
		}.reconciles(
			wiring{reconcile: always(validFirst(guarded(removeOwn).reconcile())).reconcile, deleting: true},
			wiring{reconcile: always(validAlive(guarded(removeOwn).reconcile())).reconcile, deleting: true},
		),
		Specimen{
			Name: "cleans up what its cache shows", Class: "own write not seen yet", World: comeAndGo,
			Found: "state", SDKFound: "state",
		}.reconciles(unowned(cleanCached, false), unowned(cleanByName, true)),
	}
}

// guarded keeps a finalizer on Apps until they are clean.
func guarded(clean Reconcile) wiring {
	i := always(func(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
		if app.DeletionTimestamp != nil {
			if err := clean(ctx, d, app); err != nil {
				return err
			}
			return d.finalize(ctx, app, false)
		}
		if err := d.finalize(ctx, app, true); err != nil {
			return err
		}
		return right(ctx, d, app)
	})
	i.deleting = true
	return i
}

// unowned keeps a finalizer on Apps whose keys have no owner, so that only
// clean deletes the keys. With asks it makes a key only if the server confirms
// the finalizer.
func unowned(clean Reconcile, asks bool) wiring {
	w := guarded(clean)
	inner := w.reconcile()
	return wiring{deleting: true, reconcile: always(func(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
		if app.DeletionTimestamp != nil {
			return inner(ctx, d, app)
		}
		if err := d.finalize(ctx, app, true); err != nil {
			return err
		}
		key := newKey(app)
		key.OwnerReferences = nil
		if _, found := find(d.secrets(app.Name), key.Name); !found {
			if asks {
				if held, err := stillHeld(ctx, d, app); err != nil || !held {
					return err
				}
			}
			if err := d.create(ctx, key); err != nil {
				return err
			}
		}
		return d.annotate(ctx, app, ready, "yes")
	}).reconcile}
}

// stillHeld asks the server whether the App still has the finalizer, because
// the cache may be stale.
func stillHeld(ctx context.Context, d Desk, app *corev1.ConfigMap) (bool, error) {
	now, err := d.kube().CoreV1().ConfigMaps(app.Namespace).Get(ctx, app.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil && now.UID == app.UID && now.DeletionTimestamp == nil, err
}

// cleanCached deletes the cached objects. The cache does not show the newest
// objects yet.
func cleanCached(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
	for _, s := range d.secrets(app.Name) {
		if err := d.remove(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// cleanByName deletes every object that it may have made, cached or not.
func cleanByName(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
	if err := strictClean(ctx, d, app); !apierrors.IsNotFound(err) {
		return err
	}
	return nil
}

// strictClean fails forever if its first attempt succeeded but the reply was
// lost.
func strictClean(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
	return d.kube().CoreV1().Secrets(app.Namespace).Delete(ctx, app.Name+"-key", metav1.DeleteOptions{})
}

var errInvalid = errors.New("the size must not be negative")

// validFirst does not remove the finalizer from Apps that it cannot parse.
func validFirst(t Reconcile) Reconcile {
	return func(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
		if app.Data["size"] == "-1" {
			return errInvalid
		}
		return t(ctx, d, app)
	}
}

func validAlive(t Reconcile) Reconcile {
	return func(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
		if app.Data["size"] == "-1" && app.DeletionTimestamp == nil {
			return errInvalid
		}
		return t(ctx, d, app)
	}
}

func invalid() *reconciletest.Case {
	return with(
		reconciletest.Patch("configmaps", namespace+"/a", `{"data":{"size":"-1"}}`),
		reconciletest.Delete("configmaps", namespace+"/a"),
	)()
}

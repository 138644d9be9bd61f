package zoo

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/names"
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
			wiring{reconcile: stateless(validFirst(guarded(removeOwn).reconcile())).reconcile, deleting: true},
			wiring{reconcile: stateless(validAlive(guarded(removeOwn).reconcile())).reconcile, deleting: true},
		),
		Specimen{
			Name: "cleans up what its cache shows", Class: "own write not seen yet", World: comeAndGo,
			Found: "state", SDKFound: "state",
		}.reconciles(unowned(cleanCached, false), unowned(cleanByName, true)),
	}
}

// guarded returns a program that keeps a finalizer on Apps. When an App is
// being deleted, the program calls clean before it removes the finalizer.
func guarded(clean Reconcile) wiring {
	i := stateless(func(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
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

// unowned returns a program like guarded, except that the keys have no owner.
// The garbage collector does not delete them, so clean must. If asks is true,
// the program makes a key only after the server has confirmed that the App is
// not being deleted.
func unowned(clean Reconcile, asks bool) wiring {
	w := guarded(clean)
	inner := w.reconcile()
	return wiring{deleting: true, reconcile: stateless(func(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
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

// stillHeld asks the server, because the cache may be stale, whether the App
// exists and is not being deleted. Then the finalizer still holds it.
func stillHeld(ctx context.Context, d Desk, app *corev1.ConfigMap) (bool, error) {
	live, err := d.kube().CoreV1().ConfigMaps(app.Namespace).Get(ctx, app.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil && live.UID == app.UID && live.DeletionTimestamp == nil, err
}

// cleanCached deletes the objects in the cache. It misses new objects that the
// cache does not show yet.
func cleanCached(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
	for _, s := range d.secrets(app.Name) {
		if err := d.remove(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// cleanByName deletes the key by its name, even if the cache does not show the
// key. The program makes no other object.
func cleanByName(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
	if err := strictClean(ctx, d, app); !names.IsNotFound(err, corev1.Resource("secrets"), app.Name+"-key") {
		return err
	}
	return nil
}

// strictClean deletes the App's key, and treats NotFound as an error. So it
// fails forever if its first attempt succeeded but the reply was lost.
func strictClean(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
	return d.kube().CoreV1().Secrets(app.Namespace).Delete(ctx, app.Name+"-key", metav1.DeleteOptions{})
}

var errInvalid = errors.New("the size must not be negative")

// validFirst returns a reconcile that calls t for valid Apps, and fails for
// others, even if they are being deleted. So it never removes the finalizer of
// such an App.
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
	return withSteps(
		reconciletest.Patch("configmaps", namespace+"/a", `{"data":{"size":"-1"}}`),
		reconciletest.Delete("configmaps", namespace+"/a"),
	)()
}

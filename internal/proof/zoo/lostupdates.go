package zoo

import (
	"context"
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

const classLostUpdate = "lost update"

func lostUpdates() []Specimen {
	return []Specimen{
		{
			Name: "the newest resourceVersion on an old copy", Class: classLostUpdate, World: noted, Found: "state",
			Bug: onClientGo(stateless(restamps)), Twin: onClientGo(stateless(marks)), SDKTwin: onSDK(stateless(marks)),
			Why: "as long as package patch writes, which has no update",
		},
		{
			Name: "a merge patch replaces a list", Class: classLostUpdate, World: theirs, Found: "state",
			Bug: onClientGo(stateless(replacesList)), Twin: onClientGo(stateless(finalizes)),
			SDKTwin: onSDK(stateless(finalizes)),
			Why:     "as long as package patch writes, which merges lists or locks them",
		},
	}
}

// restamps defeats the lock of its update. It sends its old object with a new
// resourceVersion, and so overwrites changes by other clients.
func restamps(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
	if app.Annotations[ready] != "" {
		return nil
	}
	maps := d.kube().CoreV1().ConfigMaps(app.Namespace)
	newest, err := maps.Get(ctx, app.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	app = app.DeepCopy()
	metav1.SetMetaDataAnnotation(&app.ObjectMeta, ready, "yes")
	app.ResourceVersion = newest.ResourceVersion
	_, err = maps.Update(ctx, app, metav1.UpdateOptions{})
	return err
}

func marks(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
	return d.annotate(ctx, app, ready, "yes")
}

const finalizer = "example.com/zoo"

// replacesList sends the list from the cache with its own entry, and so removes
// an entry that another client has just added.
func replacesList(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
	if slices.Contains(app.Finalizers, finalizer) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"finalizers": append(slices.Clone(app.Finalizers), finalizer),
	}})
	if err != nil {
		return err
	}
	_, err = d.kube().CoreV1().ConfigMaps(app.Namespace).
		Patch(ctx, app.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

func finalizes(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
	return d.finalize(ctx, app, true)
}

// noted returns a case in which another client writes to the App, too.
func noted() *reconciletest.Case {
	c := withSteps(reconciletest.Patch("configmaps", namespace+"/a", `{"data":{"note":"mine"}}`))()
	c.Goal = nil
	return c
}

// theirs returns a case in which another client adds a finalizer, too.
func theirs() *reconciletest.Case {
	c := withSteps(reconciletest.Step{Name: "add their finalizer", Do: func(
		ctx context.Context, w *reconciletest.World,
	) error {
		maps := w.Client().CoreV1().ConfigMaps(namespace)
		app, err := maps.Get(ctx, "a", metav1.GetOptions{})
		if err != nil {
			return err
		}
		app.Finalizers = append(app.Finalizers, "example.com/theirs")
		slices.Sort(app.Finalizers)
		_, err = maps.Update(ctx, app, metav1.UpdateOptions{})
		return err
	}})()
	c.Goal = nil
	return c
}

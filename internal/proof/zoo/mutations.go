package zoo

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

const classMutation = "edited cache"

func mutations() []Specimen {
	return []Specimen{
		Specimen{
			Name: "edits what the lister gave", Class: classMutation, World: comeAndGo, Found: "mutation", SDKFound: "mutation",
		}.reconciles(stateless(editsShared), stateless(right)),
		Specimen{
			Name: "a helper merges into its argument", Class: classMutation, World: labelLost,
			Found: "mutation", SDKFound: "mutation",
		}.reconciles(stateless(mergesShared), stateless(mergesCopy)),
	}
}

// editsShared modifies the cached object before it writes it. If the write
// fails, the next attempt finds the edit in the cache, and concludes that the
// write succeeded.
func editsShared(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
	if app.Annotations[ready] != "" {
		return nil
	}
	if err := d.create(ctx, newKey(app)); err != nil {
		return err
	}
	metav1.SetMetaDataAnnotation(&app.ObjectMeta, ready, "yes")
	_, err := d.kube().CoreV1().ConfigMaps(app.Namespace).Update(ctx, app, metav1.UpdateOptions{})
	return err
}

// merge puts the entries of want into dst, and reports whether that has changed
// dst.
func merge(dst, want map[string]string) (changed bool) {
	for k, v := range want {
		if dst[k] != v {
			dst[k], changed = v, true
		}
	}
	return changed
}

var tier = map[string]string{"tier": "gold"}

// mergesShared passes a map of the cached object to merge, although merge
// modifies the map.
func mergesShared(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
	if !merge(app.Labels, tier) {
		return nil
	}
	_, err := d.kube().CoreV1().ConfigMaps(app.Namespace).Update(ctx, app, metav1.UpdateOptions{})
	return err
}

func mergesCopy(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
	app = app.DeepCopy()
	if !merge(app.Labels, tier) {
		return nil
	}
	_, err := d.kube().CoreV1().ConfigMaps(app.Namespace).Update(ctx, app, metav1.UpdateOptions{})
	return err
}

func labelLost() *reconciletest.Case {
	c := comeAndGo()
	c.Workload = []reconciletest.Step{
		reconciletest.Patch("configmaps", namespace+"/a", `{"metadata":{"labels":{"tier":null}}}`),
	}
	c.Goal = nil
	return c
}

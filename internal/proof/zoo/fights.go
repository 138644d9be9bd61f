package zoo

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

const classFight = "fight over a field"

func fights() []Specimen {
	return []Specimen{
		Specimen{
			Name: "two answers in one controller", Class: classFight, World: noted, Found: "rest", SDKFound: "rest",
			Options: reconciletest.Options{Steps: 2000},
		}.reconciles(stateless(bothTiers), stateless(oneTier)),
		Specimen{
			Name: "writes the whole map", Class: classFight, World: checked, Found: "rest", SDKFound: "rest",
			Options: reconciletest.Options{Steps: 2000},
		}.reconciles(stateless(wholeMap), stateless(marks)),
	}
}

// bothTiers consists of two rules that undo each other's writes.
func bothTiers(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
	if app.Annotations["tier"] != "gold" {
		return d.annotate(ctx, app, "tier", "gold")
	}
	if app.Labels[labelApp] == "yes" {
		return d.annotate(ctx, app, "tier", "silver")
	}
	return nil
}

func oneTier(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
	return d.annotate(ctx, app, "tier", "gold")
}

// wholeMap removes the entries of other clients, which they put back.
func wholeMap(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
	want := map[string]string{ready: "yes"}
	if maps.Equal(app.Annotations, want) {
		return nil
	}
	app = app.DeepCopy()
	app.Annotations = want
	_, err := d.kube().CoreV1().ConfigMaps(app.Namespace).Update(ctx, app, metav1.UpdateOptions{})
	return err
}

// checked returns the case of noted, with another client that sets an
// annotation of App a whenever it is missing.
func checked() *reconciletest.Case {
	c := noted()
	missing := func(w *reconciletest.World) bool {
		apps, err := reconciletest.List[corev1.ConfigMap](w, "configmaps")
		return err == nil && len(apps) > 0 && apps[0].Annotations["checked"] == ""
	}
	c.Actors = []reconciletest.Actor{{Name: "checker", Enabled: missing, Do: func(w *reconciletest.World) {
		step := reconciletest.Patch("configmaps", namespace+"/a", `{"metadata":{"annotations":{"checked":"yes"}}}`)
		if err := step.Do(context.Background(), w); err != nil {
			panic(err) // the App exists, since missing has checked it
		}
	}}}
	return c
}

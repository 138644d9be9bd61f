package zoo

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

const (
	namespace = "d"
	labelApp  = "app" // the label of Apps
	labelOf   = "of"  // the label of an App's objects; its value is the App's name
	ready     = "ready"
)

// newApp returns an App, which is a ConfigMap, with this name.
func newApp(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, Labels: map[string]string{labelApp: "yes"},
	}}
}

// newKey returns the key of an App, which the App owns.
func newKey(app *corev1.ConfigMap) *corev1.Secret { return newSecret(app, app.Name+"-key") }

// newSecret returns a Secret that an App owns.
func newSecret(app *corev1.ConfigMap, name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: app.Namespace, Name: name, Labels: map[string]string{labelOf: app.Name},
		OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(app, corev1.SchemeGroupVersion.WithKind("ConfigMap")),
		},
	}}
}

// find returns the Secret with the given name, and whether secrets contains it.
func find(secrets []*corev1.Secret, name string) (*corev1.Secret, bool) {
	for _, s := range secrets {
		if s.Name == name {
			return s, true
		}
	}
	return nil, false
}

// comeAndGo returns the usual case: one App exists, and a second App is created
// and deleted.
func comeAndGo() *reconciletest.Case {
	return &reconciletest.Case{
		Objects: []runtime.Object{newApp("a")},
		Workload: []reconciletest.Step{
			reconciletest.Create(newApp("b")),
			reconciletest.Delete("configmaps", namespace+"/b"),
		},
		Goal: keys,
	}
}

// withSteps returns a function that returns the usual case with other steps.
func withSteps(steps ...reconciletest.Step) func() *reconciletest.Case {
	return func() *reconciletest.Case {
		c := comeAndGo()
		c.Workload = steps
		return c
	}
}

// keys is the Goal of most cases. It returns nil if every App has its key and
// reports ready, and every key belongs to an App.
func keys(w *reconciletest.World) error {
	apps, err := reconciletest.List[corev1.ConfigMap](w, "configmaps")
	if err != nil {
		return err
	}
	secrets, err := reconciletest.List[corev1.Secret](w, "secrets")
	if err != nil {
		return err
	}
	keyCounts := map[string]int{}
	for _, s := range secrets {
		keyCounts[s.Labels[labelOf]]++
	}
	for _, app := range apps {
		if app.DeletionTimestamp != nil {
			return fmt.Errorf("app %s is never deleted", app.Name)
		}
		if keyCounts[app.Name] == 0 || app.Annotations[ready] == "" {
			return fmt.Errorf("app %s must have a key and report ready: it has %d keys and reports %q", app.Name,
				keyCounts[app.Name], app.Annotations[ready])
		}
		delete(keyCounts, app.Name)
	}
	for name := range keyCounts {
		return fmt.Errorf("a key of app %q still exists, although the app does not", name)
	}
	return nil
}

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
	labelApp  = "app" // on Apps
	labelOf   = "of"  // on an App's objects: the App's name
	ready     = "ready"
)

// newApp is an App.
func newApp(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, Labels: map[string]string{labelApp: "yes"},
	}}
}

// newKey is the key of an App, owned by it.
func newKey(app *corev1.ConfigMap) *corev1.Secret { return newSecret(app, app.Name+"-key") }

// newSecret is a Secret that an App owns.
func newSecret(app *corev1.ConfigMap, name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: app.Namespace, Name: name, Labels: map[string]string{labelOf: app.Name},
		OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(app, corev1.SchemeGroupVersion.WithKind("ConfigMap")),
		},
	}}
}

// find returns the Secret of that name.
func find(secrets []*corev1.Secret, name string) (*corev1.Secret, bool) {
	for _, s := range secrets {
		if s.Name == name {
			return s, true
		}
	}
	return nil, false
}

// comeAndGo is the usual world: one App exists, and another one is created and
// deleted.
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

// with puts other steps into a world.
func with(steps ...reconciletest.Step) func() *reconciletest.Case {
	return func() *reconciletest.Case {
		c := comeAndGo()
		c.Workload = steps
		return c
	}
}

// keys is the goal of most worlds: every App has its key and says so, and every
// key has its App.
func keys(w *reconciletest.World) error {
	apps, err := reconciletest.List[corev1.ConfigMap](w, "configmaps")
	if err != nil {
		return err
	}
	secrets, err := reconciletest.List[corev1.Secret](w, "secrets")
	if err != nil {
		return err
	}
	have := map[string]int{}
	for _, s := range secrets {
		have[s.Labels[labelOf]]++
	}
	for _, app := range apps {
		if app.DeletionTimestamp != nil {
			return fmt.Errorf("app %s does not go", app.Name)
		}
		if have[app.Name] == 0 || app.Annotations[ready] == "" {
			return fmt.Errorf("app %s: %d keys, ready %q", app.Name, have[app.Name], app.Annotations[ready])
		}
		delete(have, app.Name)
	}
	for name := range have {
		return fmt.Errorf("a key is left over of app %q", name)
	}
	return nil
}

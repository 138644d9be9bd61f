package zoo

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

const classOwner = "garbage collection"

func owners() []Specimen {
	return []Specimen{
		Specimen{
			Name: "an owner in another namespace", Class: classOwner, World: vault, Found: "rest", SDKFound: "rest",
			Options: reconciletest.Options{Steps: 2000},
		}.reconciles(stateless(ownsAbroad), stateless(right)),
		Specimen{
			Name: "no owner at all", Class: classOwner, World: comeAndGo, Found: "goal", SDKFound: "goal",
		}.reconciles(stateless(withoutOwner), stateless(right)),
	}
}

// withoutOwner leaves the key behind when the App is deleted.
func withoutOwner(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
	if _, ok := find(d.secrets(app.Name), app.Name+"-key"); !ok {
		key := newKey(app)
		key.OwnerReferences = nil
		if err := d.create(ctx, key); err != nil {
			return err
		}
	}
	return d.annotate(ctx, app, ready, "yes")
}

// ownsAbroad makes an object that the garbage collector deletes at once,
// because an owner must be in the same namespace.
func ownsAbroad(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
	if _, ok := find(d.secrets(app.Name), app.Name+"-key"); !ok {
		key := newKey(app)
		key.Namespace = "vault"
		return d.create(ctx, key)
	}
	return d.annotate(ctx, app, ready, "yes")
}

func vault() *reconciletest.Case {
	c := comeAndGo()
	c.Objects = append(c.Objects, runtime.Object(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "vault"}}))
	return c
}

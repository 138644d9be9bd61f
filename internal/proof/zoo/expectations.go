package zoo

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

const classExpectation = "expectations in memory"

func expectations() []Specimen {
	return []Specimen{
		Specimen{
			Name: "remembers by name", Class: classExpectation, World: recreation, Found: "tail", SDKFound: "tail",
			Options: reconciletest.Options{SkipDrift: true},
		}.reconciles(byName(), byUID()),
		Specimen{
			Name: "expects what has failed", Class: classExpectation, World: comeAndGo, Found: "state", SDKFound: "state",
		}.reconciles(expects(false), expects(true)),
	}
}

// byName returns a program that remembers the Apps for which it has made a key.
// It forgets an App when it sees that the App is deleted. It may never see
// that.
func byName() wiring {
	var made map[types.NamespacedName]bool
	return wiring{
		reconcile: func() Reconcile {
			made = map[types.NamespacedName]bool{}
			return func(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
				name := types.NamespacedName{Namespace: app.Namespace, Name: app.Name}
				if !made[name] {
					if err := d.create(ctx, newKey(app)); err != nil {
						return err
					}
					made[name] = true
				}
				return d.annotate(ctx, app, ready, "yes")
			}
		},
		gone: func(_ context.Context, _ Desk, name types.NamespacedName) error {
			delete(made, name)
			return nil
		},
	}
}

// byUID returns a program that makes the key of an App unless there is a key
// whose owner reference has the UID of this App. The program remembers nothing
// that could become wrong: a recreated App has a different UID, so it gets a
// new key.
func byUID() wiring {
	return stateless(func(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
		key, ok := find(d.secrets(app.Name), app.Name+"-key")
		if !ok || key.OwnerReferences[0].UID != app.UID {
			if err := d.create(ctx, newKey(app)); err != nil {
				return err
			}
		}
		return d.annotate(ctx, app, ready, "yes")
	})
}

// expects returns a program that waits until the cache shows the key that it
// has made. If the create failed, the program waits forever, unless givesUp is
// set.
func expects(givesUp bool) wiring {
	return wiring{reconcile: func() Reconcile {
		coming := map[types.UID]bool{}
		return func(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
			if _, ok := find(d.secrets(app.Name), app.Name+"-key"); ok {
				delete(coming, app.UID)
				return d.annotate(ctx, app, ready, "yes")
			}
			if coming[app.UID] {
				return nil
			}
			coming[app.UID] = true
			err := d.create(ctx, newKey(app))
			if err != nil && givesUp {
				delete(coming, app.UID)
			}
			return err
		}
	}}
}

// recreation returns a case in which an App is deleted and recreated at once.
func recreation() *reconciletest.Case {
	return withSteps(reconciletest.Step{
		Name: "delete and create d/a",
		Do: func(ctx context.Context, w *reconciletest.World) error {
			if err := reconciletest.Delete("configmaps", namespace+"/a").Do(ctx, w); err != nil {
				return err
			}
			return reconciletest.Create(newApp("a")).Do(ctx, w)
		},
	})()
}

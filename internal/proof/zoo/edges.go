package zoo

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

const classEdge = "unobserved state"

// optIn is the annotation by which an App requests a key.
const optIn = "wants-key"

func edges() []Specimen {
	onEvent := stateless(onRequest(nil))
	return []Specimen{
		Specimen{
			Name: "cleans up when it sees the App gone", Class: classEdge, World: datacenter,
			Found: "goal", SDKFound: "goal",
		}.reconciles(switches(), starts(true)),
		{
			Name: "takes the key away in the event handler", Class: classEdge, World: optOut, Found: "state",
			Bug: handlesOptOut(onEvent), Twin: onClientGo(stateless(onRequest(removeUnwanted))),
			SDKTwin: onSDK(stateless(onRequest(removeUnwanted))),
			Why:     "no event reaches a Reconciler: it gets a key",
		},
	}
}

// switches returns a program that starts a machine for each App, and turns the
// machine off when it is called for the deleted App. If the App is deleted
// while the program is down, the machine stays on forever.
func switches() wiring {
	var running map[types.NamespacedName]types.UID
	return wiring{
		reconcile: func() Reconcile {
			running = map[types.NamespacedName]types.UID{}
			return func(_ context.Context, d Desk, app *corev1.ConfigMap) error {
				running[types.NamespacedName{Namespace: app.Namespace, Name: app.Name}] = app.UID
				d.outsideState().(*machines).start(app.UID)
				return nil
			}
		},
		gone: func(_ context.Context, d Desk, name types.NamespacedName) error {
			delete(d.outsideState().(*machines).running, running[name])
			return nil
		},
	}
}

// onRequest returns a reconcile that makes a key for Apps that request one, and
// calls fallback, unless it is nil, for all other Apps.
func onRequest(fallback Reconcile) Reconcile {
	return func(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
		if app.Annotations[optIn] != "" {
			if _, ok := find(d.secrets(app.Name), app.Name+"-key"); ok {
				return nil
			}
			return d.create(ctx, newKey(app))
		}
		if fallback == nil {
			return nil
		}
		return fallback(ctx, d, app)
	}
}

// removeOwn removes the key of this App, and not the key of a recreated App.
func removeOwn(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
	for _, s := range d.secrets(app.Name) {
		if !metav1.IsControlledBy(s, app) {
			continue
		}
		if err := d.remove(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// removeUnwanted asks the server before it deletes the key, because the cache
// may not show yet that the key is wanted.
func removeUnwanted(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
	if len(d.secrets(app.Name)) == 0 {
		return nil
	}
	live, err := d.kube().CoreV1().ConfigMaps(app.Namespace).Get(ctx, app.Name, metav1.GetOptions{})
	if err != nil || live.Annotations[optIn] != "" {
		return err
	}
	return removeOwn(ctx, d, app)
}

// handlesOptOut returns a program that removes the key of an App only when an
// event shows that the App no longer wants it. So the program never removes the
// key if it misses that event.
func handlesOptOut(w wiring) Program {
	return func(env *reconciletest.Env) error {
		p := newPlain(env.Client(), w)
		p.handle(p.apps, p.appHandler())
		p.handle(p.secretCache, p.secretHandler())
		p.handle(p.apps, cache.ResourceEventHandlerFuncs{UpdateFunc: func(oldObject, newObject any) {
			previous, current := oldObject.(*corev1.ConfigMap), newObject.(*corev1.ConfigMap)
			if previous.Annotations[optIn] != "" && current.Annotations[optIn] == "" {
				_ = p.client.CoreV1().Secrets(current.Namespace).Delete(env.Context(), current.Name+"-key", metav1.DeleteOptions{})
			}
		}})
		return p.run(env.Context(), p.synced...)
	}
}

func optOut() *reconciletest.Case {
	c := comeAndGo()
	c.Workload = []reconciletest.Step{
		reconciletest.Patch("configmaps", namespace+"/a", `{"metadata":{"annotations":{"wants-key":"yes"}}}`),
		reconciletest.Patch("configmaps", namespace+"/a", `{"metadata":{"annotations":{"wants-key":null}}}`),
	}
	c.Goal = nil
	return c
}

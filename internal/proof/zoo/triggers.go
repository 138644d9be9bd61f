package zoo

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

const classTrigger = "missed watch"

func triggers() []Specimen {
	blindly, polled, watched := stateless(blind), stateless(fromSeed(true)), stateless(fromSeed(false))
	return []Specimen{
		{
			Name: "does not watch what it makes", Class: classTrigger, World: comeAndGo, Found: "watch", SDKFound: "watch",
			Bug: unwatched(blindly), Twin: onClientGo(stateless(right)),
			SDKBug: unwatchedSDK(blindly), SDKTwin: onSDK(stateless(right)),
		},
		{
			Name: "does not hear of deletions", Class: classTrigger, World: comeAndGo, Found: "state",
			Bug: noDeletes(stateless(right)), Twin: onClientGo(stateless(right)), SDKTwin: onSDK(stateless(right)),
			Why: "a trigger gets every change",
		},
		Specimen{
			Name: "does not watch what it reads", Class: classTrigger, World: seeded, Found: "watch", SDKFound: "watch",
		}.reconciles(polled, watched),
	}
}

// blind makes the key without checking whether the cache has it.
func blind(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
	if app.Annotations[ready] != "" {
		return nil
	}
	if err := d.create(ctx, newKey(app)); err != nil {
		return err
	}
	return d.annotate(ctx, app, ready, "yes")
}

// fromSeed returns a reconcile that records a version in an annotation of the
// App. If reads is true, the reconcile reads the version from a Service, the
// seed, whose changes do not cause a reconcile. Otherwise it copies the version
// from the App itself.
func fromSeed(reads bool) Reconcile {
	return func(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
		version := app.Data["version"]
		if reads {
			seed, err := d.kube().CoreV1().Services(namespace).Get(ctx, "seed", metav1.GetOptions{})
			if err != nil {
				return err
			}
			version = seed.Annotations["version"]
		}
		return d.annotate(ctx, app, "version", version)
	}
}

func seeded() *reconciletest.Case {
	c := noted()
	c.Objects = append(c.Objects, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "seed"}})
	return c
}

// unwatched returns a program that has an informer only for the objects that it
// reconciles, and not for the other objects that the reconcile reads.
func unwatched(w wiring) Program {
	return func(env *reconciletest.Env) error {
		p := newPlain(env.Client(), w)
		p.handle(p.apps, p.appHandler())
		defer p.started.Wait()
		defer p.queue.ShutDown()
		p.started.Go(func() { p.apps.RunWithContext(env.Context()) })
		if cache.WaitForCacheSync(env.Context().Done(), p.synced...) {
			p.work(env.Context())
			<-env.Context().Done()
		}
		return nil
	}
}

func unwatchedSDK(w wiring) Program {
	return func(env *reconciletest.Env) error {
		client := env.Client()
		apps := informer.For(client.CoreV1().ConfigMaps(""), &informer.Options{LabelSelector: labelApp})
		return reconcile.Run(env.Context(), "apps", apps, &sdk{wiring: w, client: client, reconciles: w.reconcile()})
	}
}

// noDeletes returns a program that registers a handler without a DeleteFunc, so
// it is never notified of deletions.
func noDeletes(w wiring) Program {
	return func(env *reconciletest.Env) error {
		p := newPlain(env.Client(), w)
		p.handle(p.apps, p.appHandler())
		h := p.secretHandler()
		h.DeleteFunc = nil
		p.handle(p.secretCache, h)
		return p.run(env.Context(), p.synced...)
	}
}

package zoo

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

const classUnsynced = "cache not filled yet"

func unsynced() []Specimen {
	tidy := stateless(right)
	tidy.gone = removeKey
	return []Specimen{
		{
			Name: "does not wait for its caches", Class: classUnsynced, World: readyApp, Found: "tail",
			Bug: impatient(tidy, 0), Twin: onClientGo(tidy), SDKTwin: onSDK(tidy),
			Why: "no reconcile starts before every informer has delivered its first list",
		},
		{
			Name: "waits for its caches, but not forever", Class: classUnsynced, World: readyApp, Found: "tail",
			Bug: impatient(tidy, 500*time.Millisecond), Twin: onClientGo(tidy), SDKTwin: onSDK(tidy),
			Why: "no reconcile starts before every informer has delivered its first list",
		},
	}
}

// removeKey deletes the key of an App that does not exist.
func removeKey(ctx context.Context, d Desk, name types.NamespacedName) error {
	if key, ok := find(d.secrets(name.Name), name.Name+"-key"); ok {
		return d.remove(ctx, key)
	}
	return nil
}

// impatient returns a program that waits for its caches, but no longer than
// patience, and then starts to reconcile. It mistakes an App that is not in the
// cache yet for a deleted App, and deletes the App's key.
func impatient(w wiring, patience time.Duration) Program {
	return func(env *reconciletest.Env) error {
		ctx := env.Context()
		p := newPlain(env.Client(), w)
		p.handle(p.apps, p.appHandler())
		p.handle(p.secretCache, p.secretHandler())
		defer p.started.Wait()
		defer p.queue.ShutDown()
		p.watch(ctx)
		waiting, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		for _, synced := range p.synced {
			for !synced() && waiting.Err() == nil {
				select {
				case <-waiting.Done():
				case <-time.After(10 * time.Millisecond):
				}
			}
		}
		p.work(ctx)
		<-ctx.Done()
		return nil
	}
}

// readyApp returns a case in which all work is done at the start. So a program
// that deletes the key causes an outage.
func readyApp() *reconciletest.Case {
	app := newApp("a")
	app.UID = types.UID("00000000-0000-4000-8000-0000000000aa")
	app.Annotations = map[string]string{ready: "yes"}
	return &reconciletest.Case{
		Objects: []runtime.Object{app, newKey(app)},
		Goal:    keys,
	}
}

package reconciletest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/test/breeding"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// logging logs an error, and treats it as a success.
func logging(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
	if err := breeding.Right(ctx, b, p); err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "breeding")
	}
	return nil
}

// leisurely is correct, but waits for five minutes before it tries again.
func leisurely(env *reconciletest.Env) error {
	client := env.Client()
	b := &breeding.Breeder{Client: client, Children: informer.For(client.CoreV1().Secrets(""), nil)}
	one := func(ctx context.Context, r reconcile.Request[*corev1.ConfigMap]) (reconcile.Result, error) {
		if p, ok := r.Object(); ok && breeding.Right(ctx, b, p) != nil {
			return reconcile.After(5 * time.Minute), nil
		}
		return reconcile.Result{}, nil
	}
	c, err := reconcile.New("breeder", breeding.Parents(client), reconcile.Func[*corev1.ConfigMap](one),
		&reconcile.Options{Triggers: []reconcile.Trigger{reconcile.Owned(b.Children)}})
	if err != nil {
		return err
	}
	return c.Run(env.Context())
}

// unsyncing waits for a cache that does not sync, and ignores the end of its
// context.
func unsyncing(env *reconciletest.Env) error {
	late := make(chan struct{})
	go func() {
		<-env.Context().Done()
		<-time.After(3 * time.Minute)
		close(late)
	}()
	cache.WaitForCacheSync(late, func() bool { return false })
	return nil
}

// handling gives parents children, by handlers of client-go that look for an
// owner. The children have no owner unless owned is set.
func handling(owned bool) func(env *reconciletest.Env) error {
	return func(env *reconciletest.Env) error {
		ctx, client := env.Context(), env.Client()
		factory := informers.NewSharedInformerFactory(client, 0)
		keys := make(chan string, 100)
		parents, children := factory.Core().V1().ConfigMaps().Informer(), factory.Core().V1().Secrets().Informer()
		wake := func(obj any) {
			m, ok := obj.(metav1.Object)
			if !ok {
				return
			}
			if _, child := obj.(*corev1.Secret); !child && m.GetLabels()["parent"] != "" {
				keys <- m.GetName()
			}
			for _, o := range m.GetOwnerReferences() {
				keys <- o.Name
			}
		}
		every := cache.ResourceEventHandlerFuncs{
			AddFunc: wake, DeleteFunc: wake, UpdateFunc: func(_, o any) { wake(o) },
		}
		for _, i := range []cache.SharedIndexInformer{parents, children} {
			if _, err := i.AddEventHandler(every); err != nil {
				return err
			}
		}
		factory.StartWithContext(ctx)
		factory.WaitForCacheSyncWithContext(ctx)
		for ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case name := <-keys:
				breedOne(ctx, env, parents, children, name, owned, keys)
			}
		}
		factory.Shutdown()
		return nil
	}
}

func breedOne(
	ctx context.Context, env *reconciletest.Env, parents, children cache.SharedIndexInformer, name string, owned bool,
	keys chan string,
) {
	obj, _, _ := parents.GetStore().GetByKey("d/" + name)
	p, _ := obj.(*corev1.ConfigMap)
	_, there, _ := children.GetStore().GetByKey("d/" + name + "-child")
	if p == nil || there {
		return
	}
	child := breeding.Child(p)
	if !owned {
		child.OwnerReferences = nil
	}
	b := &breeding.Breeder{Client: env.Client()}
	if b.Create(ctx, child) != nil && ctx.Err() == nil {
		pause(ctx)
		keys <- name
	}
}

// cdn is outside of the server.
type cdn struct{ down bool }

// failingOutside gives up when a system outside of the server fails. The step
// that stops this system does not write to the server.
func failingOutside(c *reconciletest.Case) {
	var outside *cdn
	c.Goal, c.Outside = nil, func() any { return &cdn{} }
	run := breeding.Run(func(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
		if outside.down {
			return nil
		}
		return breeding.Right(ctx, b, p)
	})
	c.Run = func(env *reconciletest.Env) error {
		outside = env.Outside().(*cdn)
		return run(env)
	}
	goes := func(name string, down bool) reconciletest.Step {
		return reconciletest.Step{Name: name, Do: func(_ context.Context, w *reconciletest.World) error {
			w.Outside().(*cdn).down = down
			return nil
		}}
	}
	c.Workload = []reconciletest.Step{goes("the CDN goes down", true), goes("the CDN comes back", false)}
}

// returning returns the error of a call, and does nothing when it is called
// again, because it takes the object for done.
func returning(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
	if p.Annotations["done"] != "" {
		return nil
	}
	return errors.Join(breeding.Right(ctx, b, p), b.Annotate(ctx, p, "done", "yes"))
}

// A finding says whether the state becomes right a while later, and whether the
// error of the failed call was only logged.
func TestAFindingSaysWhatOneMoreRunShows(t *testing.T) {
	for name, row := range map[string]struct {
		run          func(env *reconciletest.Env) error
		reason, text string
	}{
		"right later": {leisurely, "too-early", `It is right [34567]m later: Options\.Rest is 2m0s`},
		"only logged": {breeding.Run(logging), "only-logged", `logged this error, and has neither read nor written since: .*"breeding"`},
		"swallowed":   {breeding.Run(swallow), "not-retried", `hint: an error of one call`},
		"returned":    {breeding.Run(returning), "not-retried", `hint: an error of one call`},
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			c := breeding.Case(breeding.Right)
			c.Run, c.Goal, c.Workload = row.run, nil, nil
			text := reconciletest.FailureOf(t, c, nil, "500")
			g.Expect(text.Failure).To(gomega.MatchRegexp(row.text))
			g.Expect(text.Reason).To(gomega.Equal(row.reason))
		})
	}
}

package reconciletest_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/homeostat/homeostat/internal/test/breeding"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// byName deletes the child of a parent that is being deleted, even if another
// object has the child's name by now.
func byName(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
	if p.Annotations["going"] == "" {
		return breeding.Right(ctx, b, p)
	}
	err := b.Client.CoreV1().Secrets(p.Namespace).Delete(ctx, p.Name+"-child", metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// goneBefore is a case with a parent that was deleted and recreated before.
func goneBefore(c *reconciletest.Case) {
	c.Run, c.Goal = breeding.Run(byName), nil
	c.Workload = []reconciletest.Step{
		reconciletest.Patch("configmaps", "d/a", `{"metadata":{"annotations":{"going":"yes"}}}`),
		reconciletest.Delete("configmaps", "d/a"),
		reconciletest.Create(breeding.Parent("a")),
	}
}

// whole writes the parent as a whole, and takes the version of the newest one
// so that the server does not refuse it.
func whole(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
	if p.Annotations["ready"] != "" {
		return nil
	}
	edit := p.DeepCopy()
	metav1.SetMetaDataAnnotation(&edit.ObjectMeta, "ready", "yes")
	newest, err := b.Client.CoreV1().ConfigMaps(p.Namespace).Get(ctx, p.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	edit.ResourceVersion = newest.ResourceVersion
	_, err = b.Client.CoreV1().ConfigMaps(p.Namespace).Update(ctx, edit, metav1.UpdateOptions{})
	return err
}

// careless edits a cached object in place.
func careless(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
	metav1.SetMetaDataAnnotation(&p.ObjectMeta, "seen", "yes")
	return breeding.Right(ctx, b, p)
}

// filled makes a child with data, and does not look at the data again.
func filled(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
	if len(b.ChildrenOf(p)) > 0 {
		return nil
	}
	s := breeding.Child(p)
	s.Data = map[string][]byte{"key": []byte("value")}
	return b.Create(ctx, s)
}

// ticking writes every now and then.
func ticking(every time.Duration) func(env *reconciletest.Env) error {
	return func(env *reconciletest.Env) error {
		var join sync.WaitGroup
		defer join.Wait()
		join.Go(func() {
			ticks := time.NewTicker(every)
			defer ticks.Stop()
			for {
				select {
				case <-env.Context().Done():
					return
				case now := <-ticks.C:
					_, _ = env.Client().CoreV1().ConfigMaps("d").Patch(env.Context(), "a", types.MergePatchType,
						fmt.Appendf(nil, `{"data":{"x":"%d"}}`, now.Unix()), metav1.PatchOptions{})
				}
			}
		})
		return breeding.Run(breeding.Right)(env)
	}
}

// counted adds one to a count for each event.
func counted(env *reconciletest.Env) error {
	ctx, client := env.Context(), env.Client()
	factory := informers.NewSharedInformerFactory(client, 0)
	informer := factory.Core().V1().ConfigMaps().Informer()
	events := make(chan *corev1.ConfigMap, 100)
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(_, obj any) {
		if p, ok := obj.(*corev1.ConfigMap); ok && p.Labels["parent"] != "" {
			events <- p
		}
	}})
	if err != nil {
		return err
	}
	factory.StartWithContext(ctx)
	defer factory.Shutdown()
	for {
		select {
		case <-ctx.Done():
			return nil
		case p := <-events:
			if err := countOne(ctx, env, p); err != nil {
				return err
			}
		}
	}
}

func countOne(ctx context.Context, env *reconciletest.Env, p *corev1.ConfigMap) error {
	key := "changes-" + p.ResourceVersion
	data := map[string]string{"of": p.Data["x"]}
	for range 20 {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "d", GenerateName: "change-"}, StringData: data}
		if _, err := env.Client().CoreV1().Secrets("d").Create(ctx, secret, metav1.CreateOptions{}); err == nil {
			return nil
		}
		pause(ctx)
	}
	return fmt.Errorf("giving up on %s", key)
}

// unsyncedInformers deletes objects whose parent is not in a cache that may not
// be filled yet.
func unsyncedInformers(env *reconciletest.Env) error {
	ctx, client := env.Context(), env.Client()
	factory := informers.NewSharedInformerFactory(client, 0)
	parents := factory.Core().V1().ConfigMaps()
	children := factory.Core().V1().Secrets()
	env.Cache("configmaps", parents.Informer().GetStore().List)
	parents.Informer()
	note := func(s *corev1.Secret) {
		parent := strings.TrimSuffix(s.Name, "-child")
		if _, err := parents.Lister().ConfigMaps(s.Namespace).Get(parent); apierrors.IsNotFound(err) {
			_ = client.CoreV1().Secrets(s.Namespace).Delete(ctx, s.Name, metav1.DeleteOptions{})
		}
	}
	var join sync.WaitGroup
	_, err := children.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
		if s, ok := obj.(*corev1.Secret); ok {
			join.Go(func() { note(s) })
		}
	}})
	if err != nil {
		return err
	}
	factory.StartWithContext(ctx)
	<-ctx.Done()
	factory.Shutdown()
	join.Wait()
	return nil
}

// reading reads an object from the server in each reconcile, although it could
// watch the object.
func reading(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
	if _, err := b.Client.CoreV1().Namespaces().Get(ctx, p.Namespace, metav1.GetOptions{}); err != nil {
		return err
	}
	return breeding.Right(ctx, b, p)
}

// remembering has its own cache, which lists once and then relies on the
// events.
func remembering(env *reconciletest.Env) error {
	ctx, client := env.Context(), env.Client()
	var mu sync.Mutex
	known := map[string]*corev1.ConfigMap{}
	env.Cache("configmaps", func() []any {
		mu.Lock()
		defer mu.Unlock()
		var all []any
		for _, p := range known {
			all = append(all, p)
		}
		return all
	})
	for ctx.Err() == nil {
		w, err := client.CoreV1().ConfigMaps("").Watch(ctx, metav1.ListOptions{LabelSelector: "parent"})
		if err != nil {
			pause(ctx)
			continue
		}
		for e := range w.ResultChan() {
			p, ok := e.Object.(*corev1.ConfigMap)
			if !ok {
				continue
			}
			mu.Lock()
			if known[p.Name] = p; e.Type == "DELETED" {
				delete(known, p.Name)
			}
			mu.Unlock()
		}
		w.Stop()
	}
	return nil
}

// vandal modifies objects in a client-go cache.
func vandal(env *reconciletest.Env) error {
	factory := informers.NewSharedInformerFactory(env.Client(), 0)
	store := factory.Core().V1().ConfigMaps().Informer().GetStore()
	env.Cache("configmaps", store.List)
	factory.StartWithContext(env.Context())
	for t := time.NewTicker(time.Second); env.Context().Err() == nil; {
		select {
		case <-env.Context().Done():
		case <-t.C:
			for _, obj := range store.List() {
				if p, ok := obj.(*corev1.ConfigMap); ok && p.Name == "a" {
					p.Data = map[string]string{"y": "1"}
				}
			}
		}
	}
	factory.Shutdown()
	return nil
}

// anything will do: a Goal for programs that write nothing.
func anything(*reconciletest.World) error { return nil }

// Each of these bugs is found with a deviation, and not without it.
func TestEachDeviationFindsItsBug(t *testing.T) {
	run := func(f func(env *reconciletest.Env) error) func(c *reconciletest.Case) {
		return func(c *reconciletest.Case) { c.Run, c.Unwatched = f, []string{"secrets"} }
	}
	for _, b := range []struct {
		name, plan, want string
		change           func(c *reconciletest.Case)
	}{
		{"a cache of the past", "t4.4", "a restart with old caches deletes secrets d/a-child", goneBefore},
		{"a late list", "b1.1", "a restart wrote again: delete secrets d/a-child", func(c *reconciletest.Case) {
			run(unsyncedInformers)(c)
			c.Objects = append(c.Objects, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "a-child"}})
		}},
		{"absence", "o3.1", "+ secrets d/b-child = there", run(onDelete)},
		{"a rival", "f6", "it overwrites the fields that another client has just written in configmaps d/a", run(breeding.Run(whole))},
		{"an edit", "e1", "- secrets d/a-child: data.key = dmFsdWU=", func(c *reconciletest.Case) {
			c.Run = breeding.Run(filled)
		}},
		{"an event that comes twice", "d2.twice", "+ secrets d/change-*2 = there", run(counted)},
		{"an event that is lost", "d4.drop", "stale cache entry d/b", run(remembering)},
		{"sleep", "j3", "- configmaps d/a: data.x = 1", run(ticking(45 * time.Minute))},
		{"a slow call", "c2", "- secrets d/a-child = there", func(c *reconciletest.Case) {
			run(unsyncedInformers)(c)
			c.Objects = append(c.Objects, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "a-child"}})
		}},
	} {
		t.Run(b.name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			c := breeding.Case(breeding.Right)
			b.change(c)
			c.Goal = anything
			o := &reconciletest.Options{KnownFindings: []string{"the program writes nothing"}} // some write only with a fault
			lines, found := reconciletest.TraceOf(t, c, o, b.plan)
			t.Logf("%s\n%s", found, strings.Join(lines, "\n"))
			g.Expect(found).To(gomega.ContainSubstring(b.want))
		})
	}
}

// Findings without any deviation.
func TestOraclesWithoutFaults(t *testing.T) {
	for _, b := range []struct {
		name, oracle, want string
		run                func(env *reconciletest.Env) error
	}{
		{"mutation", "mutation", `the cached ConfigMap "d/a" was modified in place`, breeding.Run(careless)},
		{"mutation of a client-go cache", "mutation", "d/a was modified in place", vandal},
		{"clock", "stay", "has changed within 30m0s", ticking(20 * time.Minute)},
		{"a read without a watch", "watch", "it reads namespaces and does not watch them", breeding.Run(reading)},
		{"no call", "watch", "the program makes no call", func(env *reconciletest.Env) error {
			<-env.Context().Done()
			return nil
		}},
	} {
		t.Run(b.name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			c := breeding.Case(breeding.Right)
			c.Run, c.Goal = b.run, nil
			report := reconciletest.Search(t, c, &reconciletest.Options{Budget: breeding.Budget, Steps: 2000})
			g.Expect(report.Failure).To(gomega.ContainSubstring(b.want))
			g.Expect(report.Oracle).To(gomega.Equal(b.oracle))
		})
	}
}

// byLife is like byName, but reads the object from the server before it deletes
// it.
func byLife(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
	live, err := b.Client.CoreV1().ConfigMaps(p.Namespace).Get(ctx, p.Name, metav1.GetOptions{})
	if err != nil || live.Annotations["going"] == "" {
		return err
	}
	return byName(ctx, b, live)
}

// The controller is not blamed for a change of the desired state while its
// caches are behind.
func TestAnObjectThatTheStaleStateDoesNotWantMayBeDeleted(t *testing.T) {
	g := gomega.NewWithT(t)
	c := breeding.Case(breeding.Right)
	c.Run, c.Goal = breeding.Run(func(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
		if p.Annotations["going"] == "" {
			return breeding.Right(ctx, b, p)
		}
		return byLife(ctx, b, p)
	}), nil
	c.Workload = []reconciletest.Step{
		reconciletest.Patch("configmaps", "d/a", `{"metadata":{"annotations":{"going":"yes"}}}`),
	}
	deleted := 0
	for decision := range 30 {
		lines, found := reconciletest.TraceOf(t, c, nil, fmt.Sprintf("t1.1+w%d", decision+1))
		g.Expect(found).NotTo(gomega.ContainSubstring("deletes secrets"), strings.Join(lines, "\n"))
		deleted += strings.Count(strings.Join(lines, "\n"), "delete secrets")
	}
	g.Expect(deleted).To(gomega.BeNumerically(">", 0))
}

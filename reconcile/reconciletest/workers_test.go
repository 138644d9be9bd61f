package reconciletest_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/test/breeding"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// A crowd is a case with more parents than workers. All parents change at once
// when the program boots, and each change triggers a key from three sides: the
// parents, their children, and Services with their names. Each reconcile makes
// a call, so that the number of reconciles is visible.
func crowd(t func() breeding.Breed) *reconciletest.Case {
	c := &reconciletest.Case{Run: func(env *reconciletest.Env) error { return crowded(env, t()) }}
	for i := range 6 {
		p := breeding.Parent(fmt.Sprint("p", i))
		p.UID = types.UID(fmt.Sprint("uid-", i))
		c.Objects = append(c.Objects, p, breeding.Child(p),
			&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: p.Name}})
	}
	c.Workload = []reconciletest.Step{
		reconciletest.Patch("services", "d/p1", `{"metadata":{"labels":{"x":"1"}}}`),
		reconciletest.Patch("configmaps", "d/p2", `{"data":{"x":"1"}}`),
	}
	return c
}

// seen is correct. It reads the parent first.
func seen(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
	if _, err := b.Client.CoreV1().ConfigMaps(p.Namespace).Get(ctx, p.Name, metav1.GetOptions{}); err != nil {
		return err
	}
	return breeding.Right(ctx, b, p)
}

// shy is seen, but the first reconcile of each parent fails.
func shy() breeding.Breed {
	var failed sync.Map
	return func(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
		if _, again := failed.LoadOrStore(p.Name, true); !again {
			return errors.New("not the first time")
		}
		return seen(ctx, b, p)
	}
}

func crowded(env *reconciletest.Env, t breeding.Breed) error {
	client := env.Client()
	parents := informer.For(client.CoreV1().ConfigMaps(""), &informer.Options{LabelSelector: "parent"})
	b := &breeding.Breeder{Client: client, Children: informer.For(client.CoreV1().Secrets(""), nil), Breed: t}
	services := informer.For(client.CoreV1().Services(""), nil)
	named := func(_ context.Context, old, s *corev1.Service) ([]reconcile.Key, error) {
		if s == nil {
			s = old
		}
		return []reconcile.Key{{Namespace: s.Namespace, Name: s.Name}}, nil
	}
	c, err := reconcile.New("crowd", parents, b, &reconcile.Options{
		Workers:  4,
		Triggers: []reconcile.Trigger{reconcile.Mapped(services, named), reconcile.Owned(b.Children)},
	})
	if err != nil {
		return err
	}
	return c.Run(env.Context())
}

// Several workers and mappers always take the same path. The log contains the
// lines that a second process compares.
func TestWorkersAreDeterministic(t *testing.T) {
	g := gomega.NewWithT(t)
	c := crowd(func() breeding.Breed { return seen })
	plain := reconciletest.Repeat(t, c, 20)
	g.Expect(plain).To(gomega.HaveEach(plain[0]))
	sum := fnv.New32a()
	for seed, hashes := range reconciletest.SeedHashes(t, c, *workerSeeds, 2) {
		g.Expect(hashes).To(gomega.HaveEach(hashes[0]), "seed %d", seed)
		_, _ = sum.Write([]byte(hashes[0]))
	}
	t.Logf("traces: %s, and of the seeds: %08x", plain[0], sum.Sum32())
}

var workerSeeds = flag.Int("workerseeds", 20, "how many seeds TestWorkersAreDeterministic plays")

// Keys that back off together come back in the same order each time.
func TestBackOffIsDeterministic(t *testing.T) {
	all := reconciletest.Repeat(t, crowd(shy), 5)
	gomega.NewWithT(t).Expect(all).To(gomega.HaveEach(all[0]))
}

// Events from three sources at once cause one reconcile.
func TestMappersRunBeforeAReconcileBegins(t *testing.T) {
	g := gomega.NewWithT(t)
	c := crowd(func() breeding.Breed { return seen })
	for _, o := range c.Objects {
		if p, ok := o.(*corev1.ConfigMap); ok {
			metav1.SetMetaDataAnnotation(&p.ObjectMeta, "ready", "yes")
		}
	}
	c.Goal = anything
	o := &reconciletest.Options{KnownFindings: []string{"the Goal holds without the program"}}
	lines, found := reconciletest.TraceOf(t, c, o, "")
	g.Expect(found).To(gomega.BeEmpty())
	boot, _, _ := strings.Cut(strings.Join(lines, "\n"), "others ")
	g.Expect(strings.Count(boot, "get configmaps")).To(gomega.Equal(6), boot)
}

// If a run ends early, it also ends workers that wait for keys.
func TestWorkersThatWaitCanBeStopped(t *testing.T) {
	g := gomega.NewWithT(t)
	c := crowd(func() breeding.Breed { return seen })
	c.Always = func(w *reconciletest.World) error {
		all, err := reconciletest.List[corev1.ConfigMap](w, "configmaps")
		g.Expect(err).NotTo(gomega.HaveOccurred())
		if slices.ContainsFunc(all, func(p corev1.ConfigMap) bool { return p.Annotations["ready"] != "" }) {
			return errors.New("that will do")
		}
		return nil
	}
	g.Expect(reconciletest.Search(t, c, nil).Oracle).To(gomega.Equal("always"))
}

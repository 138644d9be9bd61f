package reconciletest_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/test/breeding"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// onceReady does not reconcile a parent again once it is ready.
func onceReady(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
	if p.Annotations["ready"] != "" {
		return nil
	}
	return breeding.Right(ctx, b, p)
}

// anyName gives the child a different name each time, and trusts the cache to
// show an existing one.
func anyName(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
	if len(b.ChildrenOf(p)) == 0 {
		s := breeding.Child(p)
		s.Name, s.GenerateName = "", p.Name+"-"
		if err := b.Create(ctx, s); err != nil {
			return err
		}
	}
	return b.Ready(ctx, p)
}

// swallow treats every error as a success.
func swallow(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
	_ = breeding.Right(ctx, b, p)
	return nil
}

// counting writes in each reconcile.
func counting(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
	n, _ := strconv.Atoi(p.Annotations["turns"])
	return b.Annotate(ctx, p, "turns", strconv.Itoa(n+1))
}

// firstLook writes in the first reconcile after each start.
func firstLook() breeding.Breed {
	var seen sync.Map
	return func(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
		if _, known := seen.LoadOrStore(p.UID, true); !known {
			return b.Annotate(ctx, p, "started", strconv.FormatInt(time.Now().UnixNano(), 10))
		}
		return nil
	}
}

// bootEach makes a fresh breeding for each boot.
func bootEach(t func() breeding.Breed) func(env *reconciletest.Env) error {
	return func(env *reconciletest.Env) error { return breeding.Run(t())(env) }
}

// noTrigger gets no events of its children.
func noTrigger(env *reconciletest.Env) error {
	client := env.Client()
	parents := informer.For(client.CoreV1().ConfigMaps(""), &informer.Options{LabelSelector: "parent"})
	do := reconcile.Func[*corev1.ConfigMap](func(ctx context.Context,
		r reconcile.Request[*corev1.ConfigMap],
	) (reconcile.Result, error) {
		p, ok := r.Object()
		if !ok || p.DeletionTimestamp != nil {
			return reconcile.Result{}, nil
		}
		_, err := client.CoreV1().Secrets(p.Namespace).Create(ctx, breeding.Child(p), metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			err = nil
		}
		return reconcile.Result{}, err
	})
	return reconcile.Run(env.Context(), "no-trigger", parents, do)
}

// onDelete removes the child when it sees the parent's event, and knows nothing
// of owners.
func onDelete(env *reconciletest.Env) error {
	ctx, client := env.Context(), env.Client()
	for ctx.Err() == nil {
		list, err := client.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{LabelSelector: "parent"})
		if err != nil {
			pause(ctx)
			continue
		}
		for _, p := range list.Items {
			onEvent(ctx, env, watch.Modified, &p)
		}
		w, err := client.CoreV1().ConfigMaps("").Watch(ctx, metav1.ListOptions{
			LabelSelector:   "parent",
			ResourceVersion: list.ResourceVersion,
		})
		if err != nil {
			pause(ctx)
			continue
		}
		for e := range w.ResultChan() {
			if p, ok := e.Object.(*corev1.ConfigMap); ok {
				onEvent(ctx, env, e.Type, p)
			}
		}
		w.Stop()
	}
	return nil
}

func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(time.Second):
	}
}

func onEvent(ctx context.Context, env *reconciletest.Env, kind watch.EventType, p *corev1.ConfigMap) {
	secrets := env.Client().CoreV1().Secrets(p.Namespace)
	for range 5 {
		var err error
		if kind == watch.Deleted {
			err = secrets.Delete(ctx, p.Name+"-child", metav1.DeleteOptions{})
		} else {
			s := breeding.Child(p)
			s.OwnerReferences = nil
			_, err = secrets.Create(ctx, s, metav1.CreateOptions{})
		}
		if err == nil || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
			return
		}
		pause(ctx)
	}
}

// leaving starts a goroutine that still runs after Run has returned.
func leaving(env *reconciletest.Env) error {
	go func() { select {} }()
	<-env.Context().Done()
	return nil
}

// giveUp returns from Run when a call fails.
func giveUp(env *reconciletest.Env) error {
	_, err := env.Client().CoreV1().ConfigMaps("d").Get(env.Context(), "none", metav1.GetOptions{})
	return fmt.Errorf("giving up: %w", err)
}

type bug struct {
	name   string
	change func(c *reconciletest.Case)
	want   []string // in the failure, in this order of importance
}

func bugs() []bug {
	run := func(f func(env *reconciletest.Env) error) func(c *reconciletest.Case) {
		return func(c *reconciletest.Case) { c.Run = f; c.Goal = nil }
	}
	return []bug{
		{"ready before the work", run(breeding.Run(breeding.Premature)), []string{
			"the reply is lost of call 6",
			"the state differs from the run without faults, at the end", "- secrets d/a-child = there",
			"without: \"create ConfigMap d/b\", ", ">   2 call      patch configmaps d/a   (breeding.go:",
		}},
		{"never looks again", run(breeding.Run(onceReady)), []string{
			"another client deletes output",
			"- secrets d/a-child = there", "hint: nothing restores",
		}},
		{"generated name", run(breeding.Run(anyName)), []string{"secrets d/a-*"}},
		{"swallowed error", run(breeding.Run(swallow)), []string{"<<< ", "-child = there"}},
		{"hot loop", run(breeding.Run(counting)), []string{
			"without any fault: it never comes to rest",
			"compare before you write",
		}},
		{"writes at start", run(bootEach(firstLook)), []string{"a restart wrote again: patch configmaps d/a"}},
		{"no trigger", run(noTrigger), []string{"writes secrets and does not watch them"}},
		{"edge-triggered delete", func(c *reconciletest.Case) {
			c.Run, c.Goal, c.Unwatched = onDelete, nil, []string{"secrets"}
		}, []string{"+ secrets d/b-child = there"}},
		{"goroutine left", run(leaving), []string{"goroutines that it started are still there"}},
		{"gives up", run(giveUp), []string{"Run returned although its context had not ended: giving up"}},
		{"invariant", func(c *reconciletest.Case) {
			c.Always = func(w *reconciletest.World) error {
				secrets, err := w.Objects("secrets")
				if err == nil && len(secrets) > 1 {
					err = errors.New("two children at once")
				}
				return err
			}
		}, []string{"after added secrets d/b-child: two children at once"}},
		{"goal", func(c *reconciletest.Case) {
			c.Goal = func(*reconciletest.World) error { return errors.New("not this") }
		}, []string{"without any fault: not this"}},
		{"workload", func(c *reconciletest.Case) {
			c.Workload = append(c.Workload, reconciletest.Delete("secrets", "d/none"))
		}, []string{`step "delete secrets d/none" of the workload`}},
	}
}

func TestExploreFindsBugs(t *testing.T) {
	for _, b := range bugs() {
		t.Run(b.name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			c := breeding.Case(breeding.Right)
			b.change(c)
			report := reconciletest.Search(t, c, &reconciletest.Options{Budget: breeding.Budget, Steps: 2000})
			t.Logf("%d runs\n%s", report.Runs, report.Failure)
			for _, w := range b.want {
				g.Expect(report.Failure).To(gomega.ContainSubstring(w))
			}
		})
	}
}

// A token plays the same counter-example again, and says so when the program
// has changed since.
func TestReplay(t *testing.T) {
	g := gomega.NewWithT(t)
	c := breeding.Case(breeding.Premature)
	report := reconciletest.Search(t, c, &reconciletest.Options{Budget: breeding.Budget})
	g.Expect(report.Token).To(gomega.HavePrefix("rt1:"))
	for range 5 {
		g.Expect(reconciletest.ReplayText(t, c, nil, report.Token)).To(gomega.Equal(report.Failure))
	}
	g.Expect(reconciletest.ReplayText(t, breeding.Case(breeding.Right), nil,
		report.Token)).To(gomega.ContainSubstring("no longer applies"))
}

// repeats is how often each seed is played; 1000 by hand: go test -run
// TestSeedsAreDeterministic -repeats 1000.
var repeats = flag.Int("repeats", 2, "how often TestSeedsAreDeterministic plays each seed")

// A seed gives the same trace each time, and a different one gives a different
// trace.
func TestSeedsAreDeterministic(t *testing.T) {
	g := gomega.NewWithT(t)
	c := breeding.Case(breeding.Right)
	c.Workload, c.Goal = c.Workload[1:2], nil
	times := *repeats
	if testing.Short() {
		times = 2
	}
	different := map[string]bool{}
	all := fnv.New64a()
	for seed, hashes := range reconciletest.SeedHashes(t, c, 100, times) {
		g.Expect(hashes).To(gomega.HaveEach(hashes[0]), "seed %d", seed)
		different[hashes[0]] = true
		_, _ = all.Write([]byte(hashes[0]))
	}
	t.Logf("traces of all seeds: %x, the same in every process", all.Sum64())
	g.Expect(len(different)).To(gomega.BeNumerically(">", 50))
}

// Every run with every deviation takes the same path when it is repeated,
// including informers, queue, workers and back-off.
func TestRunsAreDeterministic(t *testing.T) {
	g := gomega.NewWithT(t)
	c := breeding.Case(breeding.Right)
	c.Workload, c.Goal = c.Workload[1:2], nil
	first := reconciletest.Hashes(t, c)
	g.Expect(len(first)).To(gomega.BeNumerically(">", 40))
	g.Expect(reconciletest.Hashes(t, c)).To(gomega.Equal(first))
}

package reconciletest_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/test/breeding"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/report"
)

// astray gives the child the UID of its namespace in place of its parent's.
func astray(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
	ns, err := b.Client.CoreV1().Namespaces().Get(ctx, p.Namespace, metav1.GetOptions{})
	if err != nil {
		return err
	}
	s := breeding.Child(p)
	s.OwnerReferences[0].UID = ns.UID
	return b.Create(ctx, s)
}

// bootOnce makes a Secret for each boot.
func bootOnce(env *reconciletest.Env) error {
	_, _ = env.Client().CoreV1().Secrets("d").Create(env.Context(),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: "boot-"}}, metav1.CreateOptions{})
	return breeding.Run(breeding.Right)(env)
}

// unfinished notes each look at a parent that has no data yet.
func unfinished() breeding.Breed {
	seen := map[types.UID]bool{}
	return func(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
		if seen[p.UID] || len(p.Data) > 0 {
			return nil
		}
		seen[p.UID] = true
		return b.Annotate(ctx, p, "looked", strconv.FormatInt(time.Now().UnixNano(), 10))
	}
}

// seeing breeds for parents, and sees the children that a selector of labels
// has.
func seeing(selector string, owned bool) func(env *reconciletest.Env) error {
	return func(env *reconciletest.Env) error {
		client := env.Client()
		b := &breeding.Breeder{Client: client, Children: informer.For(client.CoreV1().Secrets(""), &informer.Options{
			LabelSelector: selector,
		}), Breed: func(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
			s := breeding.Child(p)
			if !owned {
				s.OwnerReferences = nil
			}
			return b.Create(ctx, s)
		}}
		c, err := reconcile.New("breeder", breeding.Parents(client), b,
			&reconcile.Options{Triggers: []reconcile.Trigger{reconcile.Owned(b.Children)}})
		if err != nil {
			return err
		}
		return c.Run(env.Context())
	}
}

// copier copies the data of the ConfigMap source into each parent's child. The
// buggy one does not hear of its changes.
func copier(wakes bool) func(env *reconciletest.Env) error {
	return func(env *reconciletest.Env) error { return copies(env, wakes, 0) }
}

// copies is a copier that looks again after a while, unless that is zero.
func copies(env *reconciletest.Env, wakes bool, again time.Duration) error {
	client := env.Client()
	sources := informer.For(client.CoreV1().ConfigMaps(""), &informer.Options{LabelSelector: "source"})
	parents := informer.For(client.CoreV1().ConfigMaps("d"), &informer.Options{LabelSelector: "parent"})
	b := &breeding.Breeder{Client: client}
	one := func(ctx context.Context, r reconcile.Request[*corev1.ConfigMap]) (reconcile.Result, error) {
		p, ok := r.Object()
		if !ok {
			return reconcile.Result{}, nil
		}
		x := "nothing"
		if from, ok := sources.Get(types.NamespacedName{Namespace: "d", Name: "source"}); ok {
			x = from.Data["x"]
		}
		if err := b.Annotate(ctx, p, "x", x); err != nil || again == 0 {
			return reconcile.Result{}, err
		}
		return reconcile.After(again), nil
	}
	all := func(context.Context, *corev1.ConfigMap, *corev1.ConfigMap) (keys []reconcile.Key, _ error) {
		for p := range parents.Snapshot().All() {
			if wakes {
				keys = append(keys, reconcile.Key{Namespace: p.Namespace, Name: p.Name})
			}
		}
		return keys, nil
	}
	c, err := reconcile.New("copier", parents, reconcile.Func[*corev1.ConfigMap](one),
		&reconcile.Options{Triggers: []reconcile.Trigger{reconcile.Mapped(sources, all)}})
	if err != nil {
		return err
	}
	return c.Run(env.Context())
}

// source is a ConfigMap that others refer to.
func source() *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "source", Labels: map[string]string{"source": "yes"}},
		Data:       map[string]string{"x": "1"},
	}
}

// referring is the case of a copier whose source changes just before the parent
// does.
func referring(wakes bool) *reconciletest.Case {
	return &reconciletest.Case{
		Objects: []runtime.Object{breeding.Parent("a"), source()}, Run: copier(wakes),
		Workload: []reconciletest.Step{inOneStep(
			reconciletest.Patch("configmaps", "d/source", `{"data":{"x":"2"}}`),
			reconciletest.Patch("configmaps", "d/a", `{"data":{"y":"1"}}`),
		)},
	}
}

// behind notes the data that it has read first, and never again.
func behind(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
	if p.Annotations["first"] != "" {
		return nil
	}
	return b.Annotate(ctx, p, "first", "it is "+p.Data["x"])
}

// hurried gives each reconcile ten seconds, and takes every error for a
// success.
func hurried(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return swallow(ctx, b, p)
}

// orphaning makes children without an owner.
func orphaning(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
	s := breeding.Child(p)
	s.OwnerReferences = nil
	return b.Create(ctx, s)
}

// looping answers each event with a write, whoever has written.
func looping(env *reconciletest.Env) error {
	return following(env, func(n int) { _ = tally(env, n) }, "")
}

// tallying counts the changes of parents in an object.
func tallying(env *reconciletest.Env) error {
	return following(env, func(n int) {
		for env.Context().Err() == nil && tally(env, n) != nil {
			pause(env.Context())
		}
	}, "parent")
}

// following calls f for each update of a ConfigMap with a label, with their
// number.
func following(env *reconciletest.Env, f func(n int), selector string) error {
	ctx := env.Context()
	factory := informers.NewSharedInformerFactoryWithOptions(env.Client(), 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = selector }))
	n := 0
	_, err := factory.Core().V1().ConfigMaps().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(any, any) { n++; f(n) },
	})
	if err != nil {
		return err
	}
	factory.StartWithContext(ctx)
	<-ctx.Done()
	factory.Shutdown()
	return nil
}

func tally(env *reconciletest.Env, n int) error {
	_, err := env.Client().CoreV1().ConfigMaps("d").Patch(env.Context(), "tally", types.MergePatchType,
		fmt.Appendf(nil, `{"data":{"n":"%d"}}`, n), metav1.PatchOptions{})
	return err
}

// onceAtBoot marks a parent as done at the start of the program, by an update,
// and then makes its child.
func onceAtBoot(env *reconciletest.Env) error {
	ctx, client := env.Context(), env.Client()
	for ctx.Err() == nil {
		p, err := client.CoreV1().ConfigMaps("d").Get(ctx, "a", metav1.GetOptions{})
		if err != nil {
			pause(ctx)
			continue
		}
		if p.Annotations["ready"] == "" {
			metav1.SetMetaDataAnnotation(&p.ObjectMeta, "ready", "yes")
			_, _ = client.CoreV1().ConfigMaps("d").Update(ctx, p, metav1.UpdateOptions{})
			_, _ = client.CoreV1().Secrets("d").Create(ctx, breeding.Child(p), metav1.CreateOptions{})
		}
		break
	}
	<-ctx.Done()
	return nil
}

// granting is a case whose roles grant nothing but reads.
func granting(t *testing.T, c *reconciletest.Case) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rbac.yaml")
	rules := `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: r}, rules: [` +
		`{apiGroups: [""], resources: [configmaps, secrets], verbs: [list, watch]}]}`
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Roles = []string{file}
}

// For each reason there is a program with exactly that fault. The reasons for
// managers of controller-runtime, real clusters and leaders have tests in other
// packages.
func TestEachReasonHasItsProgram(t *testing.T) {
	exhaustive(t)
	breed := func(b breeding.Breed) func(t *testing.T, c *reconciletest.Case) {
		return func(_ *testing.T, c *reconciletest.Case) { c.Run, c.Goal = breeding.Run(b), nil }
	}
	run := func(f func(env *reconciletest.Env) error) func(t *testing.T, c *reconciletest.Case) {
		return func(_ *testing.T, c *reconciletest.Case) { c.Run, c.Goal, c.Unwatched = f, nil, []string{"secrets"} }
	}
	a := func(f func(env *reconciletest.Env) error) func(t *testing.T, c *reconciletest.Case) {
		return func(_ *testing.T, c *reconciletest.Case) { c.Run, c.Goal, c.Workload = f, nil, c.Workload[1:2] }
	}
	orphans := func(f func(env *reconciletest.Env) error) func(t *testing.T, c *reconciletest.Case) {
		return func(t *testing.T, c *reconciletest.Case) {
			run(f)(t, c)
			c.Objects = append(c.Objects, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "a-child"}})
		}
	}
	counts := func(f func(env *reconciletest.Env) error) func(t *testing.T, c *reconciletest.Case) {
		return func(t *testing.T, c *reconciletest.Case) {
			run(f)(t, c)
			c.Objects = append(c.Objects, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "tally"}})
		}
	}
	boots := func(f func(env *reconciletest.Env) error) func(t *testing.T, c *reconciletest.Case) {
		return func(_ *testing.T, c *reconciletest.Case) {
			c.Run, c.Goal, c.Workload, c.Unwatched = f, nil, nil, []string{"secrets", "configmaps"}
		}
	}
	tested := []report.Reason{report.NeverSynced, report.NoControllers, report.NotLeader}
	for _, row := range []struct {
		reason, match string // of the plans
		change        func(t *testing.T, c *reconciletest.Case)
	}{
		{"no-calls", "", run(func(env *reconciletest.Env) error { <-env.Context().Done(); return nil })},
		{"unwatched", "", func(_ *testing.T, c *reconciletest.Case) { c.Run, c.Goal = noTrigger, nil }},
		{"unnamed", "", func(_ *testing.T, c *reconciletest.Case) { *c = *chained(&chain{hidden: true}) }},
		{"idle", "", breed(nothing)},
		{"only-fails", "", breed(failing)},
		{"refused", "", breed(retyping)},
		{"event-refused", "", breed(telling(strings.Repeat("x", 1025), "Bred"))},
		{"not-synced", "", boots(unsyncing)},
		{"step-fails", "", func(_ *testing.T, c *reconciletest.Case) {
			c.Workload = []reconciletest.Step{reconciletest.Delete("secrets", "d/none")}
		}},
		{"ended-early", "", run(giveUp)},
		{"left-behind", "", run(leaving)},
		{"ended-late", "", run(drains(47 * time.Second))},
		{"wakes-itself", "", counts(looping)},
		{"seldom", "", run(ticking(30 * time.Second))},
		{"by-clock", "", run(ticking(20 * time.Minute))},
		{"collected", "", func(t *testing.T, c *reconciletest.Case) {
			breed(astray)(t, c)
			c.Unwatched = append(c.Unwatched, "namespaces")
		}},
		{"stray-owner", "", breed(stray)},
		{"overdue", "", a(bootEach(firstLook))},
		{"writes-again", "^t1.0", a(bootEach(unfinished))},
		{"forgotten", "", run(bootOnce)},
		{"impatient", "429", breed(hasty(false))},
		{"overwrites", "^f", breed(whole)},
		{"wrong-object", "^t4", func(_ *testing.T, c *reconciletest.Case) { goneBefore(c) }},
		{"not-granted", "", granting},
		{"modified", "", breed(careless)},
		{"missed-deletion", "drop", run(remembering)},
		{"stale-cache", "^d[0-9]+$", breed(named(byUID, false))},
		{"failed-read", "500|410", a(breeding.Run(sweeping(false)))},
		{"second-name", "lost", breed(anyName)},
		{"lost-event", "twice", counts(tallying)},
		{"late-event-ignored", `^d\d+$`, func(_ *testing.T, c *reconciletest.Case) { *c = *referring(false) }},
		{"change-ignored", "^i", func(_ *testing.T, c *reconciletest.Case) { *c = *looking(copier(false)) }},
		{"not-restored", "^x", breed(onceReady)},
		{"not-corrected", "^e", breed(filled)},
		{"not-seen", "^x", a(seeing("none", true))},
		{"not-mapped", "^x", a(seeing("", false))},
		{"not-owned", "^x", a(handling(false))},
		{"outside-failed", "^w", func(_ *testing.T, c *reconciletest.Case) { failingOutside(c) }},
		{"one-stops-all", "^q", func(_ *testing.T, c *reconciletest.Case) {
			c.Run, c.Goal, c.Workload = breeding.Run(together(false)), nil, nil
			c.Objects = []runtime.Object{elsewhere("x", "one"), elsewhere("y", "three")}
		}},
		{"mixed-versions", "^v", func(_ *testing.T, c *reconciletest.Case) { *c = *rollout(false) }},
		{"too-early", "500", a(leisurely)},
		{"only-logged", "500", func(_ *testing.T, c *reconciletest.Case) {
			c.Run, c.Goal, c.Workload = breeding.Run(logging), nil, nil
		}},
		{"hangs", "^p", breed(hurried)},
		{"gives-up", "^u", run(bootEach(givingUp))},
		{"changed-meanwhile", "^w", a(breeding.Run(behind))},
		{"unsynced", "^b", orphans(unsyncedInformers)},
		{"missed-while-down", "^o", run(onDelete)},
		{"stopped", "^g", boots(onceAtBoot)},
		{"conflict", "^f", boots(onceAtBoot)},
		{"too-soon", "^a", func(_ *testing.T, c *reconciletest.Case) { *c = *serving(patient); c.Always = saysTrue }},
		{"mutated", "^M", func(_ *testing.T, c *reconciletest.Case) {
			c.Run, c.Goal, c.Workload = breeding.Run(exact(false)), nil, nil
		}},
		{"restored", "^E", func(_ *testing.T, c *reconciletest.Case) { *c = *recording(true) }},
		{"reborn", "^R", func(_ *testing.T, c *reconciletest.Case) { *c = *rememberingWidgets(false) }},
		{"clocks", "^D", func(_ *testing.T, c *reconciletest.Case) { *c = *punctual(30 * time.Second) }},
		{"slept", "^j", run(ticking(45 * time.Minute))},
		{"order", "^s", orphans(unsyncedInformers)},
		{"past-cache", `^t\d+\.[1-9]`, func(_ *testing.T, c *reconciletest.Case) {
			c.Run, c.Goal = breeding.Run(orphaning), nil
			c.Workload = []reconciletest.Step{c.Workload[0], c.Workload[2], reconciletest.Delete("secrets", "d/b-child")}
		}},
		{"slow-call", "^c[0-9]+$", orphans(unsyncedInformers)},
		{"unknown-reply", "lost", breed(breeding.Premature)},
		{"half-done", "after|before", breed(breeding.Premature)},
		{"not-retried", "500", breed(swallow)},
		{"stops-kind", "^B", func(_ *testing.T, c *reconciletest.Case) {
			*c = *ofWidgets(cached(true))
			c.Unwatched = []string{"secrets"}
		}},
		{"misled", "proxy", func(_ *testing.T, c *reconciletest.Case) { *c = *deleting(apierrors.IsNotFound) }},
	} {
		tested = append(tested, report.Reason(row.reason))
		t.Run(row.reason, func(t *testing.T) {
			c := breeding.Case(breeding.Right)
			row.change(t, c)
			o := &reconciletest.Options{Steps: 2000, Budget: breeding.Budget}
			if row.match != "" {
				o.KnownFindings = []string{"the program writes nothing"}
			}
			reasons := reconciletest.Reasons(t, c, o, row.match, row.reason)
			gomega.NewWithT(t).Expect(reasons).To(gomega.ContainElement(row.reason))
		})
	}
	gomega.NewWithT(t).Expect(tested).To(gomega.ConsistOf(report.AllReasons()))
}

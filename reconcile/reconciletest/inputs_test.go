package reconciletest_test

import (
	"context"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/homeostat/homeostat/internal/test/breeding"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// looking is the case of a copier whose source is not changed.
func looking(run func(env *reconciletest.Env) error) *reconciletest.Case {
	return &reconciletest.Case{Objects: []runtime.Object{breeding.Parent("a"), source()}, Run: run}
}

// polling copies like the buggy copier, and looks again by itself.
func polling(every time.Duration) func(env *reconciletest.Env) error {
	return func(env *reconciletest.Env) error { return copies(env, false, every) }
}

// moody annotates, at each boot, each parent whose x is not "1".
func moody(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
	if p.Data["x"] == "1" {
		return breeding.Right(ctx, b, p)
	}
	return b.Annotate(ctx, p, "disliked", time.Now().String())
}

func TestWhatAReconcileLooksUpWakesIt(t *testing.T) {
	exhaustive(t)
	parent := breeding.Parent("a")
	parent.Data = map[string]string{"x": "1"}
	for name, row := range map[string]struct {
		c    *reconciletest.Case
		want string // in the failure
	}{
		"a trigger leads back": {looking(copier(true)), ""},
		"no trigger leads back": {
			looking(copier(false)), "and an hour later nothing had followed; a restart then wrote: patch configmaps d/a",
		},
		"it looks again each minute":     {looking(polling(time.Minute)), ""},
		"it looks again twice an hour":   {looking(polling(25 * time.Minute)), ""},
		"it looks again after two hours": {looking(polling(2 * time.Hour)), "d/source"},
		"each restart writes": {&reconciletest.Case{
			Objects: []runtime.Object{parent}, Run: bootEach(onceEachBoot(moody)),
		}, ""},
		"it is named": {func() *reconciletest.Case {
			c := looking(copier(false))
			c.Unwatched = []string{"configmaps"}
			return c
		}(), ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			r := reconciletest.Search(t, row.c, &reconciletest.Options{Seeds: 1, SkipDrift: true, Budget: breeding.Budget})
			if row.want == "" {
				g.Expect(r.Failure).To(gomega.BeEmpty())
				return
			}
			t.Log(r.Failure)
			g.Expect(r.Failure).To(gomega.ContainSubstring(row.want))
			g.Expect(r.Failure).To(gomega.ContainSubstring("configmaps d/source"))
			g.Expect([]string{r.Oracle, r.Reason}).To(gomega.Equal([]string{"tail", "change-ignored"}))
			for range 2 {
				g.Expect(reconciletest.ReplayText(t, row.c, nil, r.Token)).To(gomega.Equal(r.Failure))
			}
		})
	}
}

// onceEachBoot works on each object once, and then leaves it alone until the
// next boot or a change of its data.
func onceEachBoot(breed breeding.Breed) func() breeding.Breed {
	return func() breeding.Breed {
		seen := map[string]bool{}
		return func(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
			what := string(p.UID) + p.Data["x"]
			if seen[what] {
				return nil
			}
			err := breed(ctx, b, p)
			seen[what] = err == nil
			return err
		}
	}
}

// The changes are of every kind that a user makes.
func TestInputsAreChangedAsUsersDo(t *testing.T) {
	g := gomega.NewWithT(t)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "other", Labels: map[string]string{"of": "somebody"}},
		Data:       map[string][]byte{"key": []byte("value")},
	}
	c := &reconciletest.Case{Objects: []runtime.Object{breeding.Parent("a"), secret}, Run: breeding.Run(breeding.Right)}
	changes := map[string]string{}
	for _, p := range []string{"i1.1", "r1", "i2.1", "i2.2", "r2"} {
		lines, found := reconciletest.TraceOf(t, c, nil, p)
		g.Expect(found).To(gomega.BeEmpty())
		for _, l := range lines {
			if len(l) > 10 && l[:6] == "others" {
				changes[l[10:]] = p
			}
		}
	}
	g.Expect(changes).To(gomega.HaveLen(7))
	for change, plan := range map[string]string{
		`patch configmaps d/a {"metadata":{"labels":{"parent":"yes-edited"}}}`: "i1.1",
		"delete configmaps d/a": "r1", "create ConfigMap d/a": "r1",
		`patch secrets d/other {"data":{"key":"ZWRpdGVk"}}`:                      "i2.1",
		`patch secrets d/other {"metadata":{"labels":{"of":"somebody-edited"}}}`: "i2.2",

		"delete secrets d/other": "r2",
		"create Secret d/other":  "r2",
	} {
		g.Expect(changes).To(gomega.HaveKeyWithValue(change, plan))
	}
}

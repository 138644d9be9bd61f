package live_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/internal/test/breeding"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
	"github.com/homeostat/homeostat/reconcile/reconciletest/live"
)

// playedOn is a smoke test on a server whose state the test inspects.
func playedOn(t *testing.T, w func() *fixture, c *reconciletest.Case, o *live.Options) (r *reconciletest.Report, err error) {
	t.Helper()
	virtually(t, func(t *testing.T) { r, err = live.Try(t, c, w().collect(t).config(), o) })
	return r, err
}

func load(t *testing.T, w *fixture, objects ...runtime.Object) {
	t.Helper()
	if err := w.sim.Load(objects...); err != nil {
		t.Fatal(err)
	}
}

func TestSmokeRefusesWhatIsThereAlready(t *testing.T) {
	g := gomega.NewWithT(t)
	var w *fixture
	_, err := playedOn(t, func() *fixture {
		w = newFixture(t)
		load(t, w, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "d"}}, breeding.Parent("a"))
		return w
	}, breeding.Case(breeding.Right), nil)
	g.Expect(err).To(gomega.MatchError("ConfigMap d/a, which is Case.Objects[0], already exists: " +
		"delete it if an earlier test has left it behind, or use a cluster that is only for tests"))
	g.Expect(w.objects("secrets")).To(gomega.BeEmpty())
	g.Expect(w.objects("configmaps")).To(gomega.ContainElement("a"))
}

// Neither Goal nor Always sees objects that the cluster had before, or creates
// in every namespace; and they stay unchanged.
func TestSmokeHidesAndKeepsWhatIsNotOfTheCase(t *testing.T) {
	g := gomega.NewWithT(t)
	var w *fixture
	c := breeding.Case(breeding.Right)
	only := func(resource string, want int) func(w *reconciletest.World) error {
		return func(w *reconciletest.World) error {
			all, err := w.Objects(resource)
			if err == nil && len(all) > want {
				err = fmt.Errorf("there are %d %s, want at most %d", len(all), resource, want)
			}
			return err
		}
	}
	c.Always = only("secrets", 2)
	c.Goal = func(w *reconciletest.World) error {
		return errors.Join(only("configmaps", 1)(w), only("serviceaccounts", 0)(w))
	}
	c.Objects = append(c.Objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "default", Labels: map[string]string{"team": "one"},
	}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "new"}})
	c.Workload = append(c.Workload, reconciletest.Patch("configmaps", "default/theirs", `{"data":{"size":"2"}}`))
	r, err := playedOn(t, func() *fixture {
		w = newFixture(t)
		load(t, w, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "d"}})
		for i := range 3 {
			load(t, w, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: fmt.Sprint("theirs", i)}})
		}
		load(t, w, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "theirs"}, Data: map[string]string{"size": "1"},
		})
		return w
	}, c, nil)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(r.Failure).To(gomega.BeEmpty())
	g.Expect(w.objects("secrets")).To(gomega.ConsistOf("theirs0", "theirs1", "theirs2"))
	g.Expect(w.objects("namespaces")).To(gomega.ContainElement("d"), "the case has not made it")
	for _, o := range w.sim.Objects(corev1.SchemeGroupVersion.WithResource("namespaces")) {
		g.Expect(o.GetLabels()).NotTo(gomega.HaveKey("team"))
	}
	for _, o := range w.sim.Objects(corev1.SchemeGroupVersion.WithResource("configmaps")) {
		if o.GetName() == "theirs" {
			g.Expect(o.Object["data"]).To(gomega.Equal(map[string]any{"size": "1"}))
		}
	}
}

// A finalizer of a program that does not run keeps nothing.
func TestSmokeCleansUpFinalizersAndFailures(t *testing.T) {
	g := gomega.NewWithT(t)
	var w *fixture
	c := breeding.Case(nil)
	c.Run = breeding.Run(func(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
		held := breeding.Child(p)
		held.OwnerReferences, held.Finalizers = nil, []string{"example.com/wait"}
		return b.Create(ctx, held)
	})
	r, err := playedOn(t, func() *fixture { w = newFixture(t); return w }, c, nil)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(r.Oracle).To(gomega.Equal("goal"))
	g.Expect(w.objects("secrets")).To(gomega.BeEmpty())
	g.Expect(w.objects("namespaces")).To(gomega.HaveLen(4))
}

func widget(uid string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget",
		"metadata": map[string]any{"namespace": "d", "name": "w", "uid": uid, "resourceVersion": "7"},
		"spec":     map[string]any{"size": "1"}, "status": map[string]any{"phase": "Old"},
	}}
}

// Objects keep their status and their owners, although the server gives them
// new UIDs.
func TestSmokeLoadsObjectsWholly(t *testing.T) {
	g := gomega.NewWithT(t)
	c := breeding.Case(breeding.Right)
	c.Goal, c.Workload = nil, nil
	c.Resources = []metav1.APIResource{{
		Group: "example.com", Version: "v1", Name: "widgets", Kind: "Widget", Namespaced: true,
	}}
	part := breeding.Child(breeding.Parent("a"))
	part.Name = "part"
	part.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Widget", Name: "w", UID: "u-1"}}
	now := metav1.Now()
	leaving := breeding.Parent("leaving")
	leaving.Finalizers, leaving.DeletionTimestamp = []string{"example.com/wait"}, &now
	c.Objects = append(c.Objects, widget("u-1"), part, leaving)
	looked := 0
	c.Goal = func(w *reconciletest.World) error {
		looked++
		widgets, err := w.Objects("widgets.example.com")
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(widgets).To(gomega.HaveLen(1))
		g.Expect(widgets[0].Object["status"]).To(gomega.Equal(map[string]any{"phase": "Old"}))
		secrets, err := reconciletest.List[corev1.Secret](w, "secrets")
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(secrets).To(gomega.HaveLen(2))
		g.Expect(secrets[1].OwnerReferences[0].UID).To(gomega.Equal(widgets[0].GetUID()))
		maps, err := reconciletest.List[corev1.ConfigMap](w, "configmaps")
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(maps[1].DeletionTimestamp).NotTo(gomega.BeNil())
		return nil
	}
	r, err := playedOn(t, func() *fixture {
		return newFixture(t, apisim.Resource{
			Group: "example.com", Version: "v1", Resource: "widgets", Kind: "Widget", Namespaced: true,
		})
	}, c, nil)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(r.Failure).To(gomega.BeEmpty())
	g.Expect(looked).To(gomega.Equal(2))
	_, err = playedOn(t, func() *fixture { return newFixture(t) }, c, nil)
	g.Expect(err).To(gomega.MatchError("finding Case.Resources widgets.example.com of version v1: " +
		"the server does not have it: install its CRD first"))
}

// The program may use its own configuration, with its own permissions.
func TestSmokeRunsTheProgramAsItself(t *testing.T) {
	g := gomega.NewWithT(t)
	virtually(t, func(t *testing.T) {
		w := newFixture(t).collect(t)
		w.sim.Deny(func(c apisim.Call) error {
			if c.Client == "account" && c.Verb == "create" {
				return apierrors.NewForbidden(c.Resource.GroupResource(), c.Name, nil)
			}
			return nil
		})
		r, err := live.Try(t, breeding.Case(breeding.Right), w.config(),
			&live.Options{Program: w.sim.Config("account")})
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(r.Failure).To(gomega.MatchRegexp(`call      create secrets d/a-child   \(breeding.go:\d+\)   = 403`))
	})
}

// A new namespace takes no Pods until it has its ServiceAccount.
func TestSmokeWaitsForTheServiceAccount(t *testing.T) {
	g := gomega.NewWithT(t)
	c := breeding.Case(breeding.Right)
	c.Goal, c.Workload = nil, nil
	c.Objects = append(c.Objects, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "p"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	})
	refused := 0
	r, err := playedOn(t, func() *fixture {
		w := newFixture(t)
		w.before = func(req *http.Request) *http.Response {
			if req.Method != http.MethodPost || !strings.HasSuffix(req.URL.Path, "/pods") || refused == 3 {
				return nil
			}
			refused++
			return forbidden(req, `error looking up service account d/default: serviceaccount "default" not found`)
		}
		return w
	}, c, nil)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(r.Failure).To(gomega.BeEmpty())
	g.Expect(refused).To(gomega.Equal(3))
}

func TestSmokeSaysWhatItCannotWatch(t *testing.T) {
	g := gomega.NewWithT(t)
	_, err := playedOn(t, func() *fixture {
		w := newFixture(t)
		w.before = func(req *http.Request) *http.Response {
			if strings.HasSuffix(req.URL.Path, "/secrets") {
				return forbidden(req, "no")
			}
			return nil
		}
		return w
	}, breeding.Case(breeding.Right), &live.Options{Timeout: time.Minute})
	g.Expect(err).To(gomega.MatchError("watching the server: secrets were not listed within 1m0s"))
}

func TestSmokeReadsItsOptions(t *testing.T) {
	g := gomega.NewWithT(t)
	_, err := live.Try(t, &reconciletest.Case{}, newFixture(t).config(),
		&live.Options{Rest: time.Minute, Timeout: time.Second, Kills: -1})
	g.Expect(err).To(gomega.MatchError("live.Options.Timeout is 1s: must be longer than Rest, 1m0s\n" +
		"live.Options.Kills is -1: must not be negative\nreconciletest.Case.Run is nil: must be the program"))
}

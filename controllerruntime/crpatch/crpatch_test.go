package crpatch_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/homeostat/homeostat/controllerruntime/crpatch"
	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/patch"
)

// fixture is controller-runtime's client of the simulated API server.
type fixture struct {
	*WithT
	config *rest.Config
	mapper meta.RESTMapper
	client client.Client
	sent   []string // writes, in order
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{WithT: NewWithT(t)}
	sim, err := apisim.New(nil)
	f.Expect(err).NotTo(HaveOccurred())
	f.config = sim.Config("controller-runtime")
	f.config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			if req.Method != http.MethodGet {
				f.sent = append(f.sent, req.Method+" "+req.URL.Path)
			}
			return next.RoundTrip(req)
		})
	})
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{corev1.SchemeGroupVersion})
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Namespace"), meta.RESTScopeRoot)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	f.mapper = mapper
	f.client, err = client.New(f.config, client.Options{Mapper: mapper})
	f.Expect(err).NotTo(HaveOccurred())
	return f
}

func TestTheReconcilerIsAddedToAManager(t *testing.T) {
	f := newFixture(t)
	mgr, err := ctrl.NewManager(f.config, ctrl.Options{
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return f.mapper, nil },
		Metrics:        server.Options{BindAddress: "0"},
		Controller:     config.Controller{SkipNameValidation: new(true)}, // names are per process, for metrics
	})
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect((&Teams{Client: mgr.GetClient(), Live: mgr.GetAPIReader()}).SetupWithManager(mgr)).To(Succeed())
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return r(req) }

func namespace(team string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"example.com/team": team}}}
}

var request = ctrl.Request{NamespacedName: client.ObjectKey{Name: "shop"}}

func TestItWritesWhatDiffers(t *testing.T) {
	f := newFixture(t)
	f.Expect(f.client.Create(t.Context(), namespace("red"))).To(Succeed())
	f.sent = nil
	r := &Teams{Client: f.client, Live: f.client}
	for range 2 {
		_, err := r.Reconcile(t.Context(), request)
		f.Expect(err).NotTo(HaveOccurred())
	}
	f.Expect(f.sent).To(Equal([]string{"POST /api/v1/namespaces/shop/configmaps", "PATCH /api/v1/namespaces/shop"}))
	var told corev1.ConfigMap
	f.Expect(f.client.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "team"}, &told)).To(Succeed())
	f.Expect(told.Data).To(Equal(map[string]string{"team": "red"}))
	f.Expect(told.OwnerReferences).To(HaveLen(1))
	f.Expect(told.ManagedFields).To(Or(BeEmpty(), HaveEach(HaveField("Manager", "homeostat"))))
}

// A reconciler's unit test takes controller-runtime's fake client.
func TestItRunsOnTheFakeClient(t *testing.T) {
	g := NewWithT(t)
	c := fake.NewClientBuilder().WithObjects(namespace("red")).Build()
	r := &Teams{Client: c, Live: c}
	for range 2 {
		_, err := r.Reconcile(t.Context(), request)
		g.Expect(err).NotTo(HaveOccurred())
	}
	var told corev1.ConfigMap
	g.Expect(c.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "team"}, &told)).To(Succeed())
	g.Expect(told.Data).To(Equal(map[string]string{"team": "red"}))
}

func TestARecreatedObjectIsNotWrittenTo(t *testing.T) {
	f := newFixture(t)
	pods := crpatch.Of[corev1.Pod](f.client, f.client)
	make := func() *corev1.Pod {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}
		f.Expect(f.client.Create(t.Context(), pod)).To(Succeed())
		return pod
	}
	old := make()
	f.Expect(patch.Delete(t.Context(), pods, old, nil)).To(Succeed())
	live := make()
	label := func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }
	ready := func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }

	_, err := patch.Merge(t.Context(), pods, old, nil, label)
	f.Expect(patch.IsStale(err)).To(BeTrue(), "%v", err)
	_, err = patch.Status(t.Context(), pods, old, nil, ready)
	f.Expect(patch.IsStale(err)).To(BeTrue(), "%v", err)
	f.Expect(patch.IsStale(patch.Delete(t.Context(), pods, old, nil))).To(BeTrue())

	got, err := patch.Merge(t.Context(), pods, live, nil, label)
	f.Expect(err).NotTo(HaveOccurred())
	got, err = patch.Status(t.Context(), pods, got, nil, ready)
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(got.UID).To(Equal(live.UID))
	f.Expect(got.Labels).To(HaveKey("a"))
	f.Expect(got.Status.Phase).To(Equal(corev1.PodRunning))
}

func TestADryRunStaysOne(t *testing.T) {
	f := newFixture(t)
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "m"}}
	maps, dry := crpatch.Of[corev1.ConfigMap](f.client, f.client), &patch.Options{DryRun: true}
	fill := func(m *corev1.ConfigMap) { m.Data = map[string]string{"a": "b"} }
	read := func() (got corev1.ConfigMap, err error) {
		err = f.client.Get(t.Context(), client.ObjectKeyFromObject(m), &got)
		return got, err
	}
	_, err := patch.Ensure(t.Context(), maps, m, dry, fill)
	f.Expect(err).NotTo(HaveOccurred())
	_, err = read()
	f.Expect(apierrors.IsNotFound(err)).To(BeTrue())

	f.Expect(f.client.Create(t.Context(), m)).To(Succeed())
	_, err = patch.Merge(t.Context(), maps, m, dry, fill)
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(patch.Delete(t.Context(), maps, m, dry)).To(Succeed())
	got, err := read()
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(got.Data).To(BeEmpty())
}

// empty is a cache without the server's objects.
type empty struct{ client.Client }

func (empty) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return apierrors.NewNotFound(schema.GroupResource{}, "")
}

func TestWhereTheCacheWasWrongTheServerIsAsked(t *testing.T) {
	f := newFixture(t)
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "m"}, Data: map[string]string{"theirs": "x"}}
	f.Expect(f.client.Create(t.Context(), m)).To(Succeed())
	got, err := patch.Ensure(t.Context(), crpatch.Of[corev1.ConfigMap](empty{f.client}, f.client),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "m"}}, nil,
		func(m *corev1.ConfigMap) { metav1.SetMetaDataLabel(&m.ObjectMeta, "ours", "y") })
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(got.Labels).To(HaveKey("ours"))
	f.Expect(got.Data).To(HaveKey("theirs"))
}

// The next reconcile finds a write in the cache only if the manager's client
// waits for it.
func TestReadsOfOwnWrites(t *testing.T) {
	for _, waits := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "m"}}
			f.Expect(f.client.Create(t.Context(), m)).To(Succeed())
			f.config.Wrap(lateWatches)
			reader, err := cache.New(f.config, cache.Options{Scheme: scheme.Scheme, Mapper: f.mapper})
			f.Expect(err).NotTo(HaveOccurred())
			ctx, cancel := context.WithCancel(t.Context())
			defer func() {
				cancel()
				<-time.After(time.Minute) // late events have arrived
			}()
			ended := make(chan error, 1)
			go func() { ended <- reader.Start(ctx) }()
			synctest.Wait()
			c, err := client.New(f.config, client.Options{
				Mapper: f.mapper, Cache: &client.CacheOptions{Reader: reader, EnableReadYourWritesConsistency: &waits},
			})
			f.Expect(err).NotTo(HaveOccurred())
			read := func() (got corev1.ConfigMap) {
				f.Expect(c.Get(ctx, client.ObjectKeyFromObject(m), &got)).To(Succeed())
				return got
			}
			cached := read()
			written, err := patch.Merge(ctx, crpatch.Of[corev1.ConfigMap](c, f.client), &cached, nil,
				func(m *corev1.ConfigMap) { m.Data = map[string]string{"a": "b"} })
			f.Expect(err).NotTo(HaveOccurred())
			before := time.Now()
			shown := read().ResourceVersion == written.ResourceVersion
			f.Expect(shown).To(Equal(waits), "waits: %v", waits)
			if waits {
				f.Expect(time.Since(before)).NotTo(BeZero())
			}
			cancel()
			f.Expect(<-ended).To(Succeed())
		})
	}
}

// lateWatches delivers each part of a watch a second late.
func lateWatches(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		res, err := next.RoundTrip(req)
		if err == nil && req.URL.Query().Get("watch") != "" {
			res.Body = lateBody{res.Body}
		}
		return res, err
	})
}

type lateBody struct{ io.ReadCloser }

func (b lateBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	<-time.After(time.Second)
	return n, err
}

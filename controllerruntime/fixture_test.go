package controllerruntime_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat/homeostat/controllerruntime"
	"github.com/homeostat/homeostat/internal/apisim"
)

// fixture is a cache, and a client as a manager makes it, of the simulated API
// server, in a bubble of virtual time.
type fixture struct {
	*WithT

	ctx    context.Context //nolint:containedctx // of the test
	sim    *apisim.Server
	config *rest.Config
	admin  kubernetes.Interface
	cache  cache.Cache
	client client.Client

	mu     sync.Mutex // guards the fields below
	calls  []string
	denied string // the name that must not be read
	late   time.Duration
	answer func(*http.Request) *http.Response // instead of the server, unless nil
}

// settings are the options that a test sets.
type settings struct {
	controllerruntime.Options

	cache  cache.Options
	client client.CacheOptions
}

// run calls test with a cache that runs until it returns.
func run(t *testing.T, s settings, test func(f *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		f.ctx = ctx
		ended := make(chan error, 1)
		go func() { ended <- f.cache.Start(ctx) }()
		synctest.Wait()
		f.Expect(f.cache.WaitForCacheSync(ctx)).To(BeTrue())
		test(f)
		cancel()
		f.Expect(<-ended).To(Succeed())
		<-time.After(2 * time.Minute) // late events have arrived
	})
}

// newFixture returns a cache that does not run.
func newFixture(t *testing.T, s settings) *fixture {
	t.Helper()
	f := &fixture{WithT: NewWithT(t), ctx: t.Context()}
	var err error
	f.sim, err = apisim.New(nil)
	f.Expect(err).NotTo(HaveOccurred())
	f.sim.Deny(func(c apisim.Call) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.denied != "" && c.Name == f.denied {
			return apierrors.NewForbidden(c.Resource.GroupResource(), c.Name, errors.New("no Role allows it"))
		}
		return nil
	})
	f.admin = kubernetes.NewForConfigOrDie(f.sim.Admin())
	f.config = f.sim.Config("manager")
	f.config.Wrap(f.note)
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{corev1.SchemeGroupVersion})
	for _, kind := range []string{"Secret", "ConfigMap"} {
		mapper.Add(corev1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Namespace"), meta.RESTScopeRoot)
	if s.OnDemand == nil {
		s.OnDemand = []client.Object{&corev1.Secret{}, &corev1.Namespace{}}
	}
	shared, err := rest.HTTPClientFor(f.config)
	f.Expect(err).NotTo(HaveOccurred())
	s.cache.HTTPClient, s.cache.Mapper = shared, mapper
	f.cache, err = controllerruntime.NewCache(&s.Options)(f.config, s.cache)
	f.Expect(err).NotTo(HaveOccurred())
	s.client.Reader = f.cache
	f.client, err = client.New(f.config, client.Options{HTTPClient: shared, Mapper: mapper, Cache: &s.client})
	f.Expect(err).NotTo(HaveOccurred())
	return f
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return r(req) }

// note is a transport that records requests, and delays the events of watches.
func (f *fixture) note(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		watches := req.URL.Query().Get("watch") != ""
		verb := req.Method
		if watches {
			verb = "WATCH"
		}
		f.mu.Lock()
		f.calls = append(f.calls, verb+" "+req.URL.Path+" "+req.URL.Query().Get("fieldSelector"))
		late, answer := f.late, f.answer
		f.mu.Unlock()
		if answer != nil {
			if res := answer(req); res != nil {
				return res, nil
			}
		}
		res, err := next.RoundTrip(req)
		if err == nil && watches && late > 0 {
			res.Body = lateBody{res.Body, late}
		}
		return res, err
	})
}

// lateBody delivers each part of a watch late.
type lateBody struct {
	io.ReadCloser

	by time.Duration
}

func (b lateBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	<-time.After(b.by)
	return n, err
}

// sent returns the requests since the last call.
func (f *fixture) sent() []string {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	calls := f.calls
	f.calls = nil
	return calls
}

// deny forbids reading the Secret with this name. An empty name allows all
// Secrets.
func (f *fixture) deny(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.denied = name
}

func key(name string) client.ObjectKey { return client.ObjectKey{Namespace: "shop", Name: name} }

func secret(name, text string, labels ...string) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Data: map[string][]byte{"text": []byte(text)},
	}
	for _, label := range labels {
		metav1.SetMetaDataLabel(&s.ObjectMeta, label, "true")
	}
	return s
}

// create creates a Secret with a client that is not the manager's.
func (f *fixture) create(s *corev1.Secret) {
	_, err := f.admin.CoreV1().Secrets(s.Namespace).Create(f.ctx, s, metav1.CreateOptions{})
	f.Expect(err).NotTo(HaveOccurred())
}

// update changes a Secret, and waits until watches have delivered the change.
func (f *fixture) update(s *corev1.Secret) {
	_, err := f.admin.CoreV1().Secrets(s.Namespace).Update(f.ctx, s, metav1.UpdateOptions{})
	f.Expect(err).NotTo(HaveOccurred())
	synctest.Wait()
}

func (f *fixture) delete(name string) {
	f.Expect(f.admin.CoreV1().Secrets("shop").Delete(f.ctx, name, metav1.DeleteOptions{})).To(Succeed())
	synctest.Wait()
}

// text returns the content of a Secret as the manager's client reads it, or why
// it does not.
func (f *fixture) text(name string) string {
	var s corev1.Secret
	switch err := f.client.Get(f.ctx, key(name), &s); {
	case apierrors.ReasonForError(err) == metav1.StatusReasonNotFound:
		return "not found"
	case apierrors.IsForbidden(err):
		return "forbidden"
	case err != nil:
		return err.Error()
	}
	return string(s.Data["text"])
}

// heard records events.
type heard struct {
	mu  sync.Mutex
	all []string
}

func (h *heard) add(event string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, event)
}

// take returns the events since the last call.
func (h *heard) take() []string {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.all
	h.all = nil
	return all
}

// watch adds a handler for Secrets.
func (f *fixture) watch() *heard {
	h := &heard{}
	i, err := f.cache.GetInformer(f.ctx, &corev1.Secret{})
	f.Expect(err).NotTo(HaveOccurred())
	text := func(o any) string { return o.(*corev1.Secret).Name + "=" + string(o.(*corev1.Secret).Data["text"]) }
	handle, err := i.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(o any, initial bool) {
			if initial {
				h.add("initial")
			}
			h.add("added " + text(o))
		},
		UpdateFunc: func(before, after any) { h.add("updated " + text(before) + " to " + text(after)) },
		DeleteFunc: func(o any) { h.add("deleted " + text(o)) },
	})
	f.Expect(err).NotTo(HaveOccurred())
	synctest.Wait()
	f.Expect(handle.HasSynced()).To(BeTrue())
	return h
}

// named returns the names of Secrets.
func named(list *corev1.SecretList) (names []string) {
	for _, s := range list.Items {
		names = append(names, s.Name)
	}
	slices.Sort(names)
	return names
}

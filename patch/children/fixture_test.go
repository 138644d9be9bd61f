package children_test

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/absent/absenttest"
	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/patch/children"
)

var ownerKind = corev1.SchemeGroupVersion.WithKind("ConfigMap")

type child = children.Child[*corev1.Secret]

// fixture is a simulated server on which ConfigMaps own Secrets, in a bubble of
// virtual time.
type fixture struct {
	*WithT
	t       *testing.T
	sim     *apisim.Server
	user    kubernetes.Interface // the administrator
	client  kubernetes.Interface // what the set reads and writes with
	secrets *informer.Informer[*corev1.Secret]
	set     *children.Set[*corev1.Secret]
	owner   *corev1.ConfigMap // as the cache has it
	freeze  func()            // stops the watch: the cache stays as it is

	dynamic dynamic.Interface
	// fault, if set, is what becomes of the nth request, from 1: it is not
	// sent, or its answer is lost.
	fault func(n int) (before, after error)
	// page, if set, answers the requests of that method instead of the server.
	page   *absenttest.Page
	method string

	mu   sync.Mutex // guards sent
	sent []string
}

func inFixture(t *testing.T, o *children.Options, f func(w *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &fixture{WithT: NewWithT(t), t: t}
		sim, err := apisim.New(nil)
		w.Expect(err).NotTo(HaveOccurred())
		w.sim, w.user = sim, kubernetes.NewForConfigOrDie(sim.Admin())
		config := rest.CopyConfig(sim.Config("controller"))
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return recorder{w, next} })
		witnessed, err := cluster.New(config, nil)
		w.Expect(err).NotTo(HaveOccurred())
		w.client = witnessed.Client()
		w.dynamic = dynamic.NewForConfigOrDie(config)
		w.secrets = informer.For(kubernetes.NewForConfigOrDie(sim.Admin()).CoreV1().Secrets(""), nil)
		w.secrets.Handle(func(informer.Event[*corev1.Secret]) {}) // which keeps the cache when the watch has ended
		w.set = children.New(ownerKind, w.client.CoreV1().ConfigMaps, w.secrets, w.client.CoreV1().Secrets, inOrder(o))
		w.owner = w.newOwner("site")

		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.secrets.Run(ctx) }()
		w.freeze = sync.OnceFunc(func() {
			stop()
			w.Expect(<-ended).To(Succeed())
		})
		t.Cleanup(w.freeze)
		synctest.Wait()
		f(w)
	})
}

// inOrder returns options with which requests are sent one after the other,
// unless o says how many are.
func inOrder(o *children.Options) *children.Options {
	one := ptr.Deref(o, children.Options{})
	one.Parallel = cmp.Or(one.Parallel, 1)
	return &one
}

func (w *fixture) newOwner(name string) *corev1.ConfigMap {
	w.t.Helper()
	owner, err := w.user.CoreV1().ConfigMaps("d").Create(w.t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name}}, metav1.CreateOptions{})
	w.Expect(err).NotTo(HaveOccurred())
	return owner
}

// wants are children of these names, whose content is their name.
func wants(names ...string) []child {
	var all []child
	for _, name := range names {
		all = append(all, child{Name: name, Edit: func(s *corev1.Secret) { s.Data = map[string][]byte{"is": []byte(name)} }})
	}
	return all
}

// ensure calls Ensure, and returns when the cache has followed.
func (w *fixture) ensure(names ...string) error {
	w.t.Helper()
	_, err := w.set.Ensure(w.t.Context(), w.owner, wants(names...)...)
	synctest.Wait()
	return err
}

// has are the names of the Secrets of the server.
func (w *fixture) has() []string {
	w.t.Helper()
	all, err := w.user.CoreV1().Secrets("").List(w.t.Context(), metav1.ListOptions{})
	w.Expect(err).NotTo(HaveOccurred())
	var names []string
	for i := range all.Items {
		names = append(names, all.Items[i].Name)
	}
	return names
}

func (w *fixture) secret(name string) *corev1.Secret {
	w.t.Helper()
	got, err := w.user.CoreV1().Secrets("d").Get(w.t.Context(), name, metav1.GetOptions{})
	w.Expect(err).NotTo(HaveOccurred())
	return got
}

// create creates a Secret as another client, which the owners, if any, control.
func (w *fixture) create(name string, labels map[string]string, owners ...*corev1.ConfigMap) *corev1.Secret {
	w.t.Helper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name, Labels: labels}}
	for _, owner := range owners {
		s.OwnerReferences = append(s.OwnerReferences, *metav1.NewControllerRef(owner, ownerKind))
	}
	s, err := w.user.CoreV1().Secrets("d").Create(w.t.Context(), s, metav1.CreateOptions{})
	w.Expect(err).NotTo(HaveOccurred())
	synctest.Wait()
	return s
}

// edit edits a Secret as another client.
func (w *fixture) edit(name string, edit func(*corev1.Secret)) {
	w.t.Helper()
	s := w.secret(name)
	edit(s)
	_, err := w.user.CoreV1().Secrets("d").Update(w.t.Context(), s, metav1.UpdateOptions{})
	w.Expect(err).NotTo(HaveOccurred())
	synctest.Wait()
}

func (w *fixture) delete(name string) {
	w.t.Helper()
	w.Expect(w.user.CoreV1().Secrets("d").Delete(w.t.Context(), name, metav1.DeleteOptions{})).To(Succeed())
	synctest.Wait()
}

// requests returns what the set has sent since the last call.
func (w *fixture) requests() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	sent := w.sent
	w.sent = nil
	return sent
}

// count returns how many of the requests begin with verb.
func count(requests []string, verb string) int {
	return len(slices.DeleteFunc(slices.Clone(requests), func(r string) bool { return !strings.HasPrefix(r, verb) }))
}

// recorder notes every request.
type recorder struct {
	w    *fixture
	next http.RoundTripper
}

func (r recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	r.w.mu.Lock()
	r.w.sent = append(r.w.sent, req.Method+" "+strings.TrimPrefix(req.URL.Path, "/api/v1/namespaces/d/"))
	n := len(r.w.sent)
	r.w.mu.Unlock()
	if r.w.page != nil && req.Method == r.w.method {
		return r.w.page.Response(req), nil
	}
	if r.w.fault == nil {
		return r.next.RoundTrip(req)
	}
	before, after := r.w.fault(n)
	if before != nil {
		return nil, before
	}
	if after != nil {
		_, _ = r.next.RoundTrip(req.WithContext(context.WithoutCancel(req.Context()))) //nolint:bodyclose // of the simulation
		return nil, after
	}
	return r.next.RoundTrip(req)
}

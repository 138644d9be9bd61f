//go:build e2e

package reconcile_test

import (
	"context"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/test/e2e"
	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/reconcile"
)

// realTenants is a controller that has a Role in each namespace, on a real API
// server.
type realTenants struct {
	*WithT
	t      *testing.T
	admin  kubernetes.Interface
	config *rest.Config

	mu  sync.Mutex
	ran map[string]bool // whether the last reconcile of a key had an object
}

// has reports whether key was reconciled, and with its object.
func (w *realTenants) has(key string) (found, object bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	object, found = w.ran[key]
	return found, object
}

func (w *realTenants) create(namespace, name string) {
	w.t.Helper()
	_, err := w.admin.CoreV1().ConfigMaps(namespace).Create(w.t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	w.Expect(err).NotTo(HaveOccurred())
}

func (w *realTenants) namespace(name string) {
	w.t.Helper()
	_, err := w.admin.CoreV1().Namespaces().Create(w.t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	w.Expect(err).NotTo(HaveOccurred())
}

// grant lets the controller read the ConfigMaps of a namespace.
func (w *realTenants) grant(namespace string) {
	w.t.Helper()
	meta := metav1.ObjectMeta{Name: "operator"}
	_, err := w.admin.RbacV1().Roles(namespace).Create(w.t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list", "watch"}},
	}}, metav1.CreateOptions{})
	w.Expect(err).NotTo(HaveOccurred())
	w.bind(namespace)
}

func (w *realTenants) bind(namespace string) {
	w.t.Helper()
	_, err := w.admin.RbacV1().RoleBindings(namespace).Create(w.t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "operator"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: "operator"}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "operator"},
	}, metav1.CreateOptions{})
	w.Expect(err).NotTo(HaveOccurred())
}

// start runs the controller of the namespaces red, blue and later until stop is
// called.
func (w *realTenants) start() (c *reconcile.Controller, stop func()) {
	maps := kubernetes.NewForConfigOrDie(w.config).CoreV1().ConfigMaps
	in := informer.ForNamespaces(maps, &informer.Options{
		Namespaces: []string{"red", "blue", "later"}, Independent: true, BackoffCap: 2 * time.Second,
	})
	w.ran = map[string]bool{}
	c, err := reconcile.New("tenants", in, reconcile.Func[*configMap](
		func(_ context.Context, r request) (reconcile.Result, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			_, w.ran[r.Key.String()] = r.Object()
			return nothing, nil
		}), &reconcile.Options{
		Known: namesOf(keyIn("red", "lives"), keyIn("red", "gone"), keyIn("blue", "lives"), keyIn("blue", "gone")),
		Sweep: &names.Options{Period: time.Second, MaxCount: 10},
	})
	w.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	return c, sync.OnceFunc(func() {
		cancel()
		w.Expect(<-ended).To(Succeed())
	})
}

func TestE2EAMissingNamespaceStopsOnlyItself(t *testing.T) {
	const soon = time.Minute
	g := NewWithT(t)
	server, err := e2e.Start(t.Context(), nil)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(server.Stop()).To(Succeed()) })
	w := &realTenants{WithT: g, t: t, admin: kubernetes.NewForConfigOrDie(server.Config())}
	w.config, err = server.ServiceAccount(t.Context(), e2e.ServiceAccount{Namespace: "default", Name: "operator"})
	g.Expect(err).NotTo(HaveOccurred())
	for _, namespace := range []string{"red", "blue"} {
		w.namespace(namespace)
		w.grant(namespace)
		w.create(namespace, "lives")
	}
	living := func(key string) {
		t.Helper()
		g.Eventually(func() []bool { found, object := w.has(key); return []bool{found, object} }, soon).Should(
			Equal([]bool{true, true}), key)
	}

	_, stop := w.start()
	defer func() { stop() }()
	living("red/lives")
	living("blue/lives")
	g.Eventually(func() bool { found, _ := w.has("blue/gone"); return found }, soon).Should(BeTrue())
	stop()

	g.Expect(w.admin.RbacV1().RoleBindings("blue").Delete(t.Context(), "operator", metav1.DeleteOptions{})).To(Succeed())
	forbidden := kubernetes.NewForConfigOrDie(w.config).CoreV1().ConfigMaps("blue")
	g.Eventually(func() error { _, err := forbidden.List(t.Context(), metav1.ListOptions{}); return err }, soon).Should(HaveOccurred())
	c, again := w.start()
	stop = again
	living("red/lives")
	g.Eventually(func() bool { found, _ := w.has("red/gone"); return found }, soon).Should(BeTrue(), "a sweep of red")
	c.Enqueue(keyIn("blue", "lives"))
	g.Consistently(func() bool { found, _ := w.has("blue/lives"); return found }, 3*time.Second).Should(BeFalse())
	found, _ := w.has("blue/gone")
	g.Expect(found).To(BeFalse(), "no sweep of blue")
	var problems []string
	for _, p := range c.Informers()[0].Problems {
		problems = append(problems, p.String())
	}
	g.Expect(problems).To(ConsistOf(And(ContainSubstring(`namespace "blue"`), ContainSubstring("forbidden")),
		And(ContainSubstring(`namespace "later"`), ContainSubstring("forbidden"))))

	w.bind("blue")
	living("blue/lives")
	w.namespace("later")
	w.create("later", "lives")
	w.grant("later")
	living("later/lives")
	g.Eventually(func() int { return len(c.Informers()[0].Problems) }, soon).Should(BeZero())
}

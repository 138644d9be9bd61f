//go:build e2e

package controllerruntime_test

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat/homeostat/controllerruntime"
	"github.com/homeostat/homeostat/internal/test/e2e"
)

const patience = time.Minute

// secretsOfOthers are in the namespace, each of secretSize bytes.
const (
	secretsOfOthers = 1500
	secretSize      = 20 << 10
)

// A manager whose Role has a rule for one name gets its Secret, and its events,
// and takes a small part of the memory that the plain cache takes.
func TestE2ESecretsOnDemand(t *testing.T) {
	g := NewWithT(t)
	ctx, cancel := context.WithTimeout(t.Context(), 9*time.Minute)
	defer cancel()
	server, err := e2e.Start(ctx, nil)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(server.Stop()).To(Succeed()) })
	admin, err := kubernetes.NewForConfig(server.Config())
	g.Expect(err).NotTo(HaveOccurred())
	namespace, err := server.Namespace(ctx, "ondemand")
	g.Expect(err).NotTo(HaveOccurred())
	t.Run("a role by name", func(t *testing.T) { byName(ctx, t, server, admin, namespace) })
	t.Run("memory", func(t *testing.T) { memory(ctx, t, server, admin, namespace) })
}

// program is a manager whose reconciler writes down what it reads of the Secret
// that a ConfigMap names.
type program struct {
	client client.Client
	mu     sync.Mutex // guards read
	read   map[string]string
	stop   func() error
}

func (p *program) Reconcile(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
	var of corev1.ConfigMap
	if err := p.client.Get(ctx, r.NamespacedName, &of); err != nil || of.Data["secret"] == "" {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	var s corev1.Secret
	err := p.client.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: of.Data["secret"]}, &s)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.read[r.Name] = string(s.Data["text"]); err != nil {
		p.read[r.Name] = "error: " + err.Error()
	}
	return ctrl.Result{}, client.IgnoreNotFound(err)
}

func (p *program) text(of string) func() string {
	return func() string {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.read[of]
	}
}

func start(
	ctx context.Context, t *testing.T, of *rest.Config, namespace string, newCache cache.NewCacheFunc,
) *program {
	g := NewWithT(t)
	mgr, err := ctrl.NewManager(of, ctrl.Options{
		NewCache:   newCache,
		Cache:      cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	g.Expect(err).NotTo(HaveOccurred())
	p := &program{client: mgr.GetClient(), read: map[string]string{}}
	all := func(ctx context.Context, _ client.Object) (requests []reconcile.Request) {
		var list corev1.ConfigMapList
		g.Expect(p.client.List(ctx, &list)).To(Succeed())
		for n := range list.Items {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[n])})
		}
		return requests
	}
	g.Expect(ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(all)).Complete(p)).To(Succeed())
	running, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(running) }()
	p.stop = func() error { cancel(); return <-ended }
	return p
}

func onDemandSecrets() cache.NewCacheFunc {
	return controllerruntime.NewCache(&controllerruntime.Options{OnDemand: []client.Object{&corev1.Secret{}}})
}

func byName(ctx context.Context, t *testing.T, server *e2e.Cluster, admin kubernetes.Interface, namespace string) {
	g := NewWithT(t)
	account, err := server.ServiceAccount(ctx, e2e.ServiceAccount{Namespace: namespace, Name: "operator", Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"mine", "late"}, Verbs: []string{"list", "watch"}},
	}})
	g.Expect(err).NotTo(HaveOccurred())
	create := func(name, text string) {
		_, err := admin.CoreV1().Secrets(namespace).Create(ctx, secretOf(name, []byte(text)), metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
	}
	create("mine", "1")
	create("foreign", "1")
	for _, name := range []string{"mine", "late", "foreign"} {
		_, err := admin.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"secret": name},
		}, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
	}
	p := start(ctx, t, account, namespace, onDemandSecrets())
	defer func() { g.Expect(p.stop()).To(Succeed()) }()
	g.Eventually(p.text("mine"), patience).Should(Equal("1"))
	g.Eventually(p.text("foreign"), patience).Should(ContainSubstring("forbidden"))
	_, err = admin.CoreV1().Secrets(namespace).Update(ctx, secretOf("mine", []byte("2")), metav1.UpdateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(p.text("mine"), patience).Should(Equal("2"), "the event of the Secret leads to the ConfigMap")
	create("late", "3")
	g.Eventually(p.text("late"), patience).Should(Equal("3"), "as does its creation")

	// Every watch is cut, and meanwhile the state changes.
	g.Expect(server.KillAPIServer()).To(Succeed())
	g.Expect(server.Restart(ctx)).To(Succeed())
	_, err = admin.CoreV1().Secrets(namespace).Update(ctx, secretOf("mine", []byte("4")), metav1.UpdateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(p.text("mine"), patience).Should(Equal("4"))
}

func secretOf(name string, text []byte) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{"text": text}}
}

func memory(ctx context.Context, t *testing.T, server *e2e.Cluster, admin kubernetes.Interface, namespace string) {
	g := NewWithT(t)
	for n := range secretsOfOthers {
		s := secretOf(fmt.Sprint("s", n), bytes.Repeat([]byte{byte(n), byte(n >> 8)}, secretSize/2))
		_, err := admin.CoreV1().Secrets(namespace).Create(ctx, s, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
	}
	heap := func(newCache cache.NewCacheFunc) uint64 {
		before := heapInUse()
		p := start(ctx, t, server.Config(), namespace, newCache)
		defer func() { g.Expect(p.stop()).To(Succeed()) }()
		g.Eventually(p.text("mine"), patience).ShouldNot(BeEmpty())
		after := heapInUse()
		return after - min(before, after)
	}
	onDemand, plain := heap(onDemandSecrets()), heap(nil)
	t.Logf("heap with %d Secrets of %d KiB: %d KiB on demand, %d KiB with the plain cache",
		secretsOfOthers, secretSize>>10, onDemand>>10, plain>>10)
	g.Expect(onDemand * 5).To(BeNumerically("<", plain))
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

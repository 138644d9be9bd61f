//go:build e2e

package informer_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/test/e2e"
)

// A Role for the verbs list and watch on one name is enough. A reference that
// is not allowed has an error until it is allowed, and other references are not
// affected. 1,000 references need little memory.
func TestE2EReferences(t *testing.T) {
	g := NewWithT(t)
	ctx, cancel := context.WithTimeout(t.Context(), 9*time.Minute)
	defer cancel()
	server, err := e2e.Start(ctx, nil)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(server.Stop()).To(Succeed()) })
	admin, err := kubernetes.NewForConfig(server.Config())
	g.Expect(err).NotTo(HaveOccurred())
	t.Run("a role by name", func(t *testing.T) { referencesByRole(ctx, t, server, admin) })
	t.Run("a shared watch", func(t *testing.T) { sharedWatch(ctx, t, server, admin) })
	t.Run("goroutines", func(t *testing.T) { goroutinesOfReferences(ctx, t, server, admin) })
	t.Run("thousand", func(t *testing.T) { thousandReferences(ctx, t, server, admin, 2000) })
	t.Run("thousand share", func(t *testing.T) { thousandReferences(ctx, t, server, admin, 100) })
}

// heldOnTheServer is a cache of references that runs.
type heldOnTheServer struct {
	*WithT

	ctx     context.Context //nolint:containedctx // of the test
	admin   kubernetes.Interface
	secrets *informer.References[*corev1.Secret]
	stop    func() error
}

// newHeld holds keys, and then runs.
func newHeld(
	ctx context.Context, t *testing.T, config *rest.Config, admin kubernetes.Interface, above int,
	keys ...types.NamespacedName,
) *heldOnTheServer {
	h := &heldOnTheServer{WithT: NewWithT(t), ctx: ctx, admin: admin}
	c, err := cluster.New(config, nil)
	h.Expect(err).NotTo(HaveOccurred())
	h.secrets = informer.Referenced(c.Client().CoreV1().Secrets,
		&informer.Options{BackoffBase: 100 * time.Millisecond, BackoffCap: time.Second, WatchNamespaceAbove: above})
	for _, key := range keys {
		h.secrets.Parts().Hold(key)
	}
	run, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- h.secrets.Parts().Run(run, func() {}) }()
	h.stop = func() error { cancel(); return <-ended }
	return h
}

// is expects that a Secret has the given state and value.
func (h *heldOnTheServer) is(key types.NamespacedName, want string) {
	h.Eventually(func() string {
		known, err := h.secrets.Parts().State(key)
		value := ""
		if s, ok := h.secrets.Get(key); ok {
			value = string(s.Data["v"])
		}
		if err != nil {
			return "error: " + err.Error()
		}
		return fmt.Sprint(known, " ", value)
	}, patience, 20*time.Millisecond).Should(HavePrefix(want))
}

func (h *heldOnTheServer) create(key types.NamespacedName, value string) {
	_, err := h.admin.CoreV1().Secrets(key.Namespace).Create(h.ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: key.Name}, Data: map[string][]byte{"v": []byte(value)},
	}, metav1.CreateOptions{})
	h.Expect(err).NotTo(HaveOccurred())
}

func (h *heldOnTheServer) update(key types.NamespacedName, value string) {
	_, err := h.admin.CoreV1().Secrets(key.Namespace).Update(h.ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: key.Name}, Data: map[string][]byte{"v": []byte(value)},
	}, metav1.UpdateOptions{})
	h.Expect(err).NotTo(HaveOccurred())
}

func referencesByRole(ctx context.Context, t *testing.T, server *e2e.Cluster, admin kubernetes.Interface) {
	g := NewWithT(t)
	namespace, err := server.Namespace(ctx, "references")
	g.Expect(err).NotTo(HaveOccurred())
	rule := rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"one", "late"},
		Verbs: []string{"list", "watch"},
	}
	config, err := server.ServiceAccount(ctx,
		e2e.ServiceAccount{Namespace: namespace, Name: "reader", Rules: []rbacv1.PolicyRule{rule}})
	g.Expect(err).NotTo(HaveOccurred())
	h := newHeld(ctx, t, config, admin, 0)
	defer func() { g.Expect(h.stop()).To(Succeed()) }()
	key := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: namespace, Name: name} }
	h.create(key("one"), "1")
	h.create(key("other"), "1")
	for _, name := range []string{"one", "late", "other"} {
		h.secrets.Parts().Hold(key(name))
	}
	h.is(key("one"), "true 1")
	h.is(key("late"), "true ")
	h.is(key("other"), fmt.Sprintf("error: watching Secret %q: secrets", namespace+"/other"))
	h.create(key("late"), "2")
	h.is(key("late"), "true 2")
	h.Expect(h.secrets.IsDeleted(ctx, key("late"))).To(BeFalse())
	h.Expect(admin.CoreV1().Secrets(namespace).Delete(ctx, "late", metav1.DeleteOptions{})).To(Succeed())
	h.is(key("late"), "true ")
	h.Eventually(func() bool { return h.secrets.IsDeleted(ctx, key("late")) }, patience).Should(BeTrue())

	roles, err := admin.RbacV1().Roles(namespace).List(ctx, metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	allow := func(names ...string) {
		for n := range roles.Items {
			role, err := admin.RbacV1().Roles(namespace).Get(ctx, roles.Items[n].Name, metav1.GetOptions{})
			h.Expect(err).NotTo(HaveOccurred())
			for r := range role.Rules {
				if len(role.Rules[r].ResourceNames) > 0 {
					role.Rules[r].ResourceNames = names
				}
			}
			_, err = admin.RbacV1().Roles(namespace).Update(ctx, role, metav1.UpdateOptions{})
			h.Expect(err).NotTo(HaveOccurred())
		}
	}
	allow("one", "other")
	h.is(key("other"), "true 1")

	// Every watch is cut, and meanwhile the state changes.
	allow("other")
	h.Expect(server.KillAPIServer()).To(Succeed())
	h.Expect(server.Restart(ctx)).To(Succeed())
	h.update(key("other"), "2")
	h.is(key("other"), "true 2")
	h.is(key("one"), "error: watching Secret")
	h.update(key("one"), "2")
	allow("one", "other")
	h.is(key("one"), "true 2")
	h.Expect(h.secrets.Status().Problems).To(ConsistOf(HaveField("Object", namespace+"/late")))
}

// A Role for the namespace allows one watch of all objects. A Role for names
// allows one watch of each object.
func sharedWatch(ctx context.Context, t *testing.T, server *e2e.Cluster, admin kubernetes.Interface) {
	for _, byName := range []bool{false, true} {
		g := NewWithT(t)
		namespace, err := server.Namespace(ctx, "shared")
		g.Expect(err).NotTo(HaveOccurred())
		const references = 40
		var names []string
		var keys []types.NamespacedName
		for n := range references {
			names = append(names, fmt.Sprint("s", n))
			keys = append(keys, types.NamespacedName{Namespace: namespace, Name: names[n]})
		}
		rule := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"list", "watch"}}
		watches := 1
		if byName {
			rule.ResourceNames, watches = names, references
		}
		config, err := server.ServiceAccount(ctx,
			e2e.ServiceAccount{Namespace: namespace, Name: "reader", Rules: []rbacv1.PolicyRule{rule}})
		g.Expect(err).NotTo(HaveOccurred())
		h := newHeld(ctx, t, config, admin, 10, keys...)
		h.create(keys[0], "1")
		h.create(types.NamespacedName{Namespace: namespace, Name: "foreign"}, "1")
		h.is(keys[0], "true 1")
		for _, key := range keys[1:] {
			h.is(key, "true ")
		}
		h.Eventually(func() int { return h.secrets.Status().OpenWatches }, patience).Should(Equal(watches))
		h.update(keys[0], "2")
		h.create(keys[1], "3")
		h.is(keys[0], "true 2")
		h.is(keys[1], "true 3")
		h.Expect(server.KillAPIServer()).To(Succeed())
		h.Expect(server.Restart(ctx)).To(Succeed())
		h.Expect(admin.CoreV1().Secrets(namespace).Delete(ctx, names[1], metav1.DeleteOptions{})).To(Succeed())
		h.update(keys[0], "4")
		h.is(keys[0], "true 4")
		h.Eventually(func() bool { return h.secrets.IsDeleted(ctx, keys[1]) }, patience).Should(BeTrue())
		h.Eventually(func() int { return h.secrets.Snapshot().Len() }, patience).Should(Equal(1), "foreign is not cached")
		g.Expect(h.stop()).To(Succeed())
	}
}

func thousandReferences(
	ctx context.Context, t *testing.T, server *e2e.Cluster, admin kubernetes.Interface, above int,
) {
	const references = 1000
	g := NewWithT(t)
	namespace, err := server.Namespace(ctx, "thousand")
	g.Expect(err).NotTo(HaveOccurred())
	var requests atomic.Int64
	config := server.Config()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return transportFunc(func(r *http.Request) (*http.Response, error) {
			if strings.Contains(r.URL.Path, "/secrets") {
				requests.Add(1)
			}
			return next.RoundTrip(r)
		})
	})
	h := newHeld(ctx, t, config, admin, above)
	defer func() { g.Expect(h.stop()).To(Succeed()) }()
	memory := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapInuse + m.StackInuse
	}
	key := func(n int) types.NamespacedName {
		return types.NamespacedName{Namespace: namespace, Name: fmt.Sprint("s", n)}
	}
	h.secrets.Parts().Hold(key(references)) // opens the connection, whose memory does not count
	h.is(key(references), "true ")
	before, goroutines := memory(), runtime.NumGoroutine()
	began := time.Now()
	for n := range references {
		h.secrets.Parts().Hold(key(n))
	}
	h.Eventually(func() (known int) {
		for n := range references {
			if is, err := h.secrets.Parts().State(key(n)); is && err == nil {
				known++
			}
		}
		return known
	}, 5*time.Minute).Should(Equal(references))
	if above > references {
		h.Eventually(func() int { return h.secrets.Status().OpenWatches }, patience).Should(Equal(references + 1))
	}
	watches := h.secrets.Status().OpenWatches
	h.Expect(watches).To(BeNumerically("<=", above+2), "those before the number, and the shared one")
	t.Logf("watched after %v by %d watches with %d requests", time.Since(began), watches, requests.Load())
	each := (float64(memory()) - float64(before)) / references // less than 0 if other memory was freed
	more := float64(runtime.NumGoroutine()-goroutines) / references
	t.Logf("each: %.0f bytes, %.3f goroutines", each, more)
	h.Expect(each).To(BeNumerically("<", 48<<10))
	h.Expect(more).To(BeNumerically("<", 2.2))
	atRest := requests.Load()
	h.create(key(7), "1")
	h.is(key(7), "true 1")
	<-time.After(20 * time.Second)
	t.Logf("requests in 20 seconds of rest: %d", requests.Load()-atRest)
}

// The server allows a number of streams for each connection. So a connection
// reads the answers of many watches, in a goroutine of its own.
func goroutinesOfReferences(ctx context.Context, t *testing.T, server *e2e.Cluster, admin kubernetes.Interface) {
	g := NewWithT(t)
	namespace, err := server.Namespace(ctx, "goroutines")
	g.Expect(err).NotTo(HaveOccurred())
	h := newHeld(ctx, t, server.Config(), admin, 10_000)
	defer func() { g.Expect(h.stop()).To(Succeed()) }()
	held := 0
	hold := func(until int) (watches, connections int) {
		for ; held < until; held++ {
			h.secrets.Parts().Hold(types.NamespacedName{Namespace: namespace, Name: fmt.Sprint("s", held)})
		}
		h.Eventually(func() int { return h.secrets.Status().OpenWatches }, 5*time.Minute, time.Second).Should(Equal(until))
		var least map[string]int
		for range 10 { // goroutines of a request end
			<-time.After(time.Second)
			if now := goroutinesByOrigin(g); least == nil || now["all"] < least["all"] {
				least = now
			}
		}
		t.Logf("%d references: %v", until, least)
		connections = least["net/http.(*http2Transport).newClientConn"] +
			least["golang.org/x/net/http2.(*Transport).newClientConn"]
		return least["all"] - connections, connections
	}
	first, connections := hold(500)
	hold(1000)
	last, more := hold(2000)
	each := float64(last-first) / 1500
	t.Logf("each: %.3f goroutines, and %.4f of connections", each, float64(more-connections)/1500)
	// Each watch has two goroutines of net/http and client-go. This package has
	// one for 64 watches.
	h.Expect(each).To(BeNumerically("<=", 2.03))
	h.Expect(float64(more-connections) / 1500).To(BeNumerically("<=", 0.03))
}

// goroutinesByOrigin counts goroutines, by the function that has started them.
func goroutinesByOrigin(g *WithT) map[string]int {
	var text bytes.Buffer
	g.Expect(pprof.Lookup("goroutine").WriteTo(&text, 2)).To(Succeed())
	counts := map[string]int{}
	for stack := range strings.SplitSeq(text.String(), "\n\n") {
		_, origin, _ := strings.Cut(stack, "\ncreated by ")
		origin, _, _ = strings.Cut(origin, " in goroutine ")
		counts[origin]++
		counts["all"]++
	}
	for origin, n := range counts {
		if n < 5 {
			delete(counts, origin)
		}
	}
	return counts
}

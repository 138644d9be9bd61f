package reconcile_test

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/reconcile"
)

// These are inputs that were thought of to break what the documentation of
// reconcile.References and informer.References promises.

// For example, a helper of the function uses require of a test.
func TestAFunctionThatEndsItsGoroutineConcernsItsKeyOnly(t *testing.T) {
	inReferring(t, func(w *referring) {
		links := informer.Referenced(w.cluster.Client().CoreV1().ConfigMaps, &informer.Options{Name: "links"})
		var ends atomic.Bool
		ends.Store(true)
		w.put("other", "link", "secret", "one")
		for _, name := range []string{"a", "b", "c"} {
			w.put("d", name, "link", "other/link")
		}
		w.run(&reconcile.Options{Triggers: []reconcile.Trigger{
			reconcile.References(links, linkOf),
			reconcile.References(w.secrets, func(m *configMap) []reconcile.Key {
				if m.Name == "a" && ends.Load() {
					runtime.Goexit()
				}
				return secretsOf(m)
			}),
		}})
		w.Expect(w.ran()).To(ConsistOf("b", "c"))
		w.Expect(w.failure("a")).To(ContainSubstring("Goexit"))
		w.put("other", "link", "secret", "two")
		w.Expect(w.ran()).To(ConsistOf("b", "c"), "they come after a")
		w.put("d", "a", "link", "other/link2")
		w.put("d", "b", "link", "other/link2")
		w.Expect(w.ran()).To(ConsistOf("b"))
		ends.Store(false)
		pass(time.Hour)
		w.Expect(w.ran()).To(ConsistOf("a"))
		w.Expect(w.c.Stats().Failing).To(BeZero())
	})
}

func TestAFunctionMayReturnOtherKeysAtEachCall(t *testing.T) {
	inReferring(t, func(w *referring) {
		w.putSecret("d", "one", "1")
		w.putMap("a", "one")
		w.putMap("b", "one")
		var calls atomic.Int64
		stop := w.refersTo(func(m *configMap) []reconcile.Key {
			if m.Name == "a" {
				return []reconcile.Key{key(fmt.Sprint("s", calls.Add(1)%7))}
			}
			return secretsOf(m)
		})
		for n := range 20 {
			w.putMap("a", fmt.Sprint(n))
			w.putSecret("d", "one", fmt.Sprint(n))
			w.Expect(w.ran()).To(ContainElement(fmt.Sprint("b one=", n)))
		}
		w.Expect(w.admin.CoreV1().ConfigMaps("d").Delete(w.t.Context(), "a", metav1.DeleteOptions{})).To(Succeed())
		pass(5 * time.Minute)
		w.Expect(w.secrets.Status().References).To(Equal(1), "only b refers")
		w.Expect(stop()).To(Succeed())
		w.Expect(w.secrets.Status().References).To(BeZero())
	})
}

func TestOneKeyOfTwoKindsIsTwoReferences(t *testing.T) {
	inReferring(t, func(w *referring) {
		others := informer.Referenced(w.cluster.Client().CoreV1().ConfigMaps, &informer.Options{Name: "others"})
		w.putMap("a", "other/x")
		w.run(&reconcile.Options{Triggers: []reconcile.Trigger{
			reconcile.References(w.secrets, secretsOf), reconcile.References(others, secretsOf),
		}})
		w.Expect(w.ran()).To(Equal([]string{"a x=none"}))
		w.put("other", "x", "v", "1")
		w.Expect(w.ran()).To(Equal([]string{"a x=none"}))
		w.putSecret("other", "x", "1")
		w.Expect(w.ran()).To(Equal([]string{"a x=1"}))
		w.Expect(w.admin.CoreV1().ConfigMaps("other").Delete(w.t.Context(), "x", metav1.DeleteOptions{})).To(Succeed())
		w.Expect(w.ran()).To(Equal([]string{"a x=1"}), "the Secret is still there")
		w.deny("other", true) // Secrets only
		w.server.DropWatches("operator", "secrets")
		w.ran()
		w.putMap("a", "other/x ")
		w.Expect(w.ran()).To(BeEmpty())
		w.Expect(w.failure("a")).To(ContainSubstring(`watching Secret "other/x"`))
	})
}

func TestAnObjectWithManyReferencesConcernsNoOther(t *testing.T) {
	inReferring(t, func(w *referring) {
		var names []string
		for n := range 300 {
			names = append(names, fmt.Sprint("s", n))
		}
		w.putSecret("other", "one", "1")
		w.putMap("many", strings.Join(names, " "))
		w.putMap("b", "other/one")
		w.run(nil)
		w.Expect(w.ran()).To(ContainElement("b one=1"))
		pass(10 * time.Minute)
		w.putSecret("other", "one", "2")
		w.putSecret("d", "s7", "1")
		w.Expect(w.ran()).To(ConsistOf("b one=2", ContainSubstring(" s7=1 s8=none")))
		w.Expect(w.secrets.Status().References).To(Equal(301))
		w.putMap("many", "")
		pass(10 * time.Minute)
		w.Expect(w.secrets.Status().References).To(Equal(1))
		w.Expect(w.secrets.Status().OpenWatches).To(Equal(1))
	})
}

func TestANamespaceThatIsDeletedAndCreatedAgainIsWatchedAllTheTime(t *testing.T) {
	inReferring(t, func(w *referring) {
		create := func() {
			_, err := w.admin.CoreV1().Namespaces().Create(w.t.Context(),
				&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tenant"}}, metav1.CreateOptions{})
			w.Expect(err).NotTo(HaveOccurred())
		}
		create()
		w.putMap("a", "tenant/x")
		w.putSecret("tenant", "x", "1")
		w.run(nil)
		w.Expect(w.ran()).To(Equal([]string{"a x=1"}))
		for n := range 3 {
			w.deleteSecret("tenant", "x")
			w.Expect(w.admin.CoreV1().Namespaces().Delete(w.t.Context(), "tenant", metav1.DeleteOptions{})).To(Succeed())
			w.Expect(w.ran()).To(Equal([]string{"a x=none"}))
			pass(time.Hour)
			create()
			w.putSecret("tenant", "x", fmt.Sprint(n))
			w.Expect(w.ran()).To(Equal([]string{fmt.Sprint("a x=", n)}))
		}
	})
}

func TestAControllerThatStopsLeavesTheReferencesOfAnotherThatWaits(t *testing.T) {
	inReferring(t, func(w *referring) {
		var down atomic.Bool
		down.Store(true)
		config := w.server.Config("operator")
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				if down.Load() && strings.Contains(r.URL.Path, "/secrets") {
					return nil, syscall.ECONNREFUSED
				}
				return next.RoundTrip(r)
			})
		})
		client, err := kubernetes.NewForConfig(config)
		w.Expect(err).NotTo(HaveOccurred())
		w.secrets = informer.Referenced(client.CoreV1().Secrets, nil)
		w.putMap("a", "one")
		first := w.run(nil)
		second := w.run(nil)
		w.Expect(w.ran()).To(BeEmpty())
		w.Expect(first()).To(Succeed())
		down.Store(false)
		pass(time.Minute)
		w.Expect(w.ran()).To(Equal([]string{"a one=none"}))
		w.putSecret("d", "one", "1")
		w.Expect(w.ran()).To(Equal([]string{"a one=1"}))
		w.Expect(second()).To(Succeed())
		s, ok := w.secrets.Get(key("one"))
		w.Expect(s == nil).To(Equal(!ok), "it may be asked after the stop")
		w.Expect(w.secrets.Status().Running).To(BeFalse())
		w.Expect(w.secrets.IsDeleted(context.Background(), key("one"))).To(BeFalse())
	})
}

func TestATenantWhoseReferencesAreForbiddenLeavesTheControllerReady(t *testing.T) {
	inReferring(t, func(w *referring) {
		w.deny("tenant", true)
		for n := range 5 {
			w.putMap(fmt.Sprint("t", n), "tenant/x")
		}
		w.putMap("b", "one")
		w.run(nil)
		pass(time.Hour)
		w.Expect(w.ran()).To(Equal([]string{"b one=none"}))
		w.Expect(w.c.Stats().Failing).To(Equal(5))
		w.Expect(w.c.Refused()).To(Succeed())
		w.Expect(w.c.Healthy()).To(Succeed())
	})
}

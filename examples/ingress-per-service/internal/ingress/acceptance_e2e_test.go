//go:build e2e

package ingress_test

import (
	"context"
	"net/http"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/examples/ingress-per-service/internal/ingress"
	"github.com/homeostat/homeostat/internal/test/e2e"
	"github.com/homeostat/homeostat/internal/test/stage"
	"github.com/homeostat/homeostat/internal/test/wiretap"
	"github.com/homeostat/homeostat/names"
)

// quiet is for how long a converged controller is watched writing nothing,
// while it looks for orphans again and again.
const (
	quiet = time.Minute
	sweep = 3 * time.Second
)

// A scene is the acceptance scenario up to the moment when the controller is
// back: A deleted, B's Ingress deleted, C's edited, D's without the mark, E
// recreated with another port, F new, G new beside an Ingress of others.
type scene struct {
	namespace string
	d, e, g   *networkingv1.Ingress // before the controller is back
	missed    []string              // the writes that are due
}

func (s *scene) path(name string) string {
	return "/apis/networking.k8s.io/v1/namespaces/" + s.namespace + "/ingresses" + name
}

func set(ctx context.Context) *scene {
	GinkgoHelper()
	s := &scene{namespace: newNamespace(ctx)}
	services, ingresses := cluster.User.CoreV1().Services(s.namespace), cluster.User.NetworkingV1().Ingresses(s.namespace)
	first := start(cluster.Account, &wiretap.Tap{}, nil)
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		expose(ctx, s.namespace, name, 80)
	}
	Eventually(ctx, func() int { return ingressesIn(ctx, s.namespace) }, stage.Patience).Should(Equal(5))
	Expect(first.Stop()).To(Succeed())

	Expect(services.Delete(ctx, "a", metav1.DeleteOptions{})).To(Succeed())
	Expect(ingresses.Delete(ctx, "b", metav1.DeleteOptions{})).To(Succeed())
	c := ingressOf(ctx, s.namespace, "c")
	c.Spec.Rules[0].Host = "elsewhere.example.com"
	_, err := ingresses.Update(ctx, c, metav1.UpdateOptions{})
	Expect(err).NotTo(HaveOccurred())
	d := ingressOf(ctx, s.namespace, "d")
	d.Labels = nil
	s.d, err = ingresses.Update(ctx, d, metav1.UpdateOptions{})
	Expect(err).NotTo(HaveOccurred())
	s.e = ingressOf(ctx, s.namespace, "e")
	Expect(services.Delete(ctx, "e", metav1.DeleteOptions{})).To(Succeed())
	expose(ctx, s.namespace, "e", 9090)
	expose(ctx, s.namespace, "f", 80)
	s.g, err = ingresses.Create(ctx, &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Name: "g"},
		Spec: networkingv1.IngressSpec{DefaultBackend: &networkingv1.IngressBackend{
			Service: &networkingv1.IngressServiceBackend{Name: "x", Port: networkingv1.ServiceBackendPort{Number: 1}},
		}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	expose(ctx, s.namespace, "g", 80)
	s.missed = []string{
		"DELETE " + s.path("/a"), "POST " + s.path(""), "PATCH " + s.path("/c"), "PATCH " + s.path("/e"), "POST " + s.path(""),
	}
	return s
}

// converged looks at everything that must be so afterwards.
func (s *scene) converged(ctx context.Context) {
	GinkgoHelper()
	host := func(name string) string { return ingressOf(ctx, s.namespace, name).Spec.Rules[0].Host }
	Expect(ingressesIn(ctx, s.namespace)).To(Equal(6), "b to g")
	for _, name := range []string{"b", "c", "e", "f"} {
		Expect(host(name)).To(Equal(name + "." + s.namespace + ".example.com"))
	}
	Expect(ingressOf(ctx, s.namespace, "d").ResourceVersion).To(Equal(s.d.ResourceVersion), "d is not touched")
	Expect(ingressOf(ctx, s.namespace, "g").ResourceVersion).To(Equal(s.g.ResourceVersion), "g is not touched")
	e := ingressOf(ctx, s.namespace, "e")
	Expect(e.UID).To(Equal(s.e.UID), "e is changed in place")
	Expect(e.Spec.Rules[0].HTTP.Paths[0].Backend.Service.Port.Number).To(Equal(int32(9090)))
	service, err := cluster.User.CoreV1().Services(s.namespace).Get(ctx, "e", metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	Expect(types.UID(e.Annotations["ingress.homeostat.dev/service-uid"])).To(Equal(service.UID))
}

// warnings counts the Events about Ingresses of others, by Service.
func (s *scene) warnings(ctx context.Context) map[string]int {
	GinkgoHelper()
	all, err := cluster.User.EventsV1().Events(s.namespace).List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	counts := map[string]int{}
	for _, event := range all.Items {
		if event.Reason == "IngressNotOurs" {
			counts[event.Regarding.Name]++
			if event.Series != nil {
				counts[event.Regarding.Name] += int(event.Series.Count)
			}
		}
	}
	return counts
}

// accumulate returns a function that returns all writes so far.
func accumulate(tap *wiretap.Tap) func() []string {
	var all []string
	return func() []string {
		all = append(all, tap.Writes()...)
		return all
	}
}

var _ = Describe("The acceptance scenario", func() {
	It("converges by exactly the writes that are due, and then is quiet", func(ctx SpecContext) {
		s := set(ctx)
		second := start(cluster.Account, &wiretap.Tap{}, &ingress.Options{Sweep: names.Options{Period: sweep}})
		writes := accumulate(second.Tap)
		Eventually(ctx, writes, stage.Patience).Should(HaveLen(len(s.missed)))
		swept(ctx, second)
		Consistently(ctx, writes, quiet, time.Second).Should(ConsistOf(s.missed))
		Expect(second.Sweep().Stats().Sweeps).To(BeNumerically(">=", 3))
		s.converged(ctx)
		Expect(s.warnings(ctx)).To(Equal(map[string]int{"d": 1, "g": 1}))
		Expect(second.Stop()).To(Succeed())
	}, SpecTimeout(5*time.Minute))

	It("deletes nothing when it may not list Ingresses", func(ctx SpecContext) {
		s := set(ctx)
		restricted, err := cluster.ServiceAccount(ctx, e2e.ServiceAccount{
			Namespace: s.namespace, Name: "restricted", ClusterRules: shippedRulesWithout("ingresses", "list", "watch"),
		})
		Expect(err).NotTo(HaveOccurred())
		second := start(restricted, &wiretap.Tap{}, nil)
		Eventually(ctx, func() int { return second.Tap.Counts()[http.MethodGet] }, stage.Patience).ShouldNot(BeZero(), "a list")
		Consistently(ctx, accumulate(second.Tap), 5*time.Second).Should(BeEmpty())
		Expect(second.Sweep().Ready()).NotTo(Succeed())
		Expect(second.Stop()).To(MatchError(And(ContainSubstring("ingresses"), ContainSubstring("forbidden"))))
	}, SpecTimeout(3*time.Minute))

	It("deletes nothing that is live after a stale first list of Services", func(ctx SpecContext) {
		before, err := cluster.User.CoreV1().RESTClient().Get().AbsPath("/api/v1/services").DoRaw(ctx)
		Expect(err).NotTo(HaveOccurred())
		s := set(ctx)
		listed, mute := 0, wiretap.Mute("/api/v1/services")
		tap := &wiretap.Tap{}
		tap.Before = func(r *http.Request) *http.Response {
			if r.URL.Path == "/api/v1/services" && r.Method == http.MethodGet && !wiretap.IsWatch(r) {
				listed++
				return wiretap.Answer(r, http.StatusOK, before)
			}
			return mute(r)
		}
		second := start(cluster.Account, tap, nil)
		writes := accumulate(tap)
		swept(ctx, second)
		Expect(second.Sweep().Stats().Orphans).To(Equal(uint64(3)), "a, c and e have Ingresses of ours; the cache knows no Service")
		Eventually(ctx, writes, stage.Patience).ShouldNot(BeEmpty())
		Consistently(ctx, writes, 5*time.Second).Should(Equal([]string{"DELETE " + s.path("/a")}))
		Expect(second.Stop()).To(Succeed())
		Expect(listed).To(Equal(1))

		third := start(cluster.Account, &wiretap.Tap{}, nil)
		Eventually(ctx, accumulate(third.Tap), stage.Patience).Should(ConsistOf(s.missed[1:]))
		s.converged(ctx)
		Expect(third.Stop()).To(Succeed())
	}, SpecTimeout(3*time.Minute))

	It("does no write twice when it crashes after every write", func(ctx SpecContext) {
		s := set(ctx)
		var all []string
		crashes := 0
		for crashed := true; crashed && crashes < 20; {
			tap := &wiretap.Tap{}
			struck := make(chan struct{}, 100)
			tap.Committed = func(*http.Request) {
				tap.Kill()
				struck <- struct{}{}
			}
			incarnation := start(cluster.Account, tap, nil)
			Eventually(ctx, func() bool {
				return len(struck) > 0 || incarnation.Sweep().Ready() == nil && incarnation.Idle()
			}, stage.Patience).Should(BeTrue())
			crashed = len(struck) > 0
			_ = incarnation.Stop() // a killed process says nothing
			all = append(all, tap.Writes()...)
			if crashed {
				crashes++
			}
		}
		Expect(all).To(ConsistOf(s.missed))
		Expect(crashes).To(BeNumerically(">=", 2))
		s.converged(ctx)
	}, SpecTimeout(3*time.Minute))
})

// shippedRulesWithout returns the rules of the shipped ClusterRole without some
// verbs on one resource. A watch alone would do for a streaming list.
func shippedRulesWithout(resource string, verbs ...string) []rbacv1.PolicyRule {
	GinkgoHelper()
	rules, err := stage.Rules("../../deploy")
	Expect(err).NotTo(HaveOccurred())
	removed := 0
	for i, rule := range rules {
		if rule.Resources[0] == resource {
			kept := slices.DeleteFunc(slices.Clone(rule.Verbs), func(v string) bool { return slices.Contains(verbs, v) })
			removed += len(rule.Verbs) - len(kept)
			rules[i].Verbs = kept
		}
	}
	Expect(removed).To(Equal(len(verbs)))
	return rules
}

package ingress_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clientgo "k8s.io/client-go/testing"

	"github.com/homeostat/homeostat/examples/ingress-per-service/internal/ingress"
	"github.com/homeostat/homeostat/internal/test/stage"
	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/operator"
	"github.com/homeostat/homeostat/reconcile"
)

func TestIngressOfAService(t *testing.T) {
	for name, c := range map[string]struct {
		edit    func(*corev1.Service)
		options *ingress.Options
		host    string
		port    networkingv1.ServiceBackendPort
	}{
		"by default the first port": {nil, nil, "web.d.example.com", networkingv1.ServiceBackendPort{Number: 80}},
		"opted in by annotation": {func(s *corev1.Service) {
			s.Labels, s.Annotations = nil, map[string]string{ingress.ExposeKey: "true"}
		}, nil, "web.d.example.com", networkingv1.ServiceBackendPort{Number: 80}},
		"a port by name": {func(s *corev1.Service) {
			s.Annotations = map[string]string{ingress.PortKey: "admin"}
		}, nil, "web.d.example.com", networkingv1.ServiceBackendPort{Name: "admin"}},
		"a port by number": {func(s *corev1.Service) {
			s.Annotations = map[string]string{ingress.PortKey: "8080"}
		}, nil, "web.d.example.com", networkingv1.ServiceBackendPort{Number: 8080}},
		"another host": {
			nil, &ingress.Options{Host: "{{.Name}}.{{.Namespace}}.test", ClassName: "nginx"},
			"web.d.test",
			networkingv1.ServiceBackendPort{Number: 80},
		},
	} {
		t.Run(name, func(t *testing.T) {
			web := service("web")
			if c.edit != nil {
				c.edit(web)
			}
			inWorld(t, func(w *world) {
				_, stop := w.start(c.options)
				w.Expect(w.writes()).To(Equal([]string{"create ingresses web"}))
				got := w.ingress("web")
				w.Expect(got.Labels).To(Equal(map[string]string{
					"app.kubernetes.io/managed-by": "ingress-per-service", "fromservice": "true",
				}))
				w.Expect(got.Annotations).To(HaveKeyWithValue("ingress.homeostat.dev/service-uid", "uid-of-web"))
				w.Expect(got.Spec.Rules).To(HaveLen(1))
				w.Expect(got.Spec.Rules[0].Host).To(Equal(c.host))
				path := got.Spec.Rules[0].HTTP.Paths[0]
				w.Expect(*path.PathType).To(Equal(networkingv1.PathTypePrefix))
				w.Expect(path.Backend.Service.Name).To(Equal("web"))
				w.Expect(path.Backend.Service.Port).To(Equal(c.port))
				if c.options != nil {
					w.Expect(*got.Spec.IngressClassName).To(Equal(c.options.ClassName))
				}
				stop()
			}, web)
		})
	}
}

func TestServicesWithoutAnIngress(t *testing.T) {
	for name, edit := range map[string]func(*corev1.Service){
		"not opted in":     func(s *corev1.Service) { s.Labels = nil },
		"another value":    func(s *corev1.Service) { s.Labels[ingress.ExposeKey] = "yes" },
		"headless":         func(s *corev1.Service) { s.Spec.ClusterIP = corev1.ClusterIPNone },
		"without a port":   func(s *corev1.Service) { s.Spec.Ports = nil },
		"an external name": func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName },
		"being deleted": func(s *corev1.Service) {
			s.DeletionTimestamp, s.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"a.b/c"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			web := service("web")
			edit(web)
			inWorld(t, func(w *world) {
				_, stop := w.start(nil)
				w.Expect(w.writes()).To(BeEmpty())
				stop()
			}, web)
		})
	}
}

func TestAPortThatDoesNotExistIsReported(t *testing.T) {
	web := service("web")
	web.Annotations = map[string]string{ingress.PortKey: "none"}
	inWorld(t, func(w *world) {
		_, stop := w.start(nil)
		w.Expect(w.writes()).To(BeEmpty())
		w.Expect(w.events()).To(ConsistOf(And(ContainSubstring("NoIngress"), ContainSubstring(`is "none"`))))
		stop()
	}, web)
}

// Options are checked for a short name: with a long one the host may be none.
func TestAHostThatIsTooLongIsReported(t *testing.T) {
	web := service("web")
	inWorld(t, func(w *world) {
		long := strings.Repeat("h.", 123) + "{{.Name}}.{{.Namespace}}" // 251 bytes with web.d, 255 with default
		_, stop := w.start(&ingress.Options{Host: long[4:]})
		w.Expect(w.writes()).To(Equal([]string{"create ingresses web"}))
		w.events()
		longer := service("web-with-more")
		_, err := w.client.CoreV1().Services("d").Create(t.Context(), longer, metav1.CreateOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(w.writes()).To(Equal([]string{"create services web-with-more"}))
		w.Expect(w.events()).To(ConsistOf(And(ContainSubstring("NoIngress"), ContainSubstring("no more than 253"))))
		stop()
	}, web)
}

func TestAServiceWithOnePortHasAnIngress(t *testing.T) {
	web := service("web")
	web.Spec.Ports = web.Spec.Ports[:1]
	inWorld(t, func(w *world) {
		_, stop := w.start(nil)
		w.Expect(w.writes()).To(Equal([]string{"create ingresses web"}))
		stop()
	}, web)
}

func TestAnEditedIngressIsRestored(t *testing.T) {
	inWorld(t, func(w *world) {
		_, stop := w.start(nil)
		w.Expect(w.writes()).To(Equal([]string{"create ingresses web"}))
		ingresses := w.client.NetworkingV1().Ingresses("d")

		w.Expect(ingresses.Delete(t.Context(), "web", metav1.DeleteOptions{})).To(Succeed())
		w.Expect(w.writes()).To(Equal([]string{"delete ingresses web", "create ingresses web"}))

		edited := w.ingress("web")
		edited.Spec.Rules[0].Host = "elsewhere.example.com"
		edited.Annotations["theirs"] = "stays"
		_, err := ingresses.Update(t.Context(), edited, metav1.UpdateOptions{FieldManager: "somebody"})
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(w.writes()).To(Equal([]string{"update ingresses web", "patch ingresses web"}))
		w.Expect(w.ingress("web").Spec.Rules[0].Host).To(Equal("web.d.example.com"))
		w.Expect(w.ingress("web").Annotations).To(HaveKeyWithValue("theirs", "stays"))

		<-time.After(time.Hour)
		w.Expect(w.writes()).To(BeEmpty())
		stop()
	}, service("web"))
}

func TestADeletedOrUnlabelledServiceLosesItsIngress(t *testing.T) {
	inWorld(t, func(w *world) {
		_, stop := w.start(nil)
		w.Expect(w.writes()).To(ConsistOf("create ingresses a", "create ingresses b"))
		w.Expect(w.client.CoreV1().Services("d").Delete(t.Context(), "a", metav1.DeleteOptions{})).To(Succeed())
		w.Expect(w.writes()).To(Equal([]string{"delete services a", "delete ingresses a"}))
		out := service("b")
		out.Labels = nil
		_, err := w.client.CoreV1().Services("d").Update(t.Context(), out, metav1.UpdateOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(w.writes()).To(Equal([]string{"update services b", "delete ingresses b"}))
		stop()
	}, service("a"), service("b"))
}

func TestAForeignIngressIsLeftAloneWithOneEvent(t *testing.T) {
	inWorld(t, func(w *world) {
		_, stop := w.start(nil)
		changed := service("web")
		changed.Annotations = map[string]string{"some": "change"}
		_, err := w.client.CoreV1().Services("d").Update(t.Context(), changed, metav1.UpdateOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(w.writes()).To(Equal([]string{"update services web"}))
		w.Expect(w.events()).To(ConsistOf(ContainSubstring("IngressNotOurs")))

		w.Expect(w.client.CoreV1().Services("d").Delete(t.Context(), "web", metav1.DeleteOptions{})).To(Succeed())
		<-time.After(time.Hour)
		w.Expect(w.writes()).To(Equal([]string{"delete services web"}))
		stop()
	}, service("web"), foreign("web"))
}

func TestAnIngressIsCreatedAfterAForeignOneIsDeleted(t *testing.T) {
	inWorld(t, func(w *world) {
		_, stop := w.start(nil)
		w.Expect(w.client.NetworkingV1().Ingresses("d").Delete(t.Context(), "web", metav1.DeleteOptions{})).To(Succeed())
		w.Expect(w.writes()).To(Equal([]string{"delete ingresses web", "create ingresses web"}))
		stop()
	}, service("web"), foreign("web"))
}

// converged returns the objects of a world in which n Services have their
// Ingress.
func converged(t *testing.T, n int) (services, ingresses []runtime.Object) {
	t.Helper()
	for i := range n {
		services = append(services, service(fmt.Sprintf("s-%03d", i)))
	}
	inWorld(t, func(w *world) {
		_, stop := w.start(nil)
		w.Expect(w.writes()).To(HaveLen(n))
		stop()
		for _, s := range services {
			ingresses = append(ingresses, w.ingress(s.(*corev1.Service).Name))
		}
	}, services...)
	return services, ingresses
}

func TestWhatWasDeletedWhileDownIsCleanedUpOnce(t *testing.T) {
	services, ingresses := converged(t, 5)
	optedOut := services[1].(*corev1.Service).DeepCopy()
	optedOut.Labels = nil
	stage.Simulate(t, nil, func(w *stage.World) {
		w.Expect(w.Sim.Load(slices.Concat(ingresses, []runtime.Object{optedOut}, services[2:])...)).To(Succeed())
		w.Start(func(env operator.Env) (*reconcile.Controller, error) {
			return ingress.New(env.Cluster.Client(), env.Events, nil)
		})
		w.Pass(time.Hour)
		const of = "DELETE /apis/networking.k8s.io/v1/namespaces/d/ingresses/"
		w.Expect(w.Writes()).To(ConsistOf(of+"s-000", of+"s-001"))
	})
}

func TestTheSafetyLimitRefusesToDeleteEverything(t *testing.T) {
	_, ingresses := converged(t, 12)
	inWorld(t, func(w *world) {
		c, stop := w.start(nil)
		<-time.After(time.Hour)
		w.Expect(w.writes()).To(BeEmpty())
		w.Expect(c.Sweep().Ready()).To(MatchError(ContainSubstring("12 of 12 known names are orphans")))
		w.Expect(w.events()).To(ContainElement(ContainSubstring("OrphansRefused")))
		c.Sweep().Confirm(12)
		w.Expect(w.writes()).To(HaveLen(12))
		stop()
	}, ingresses...)
}

func TestConfirmedOrphansPassTheSafetyLimit(t *testing.T) {
	_, ingresses := converged(t, 12)
	inWorld(t, func(w *world) {
		_, stop := w.start(&ingress.Options{Sweep: names.Options{Confirmed: 12}})
		w.Expect(w.writes()).To(HaveLen(12))
		stop()
	}, ingresses...)
}

func TestAStaleFirstListOfServicesDeletesNothingThatIsLive(t *testing.T) {
	services, ingresses := converged(t, 3) // the safety limit lets them pass
	inWorld(t, func(w *world) {
		w.client.PrependReactor("list", "services", func(clientgo.Action) (bool, runtime.Object, error) {
			return true, &corev1.ServiceList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}, nil
		})
		w.client.PrependWatchReactor("services", clientgo.DefaultWatchReactor(watch.NewFake(), nil))
		c, stop := w.start(nil)
		w.Expect(c.Sweep().Stats().Orphans).To(Equal(uint64(3)))
		w.Expect(w.writes()).To(BeEmpty())
		stop()
	}, append(services, ingresses...)...)
}

func TestWithoutTheListOfIngressesNothingIsWritten(t *testing.T) {
	services, ingresses := converged(t, 2)
	inWorld(t, func(w *world) {
		w.client.PrependReactor("list", "ingresses", func(clientgo.Action) (bool, runtime.Object, error) {
			return true, nil, errors.New("ingresses is forbidden")
		})
		c, end := w.run(nil)
		<-time.After(time.Hour)
		w.Expect(w.writes()).To(BeEmpty())
		w.Expect(c.Sweep().Ready()).To(MatchError(names.ErrNotSwept))
		w.Expect(end()).To(MatchError(ContainSubstring("ingresses is forbidden")))
	}, append(services[1:], ingresses...)...)
}

func TestOptionsAreChecked(t *testing.T) {
	for fault, options := range map[string]ingress.Options{
		"Options.Host":          {Host: "{{.Nope}}"},
		"the only placeholders": {Host: "{{.Name"},
		"lowercase":             {Host: "{{.Name}}_{{.Namespace}}"},
		"Options.PathType":      {PathType: "Regex"},
		"Options.ClassName":     {ClassName: "Not A Name"},
		"Options.MaxShare":      {Sweep: names.Options{MaxShare: 2}},
	} {
		t.Run(fault, func(t *testing.T) {
			inWorld(t, func(w *world) {
				_, err := ingress.New(w.client, w.recorder, &options)
				w.Expect(err).To(MatchError(ContainSubstring(fault)))
			})
		})
	}
}

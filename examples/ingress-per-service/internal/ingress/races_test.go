package ingress_test

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/examples/ingress-per-service/internal/ingress"
	"github.com/homeostat/homeostat/internal/absent/absenttest"
	"github.com/homeostat/homeostat/internal/test/stage"
	"github.com/homeostat/homeostat/internal/test/wiretap"
	"github.com/homeostat/homeostat/operator"
	"github.com/homeostat/homeostat/reconcile"
)

const (
	services  = "/api/v1/namespaces/d/services"
	ingresses = "/apis/networking.k8s.io/v1/namespaces/d/ingresses"
)

// inStage calls f with a simulated server, on which the Service web has its
// Ingress. The controller's requests pass before first from then on.
func inStage(t *testing.T, before func(w *stage.World) func(*http.Request) *http.Response, f func(w *stage.World)) {
	t.Helper()
	stage.Simulate(t, nil, func(w *stage.World) {
		w.Expect(w.Sim.Load(service("web"))).To(Succeed())
		if before != nil {
			w.Tap.Before = before(w)
		}
		w.Start(maker(nil))
		f(w)
	})
}

func maker(o *ingress.Options) stage.Maker {
	return func(env operator.Env) (*reconcile.Controller, error) {
		return ingress.New(env.Cluster.Client(), env.Events, o)
	}
}

// changeService changes the Service web as its owner does.
func changeService(w *stage.World, change func(*corev1.Service)) {
	w.T.Helper()
	web, err := w.User.CoreV1().Services("d").Get(w.T.Context(), "web", metav1.GetOptions{})
	w.Expect(err).NotTo(HaveOccurred())
	change(web)
	_, err = w.User.CoreV1().Services("d").Update(w.T.Context(), web, metav1.UpdateOptions{})
	w.Expect(err).NotTo(HaveOccurred())
}

// edit changes the Ingress web as another client does.
func edit(w *stage.World, change func(*networkingv1.Ingress)) {
	w.T.Helper()
	all := w.User.NetworkingV1().Ingresses("d")
	web, err := all.Get(w.T.Context(), "web", metav1.GetOptions{})
	w.Expect(err).NotTo(HaveOccurred())
	change(web)
	_, err = all.Update(w.T.Context(), web, metav1.UpdateOptions{})
	w.Expect(err).NotTo(HaveOccurred())
}

// takeOver edits an Ingress as a client does that claims it.
func takeOver(i *networkingv1.Ingress) {
	i.Labels, i.Annotations, i.Spec.Rules[0].Host = nil, nil, "theirs.example.com"
}

// change is an edit of the Service, from which the controller has to do
// something.
var change = map[string]func(*corev1.Service){
	http.MethodPatch:  func(s *corev1.Service) { s.Annotations = map[string]string{ingress.PortKey: "admin"} },
	http.MethodDelete: func(s *corev1.Service) { s.Labels = nil },
}

// Another client takes the Ingress over after the controller has looked at it,
// and before its request arrives.
func TestAnIngressThatIsTakenOverIsLeftAlone(t *testing.T) {
	for method, change := range change {
		t.Run(method, func(t *testing.T) {
			raced := false
			inStage(t, func(w *stage.World) func(*http.Request) *http.Response {
				return wiretap.Once(method, ingresses+"/web", func(*http.Request) *http.Response {
					raced = true
					edit(w, takeOver)
					return nil
				})
			}, func(w *stage.World) {
				w.Expect(w.Writes()).To(HaveLen(1))
				changeService(w, change)
				w.Pass(time.Hour)
				w.Expect(raced).To(BeTrue())
				w.Expect(w.Writes()).To(BeEmpty())
				got, err := w.User.NetworkingV1().Ingresses("d").Get(t.Context(), "web", metav1.GetOptions{})
				w.Expect(err).NotTo(HaveOccurred())
				w.Expect(got.Spec.Rules[0].Host).To(Equal("theirs.example.com"))
			})
		})
	}
}

// An Ingress is ours by its whole mark: each part of it alone, others may use.
func TestHalfAMarkIsNotOurs(t *testing.T) {
	for name, strip := range map[string]func(*networkingv1.Ingress){
		"another manager":        func(i *networkingv1.Ingress) { i.Labels["app.kubernetes.io/managed-by"] = "helm" },
		"not from a Service":     func(i *networkingv1.Ingress) { delete(i.Labels, "fromservice") },
		"no Service's UID":       func(i *networkingv1.Ingress) { i.Annotations = nil },
		"an empty Service's UID": func(i *networkingv1.Ingress) { i.Annotations["ingress.homeostat.dev/service-uid"] = "" },
	} {
		t.Run(name, func(t *testing.T) {
			inStage(t, nil, func(w *stage.World) {
				w.Expect(w.Writes()).To(HaveLen(1))
				edit(w, func(i *networkingv1.Ingress) { strip(i); i.Spec.Rules[0].Host = "theirs.example.com" })
				w.Expect(w.Writes()).To(BeEmpty(), "it is not written to")
				w.Expect(w.Events.Events).To(Receive(ContainSubstring("IngressNotOurs")))
				w.Expect(w.User.CoreV1().Services("d").Delete(t.Context(), "web", metav1.DeleteOptions{})).To(Succeed())
				w.Pass(time.Hour)
				w.Expect(w.Writes()).To(BeEmpty(), "it is not deleted")
			})
		})
	}
}

func TestWhatFailsIsTriedAgainSoon(t *testing.T) {
	failure := apierrors.NewInternalError(errors.New("try again"))
	nothing := func(*stage.World) {}
	spoil := func(w *stage.World) {
		edit(w, func(i *networkingv1.Ingress) { i.Spec.Rules[0].Host = "theirs.example.com" })
	}
	deleteService := func(w *stage.World) {
		w.Expect(w.User.CoreV1().Services("d").Delete(w.T.Context(), "web", metav1.DeleteOptions{})).To(Succeed())
	}
	optOut := func(w *stage.World) { changeService(w, change[http.MethodDelete]) }
	for name, c := range map[string]struct {
		method, path string
		why          *apierrors.StatusError
		act          func(w *stage.World)
		then         []string
	}{
		"a create": {http.MethodPost, ingresses, failure, nothing, nil},
		"a create that came too early": {
			http.MethodPost, ingresses, apierrors.NewAlreadyExists(networkingv1.Resource("ingresses"), "web"), nothing, nil,
		},
		"an apply":              {http.MethodPatch, ingresses + "/web", failure, spoil, []string{"PATCH " + ingresses + "/web"}},
		"a delete":              {http.MethodDelete, ingresses + "/web", failure, deleteService, []string{"DELETE " + ingresses + "/web"}},
		"the look at a Service": {http.MethodGet, services + "/web", failure, optOut, []string{"DELETE " + ingresses + "/web"}},
	} {
		t.Run(name, func(t *testing.T) {
			failed := false
			inStage(t, func(*stage.World) func(*http.Request) *http.Response {
				return wiretap.Once(c.method, c.path, func(r *http.Request) *http.Response {
					failed = true
					return wiretap.Refuse(r, c.why)
				})
			}, func(w *stage.World) {
				w.Pass(10 * time.Second)
				c.act(w)
				w.Pass(10 * time.Second)
				w.Expect(failed).To(BeTrue())
				w.Expect(w.Writes()).To(Equal(append([]string{"POST " + ingresses}, c.then...)))
			})
		})
	}
}

func TestAnIngressThatIsDeletedAlreadyIsNoFailure(t *testing.T) {
	var run *stage.Run
	stage.Simulate(t, nil, func(w *stage.World) {
		w.Tap.Before = wiretap.Once(http.MethodDelete, ingresses+"/web", func(r *http.Request) *http.Response {
			return wiretap.Refuse(r, apierrors.NewNotFound(networkingv1.Resource("ingresses"), "web"))
		})
		w.Expect(w.Sim.Load(service("web"))).To(Succeed())
		run = w.Start(maker(nil))
		changeService(w, change[http.MethodDelete])
		w.Pass(time.Second)
		w.Expect(run.QueueStats().Retried).To(BeZero())
	})
}

func TestWhatItWritesBearsItsName(t *testing.T) {
	var others atomic.Int32
	inStage(t, func(*stage.World) func(*http.Request) *http.Response {
		return func(r *http.Request) *http.Response {
			if wiretap.IsWrite(r) && r.URL.Query().Get("fieldManager") != ingress.Name {
				others.Add(1)
			}
			return nil
		}
	}, func(w *stage.World) {
		edit(w, func(i *networkingv1.Ingress) { i.Spec.Rules[0].Host = "theirs.example.com" })
		w.Expect(w.Writes()).To(Equal([]string{"POST " + ingresses, "PATCH " + ingresses + "/web"}))
		w.Expect(others.Load()).To(BeZero())
	})
}

func TestAnEditedClassIsRestored(t *testing.T) {
	stage.Simulate(t, nil, func(w *stage.World) {
		w.Expect(w.Sim.Load(service("web"))).To(Succeed())
		w.Start(maker(&ingress.Options{ClassName: "nginx"}))
		w.Expect(w.Writes()).To(HaveLen(1))
		edit(w, func(i *networkingv1.Ingress) { *i.Spec.IngressClassName = "other" })
		w.Expect(w.Writes()).To(Equal([]string{"PATCH " + ingresses + "/web"}))
		edit(w, func(i *networkingv1.Ingress) { w.Expect(*i.Spec.IngressClassName).To(Equal("nginx")) })
	})
}

// A Service that opts in again is warned again about the foreign Ingress.
func TestAServiceThatComesBackIsWarnedAboutAgain(t *testing.T) {
	stage.Simulate(t, nil, func(w *stage.World) {
		w.Expect(w.Sim.Load(service("web"), foreign("web"))).To(Succeed())
		w.Start(maker(nil))
		w.Expect(w.Events.Events).To(Receive(ContainSubstring("IngressNotOurs")))
		changeService(w, change[http.MethodDelete])
		w.Pass(time.Second)
		w.Expect(w.Events.Events).NotTo(Receive())
		changeService(w, func(s *corev1.Service) { s.Labels = map[string]string{ingress.ExposeKey: "true"} })
		w.Pass(time.Second)
		w.Expect(w.Events.Events).To(Receive(ContainSubstring("IngressNotOurs")))
	})
}

// An Ingress that was ours for a while is in the way once more.
func TestAnIngressThatIsTakenBackIsWarnedAboutAgain(t *testing.T) {
	mark := map[string]string{"app.kubernetes.io/managed-by": ingress.Name, "fromservice": "true"}
	stage.Simulate(t, nil, func(w *stage.World) {
		w.Expect(w.Sim.Load(service("web"), foreign("web"))).To(Succeed())
		w.Start(maker(nil))
		w.Expect(w.Events.Events).To(Receive(ContainSubstring("IngressNotOurs")))
		edit(w, func(i *networkingv1.Ingress) {
			i.Labels, i.Annotations = mark, map[string]string{"ingress.homeostat.dev/service-uid": "x"}
		})
		w.Expect(w.Writes()).To(Equal([]string{"PATCH " + ingresses + "/web"}), "the README's way to hand it over")
		edit(w, func(i *networkingv1.Ingress) { i.Labels = nil })
		w.Pass(time.Second)
		w.Expect(w.Events.Events).To(Receive(ContainSubstring("IngressNotOurs")))
	})
}

// noSlots gives this replica none of the Services.
type noSlots struct{}

func (noSlots) Run(ctx context.Context, _ func(context.Context, int) error) error {
	<-ctx.Done()
	return nil
}

func (noSlots) Slot(types.NamespacedName) int { return 0 }

func TestServicesOfOtherReplicasAreLeftToThem(t *testing.T) {
	stage.Simulate(t, nil, func(w *stage.World) {
		w.Expect(w.Sim.Load(service("web"))).To(Succeed())
		w.Start(maker(&ingress.Options{Shards: noSlots{}}))
		w.Pass(time.Hour)
		w.Expect(w.Writes()).To(BeEmpty())
	})
}

// What answers instead of the server with status 409 has no Ingress: the key
// fails until the server answers.
func TestAPageIsNoIngressThatExists(t *testing.T) {
	for _, page := range absenttest.Conflicts() {
		t.Run(page.Name, func(t *testing.T) {
			stage.Simulate(t, nil, func(w *stage.World) {
				var answered atomic.Bool // by the server
				w.Tap.Before = func(r *http.Request) *http.Response {
					if !answered.Load() && r.Method == http.MethodPost && r.URL.Path == ingresses {
						return page.Response(r)
					}
					return nil
				}
				w.Expect(w.Sim.Load(service("web"))).To(Succeed())
				run := w.Start(maker(nil))
				w.Pass(time.Minute)
				w.Expect(run.Status(1).Keys[0].Failure).To(ContainSubstring("creating Ingress d/web"))
				answered.Store(true)
				w.Pass(5 * time.Minute)
				_, err := w.User.NetworkingV1().Ingresses("d").Get(t.Context(), "web", metav1.GetOptions{})
				w.Expect(err).NotTo(HaveOccurred())
			})
		})
	}
}

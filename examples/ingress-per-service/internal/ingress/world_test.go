package ingress_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"

	"github.com/homeostat/homeostat/examples/ingress-per-service/internal/ingress"
	"github.com/homeostat/homeostat/reconcile"
)

// world is a fake API server, with the writes that it received.
type world struct {
	*WithT
	t        *testing.T
	client   *fake.Clientset
	recorder *events.FakeRecorder
}

// inWorld runs f in a bubble of virtual time.
func inWorld(t *testing.T, f func(w *world), objects ...runtime.Object) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f(&world{
			WithT: NewWithT(t), t: t, client: fake.NewClientset(objects...), recorder: events.NewFakeRecorder(100),
		})
	})
}

// start runs a controller until stop is called.
func (w *world) start(o *ingress.Options) (c *reconcile.Controller, stop func()) {
	w.t.Helper()
	c, end := w.run(o)
	return c, func() {
		w.t.Helper()
		w.Expect(end()).To(Succeed())
	}
}

// run runs a controller until end is called, which returns the result of Run.
func (w *world) run(o *ingress.Options) (c *reconcile.Controller, end func() error) {
	w.t.Helper()
	c, err := ingress.New(w.client, w.recorder, o)
	w.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	synctest.Wait()
	return c, func() error {
		cancel()
		return <-ended
	}
}

// writes returns the writes since the last call, in order.
func (w *world) writes() []string {
	synctest.Wait()
	var all []string
	for _, a := range w.client.Actions() {
		switch a.GetVerb() {
		case "get", "list", "watch":
		default:
			name := ""
			switch named := a.(type) {
			case interface{ GetName() string }:
				name = named.GetName()
			case interface{ GetObject() runtime.Object }:
				name = named.GetObject().(metav1.Object).GetName()
			}
			all = append(all, fmt.Sprintf("%s %s %s", a.GetVerb(), a.GetResource().Resource, name))
		}
	}
	w.client.ClearActions()
	return all
}

func (w *world) events() []string {
	synctest.Wait()
	var all []string
	for len(w.recorder.Events) > 0 {
		all = append(all, <-w.recorder.Events)
	}
	return all
}

func (w *world) ingress(name string) *networkingv1.Ingress {
	w.t.Helper()
	got, err := w.client.NetworkingV1().Ingresses("d").Get(w.t.Context(), name, metav1.GetOptions{})
	w.Expect(err).NotTo(HaveOccurred())
	return got
}

func service(name string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "d", Name: name, UID: types.UID("uid-of-" + name),
			Labels: map[string]string{ingress.ExposeKey: "true"},
		},
		Spec: corev1.ServiceSpec{ClusterIP: "10.0.0.1", Ports: []corev1.ServicePort{
			{Name: "http", Port: 80}, {Name: "admin", Port: 8080},
		}},
	}
}

// foreign is an Ingress that another client has written.
func foreign(name string) *networkingv1.Ingress {
	return &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name, UID: types.UID("uid-of-foreign-" + name)},
		Spec: networkingv1.IngressSpec{
			DefaultBackend: &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
				Name: "x", Port: networkingv1.ServiceBackendPort{Number: 1},
			}},
		},
	}
}

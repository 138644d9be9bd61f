//go:build e2e

package ingress_test

import (
	"context"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/examples/ingress-per-service/internal/ingress"
	"github.com/homeostat/homeostat/internal/test/e2e"
	"github.com/homeostat/homeostat/internal/test/stage"
	"github.com/homeostat/homeostat/internal/test/wiretap"
	"github.com/homeostat/homeostat/operator"
	"github.com/homeostat/homeostat/reconcile"
)

func TestE2EIngressPerService(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "ingress-per-service on the real server")
}

var cluster *stage.Cluster

var _ = BeforeSuite(func(ctx SpecContext) {
	cluster = stage.Open(ctx, &e2e.Options{Flags: []string{"kube-apiserver:--service-cluster-ip-range=10.96.0.0/16"}})
	cluster.Deploy(ctx, ingress.Name, "../../deploy")
})

// start runs a controller as a user until it is stopped.
func start(as *rest.Config, tap *wiretap.Tap, o *ingress.Options) *stage.Run {
	GinkgoHelper()
	return cluster.Start(as, tap, func(env operator.Env) (*reconcile.Controller, error) {
		return ingress.New(env.Cluster.Client(), env.Events, o)
	})
}

// swept waits until the controller has looked for orphans.
func swept(ctx context.Context, run *stage.Run) {
	GinkgoHelper()
	Eventually(ctx, func() error { return run.Sweep().Ready() }, stage.Patience).Should(Succeed())
}

// newNamespace returns a namespace whose Services and Ingresses go with the
// spec.
func newNamespace(ctx context.Context) string {
	GinkgoHelper()
	namespace, err := cluster.Namespace(ctx, "web")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		everything := metav1.ListOptions{}
		Expect(cluster.User.NetworkingV1().Ingresses(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, everything)).To(Succeed())
		services, err := cluster.User.CoreV1().Services(namespace).List(ctx, everything)
		Expect(err).NotTo(HaveOccurred())
		for _, service := range services.Items {
			Expect(cluster.User.CoreV1().Services(namespace).Delete(ctx, service.Name, metav1.DeleteOptions{})).To(Succeed())
		}
	})
	return namespace
}

// expose creates a Service that opts in.
func expose(ctx context.Context, namespace, name string, port int32) *corev1.Service {
	GinkgoHelper()
	created, err := cluster.User.CoreV1().Services(namespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{ingress.ExposeKey: "true"}},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: port, TargetPort: intstr.FromInt32(port)}}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	return created
}

func ingressOf(ctx context.Context, namespace, name string) *networkingv1.Ingress {
	GinkgoHelper()
	got, err := cluster.User.NetworkingV1().Ingresses(namespace).Get(ctx, name, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	return got
}

func ingressesIn(ctx context.Context, namespace string) int {
	GinkgoHelper()
	all, err := cluster.User.NetworkingV1().Ingresses(namespace).List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	return len(all.Items)
}

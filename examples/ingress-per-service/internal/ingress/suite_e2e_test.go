//go:build e2e

package ingress_test

import (
	"context"
	"os"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/examples/ingress-per-service/internal/ingress"
	"github.com/homeostat/homeostat/examples/internal/program"
	"github.com/homeostat/homeostat/examples/internal/wiretap"
	"github.com/homeostat/homeostat/internal/e2e"
	"github.com/homeostat/homeostat/reconcile"
)

func TestE2EIngressPerService(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "ingress-per-service on the real server")
}

var (
	cluster *e2e.Cluster
	user    kubernetes.Interface
	account *rest.Config // the ServiceAccount's, with the shipped RBAC
)

// patience is how long anything may take on a busy machine.
const patience = time.Minute

var _ = BeforeSuite(func(ctx SpecContext) {
	var err error
	cluster, err = e2e.Start(ctx, &e2e.Options{
		Progress: GinkgoWriter, Flags: []string{"kube-apiserver:--service-cluster-ip-range=10.96.0.0/16"},
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(cluster.Stop()).To(Succeed()) })
	config := cluster.Config()
	config.QPS = -1
	user, err = kubernetes.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	for _, file := range []string{"namespace.yaml", "rbac.yaml", "deployment.yaml"} {
		manifest, err := os.ReadFile("../../deploy/" + file)
		Expect(err).NotTo(HaveOccurred())
		Expect(cluster.Apply(ctx, string(manifest))).To(Succeed())
	}
	account, err = cluster.As(ctx, ingress.Name, ingress.Name)
	Expect(err).NotTo(HaveOccurred())
	eventuallyMay(ctx, account, "delete", networkingv1.GroupName, "ingresses")
})

// eventuallyMay waits until the server knows the rights of an account.
func eventuallyMay(ctx context.Context, config *rest.Config, verb, group, resource string) {
	GinkgoHelper()
	client, err := kubernetes.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	Eventually(ctx, func(ctx context.Context) (bool, error) {
		review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx,
			&authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
				ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: group, Resource: resource},
			}}, metav1.CreateOptions{})
		if err != nil {
			return false, err
		}
		return review.Status.Allowed, nil
	}, patience).Should(BeTrue())
}

// A run is a running controller.
type run struct {
	*reconcile.Controller
	tap  *wiretap.Tap
	stop func() error // returns what Run did
}

// start runs a controller until stop is called.
func start(config *rest.Config, tap *wiretap.Tap, o *ingress.Options) *run {
	GinkgoHelper()
	ctx, cancel := context.WithCancel(context.Background()) // it outlives the node that starts it
	wired := tap.Config(config)
	client, err := kubernetes.NewForConfig(wired)
	Expect(err).NotTo(HaveOccurred())
	recorder, stopEvents, err := program.Recorder(ctx, wired, ingress.Name)
	Expect(err).NotTo(HaveOccurred())
	c, err := ingress.New(client, recorder, o)
	Expect(err).NotTo(HaveOccurred())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	stopped := false
	stop := func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		defer stopEvents()
		return <-ended
	}
	DeferCleanup(func() { _ = stop() }) // the second call; the first is the spec's
	return &run{Controller: c, tap: tap, stop: stop}
}

// swept waits until the controller has looked for orphans.
func (r *run) swept(ctx context.Context) {
	GinkgoHelper()
	Eventually(ctx, func() error { return r.Sweep().Ready() }, patience).Should(Succeed())
}

// newNamespace returns a namespace whose Services and Ingresses go with the
// spec.
func newNamespace(ctx context.Context) string {
	GinkgoHelper()
	namespace, err := cluster.Namespace(ctx, "web")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		everything := metav1.ListOptions{}
		Expect(user.NetworkingV1().Ingresses(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, everything)).To(Succeed())
		services, err := user.CoreV1().Services(namespace).List(ctx, everything)
		Expect(err).NotTo(HaveOccurred())
		for _, service := range services.Items {
			Expect(user.CoreV1().Services(namespace).Delete(ctx, service.Name, metav1.DeleteOptions{})).To(Succeed())
		}
	})
	return namespace
}

// expose creates a Service that opts in.
func expose(ctx context.Context, namespace, name string, port int32) *corev1.Service {
	GinkgoHelper()
	created, err := user.CoreV1().Services(namespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{ingress.ExposeKey: "true"}},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: port, TargetPort: intstr.FromInt32(port)}}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	return created
}

func ingressOf(ctx context.Context, namespace, name string) *networkingv1.Ingress {
	GinkgoHelper()
	got, err := user.NetworkingV1().Ingresses(namespace).Get(ctx, name, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	return got
}

func ingressesIn(ctx context.Context, namespace string) int {
	GinkgoHelper()
	all, err := user.NetworkingV1().Ingresses(namespace).List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	return len(all.Items)
}

// idle tells whether no key is being worked on or waits.
func (r *run) idle() bool {
	stats := r.QueueStats()
	waiting := stats.Held + stats.Delayed
	for _, lane := range stats.Lanes {
		waiting += lane.Depth
	}
	return waiting == 0
}

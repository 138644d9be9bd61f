//go:build e2e

package defaults_test

import (
	"context"
	"os"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/examples/internal/program"
	"github.com/homeostat/homeostat/examples/internal/wiretap"
	"github.com/homeostat/homeostat/examples/namespace-defaults/internal/defaults"
	"github.com/homeostat/homeostat/internal/e2e"
)

func TestE2ENamespaceDefaults(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "namespace-defaults on the real server")
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
	cluster, err = e2e.Start(ctx, &e2e.Options{Progress: GinkgoWriter})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(cluster.Stop()).To(Succeed()) })
	config := cluster.Config()
	config.QPS = -1
	user, err = kubernetes.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	for _, file := range []string{"namespace.yaml", "rbac.yaml"} {
		manifest, err := os.ReadFile("../../deploy/" + file)
		Expect(err).NotTo(HaveOccurred())
		Expect(cluster.Apply(ctx, string(manifest))).To(Succeed())
	}
	account, err = cluster.As(ctx, defaults.Name, defaults.Name)
	Expect(err).NotTo(HaveOccurred())
	client, err := kubernetes.NewForConfig(account)
	Expect(err).NotTo(HaveOccurred())
	Eventually(ctx, func(ctx context.Context) (bool, error) {
		review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx,
			&authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
				ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "create", Resource: "limitranges"},
			}}, metav1.CreateOptions{})
		return err == nil && review.Status.Allowed, err
	}, patience).Should(BeTrue())
})

func shippedPolicy() *defaults.Policy {
	GinkgoHelper()
	policy, err := defaults.ReadPolicy("../../deploy/policy.yaml")
	Expect(err).NotTo(HaveOccurred())
	return policy
}

// startReal runs a controller until stop is called, or until the end of the
// spec.
func startReal(policy *defaults.Policy, tap *wiretap.Tap) (stop func()) {
	GinkgoHelper()
	ctx, cancel := context.WithCancel(context.Background()) // it outlives the node that starts it
	wired := tap.Config(account)
	client, err := kubernetes.NewForConfig(wired)
	Expect(err).NotTo(HaveOccurred())
	recorder, stopEvents, err := program.Recorder(ctx, wired, defaults.Name)
	Expect(err).NotTo(HaveOccurred())
	c, err := defaults.New(client, policy, &defaults.Options{Events: recorder})
	Expect(err).NotTo(HaveOccurred())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			cancel()
			defer stopEvents()
			Expect(<-ended).To(Succeed())
		}
	}
	DeferCleanup(stop)
	return stop
}

// state is what a namespace has: its owner, and the limits on Pods and CPU that
// it got from us.
type state struct {
	Owner, Pods, MaxCPU string
}

func stateOf(ctx context.Context, name string) func() (state, error) {
	return func() (state, error) {
		var s state
		namespace, err := user.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return s, err
		}
		s.Owner = namespace.Annotations[defaults.OwnerKey]
		ours := metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by=" + defaults.Name}
		quotas, err := user.CoreV1().ResourceQuotas(name).List(ctx, ours)
		if err != nil {
			return s, err
		}
		for _, quota := range quotas.Items {
			s.Pods = quota.Spec.Hard.Pods().String()
		}
		ranges, err := user.CoreV1().LimitRanges(name).List(ctx, ours)
		if err != nil {
			return s, err
		}
		for _, limits := range ranges.Items {
			s.MaxCPU = limits.Spec.Limits[0].Max.Cpu().String()
		}
		return s, nil
	}
}

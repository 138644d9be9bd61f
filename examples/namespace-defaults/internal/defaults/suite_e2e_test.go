//go:build e2e

package defaults_test

import (
	"context"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/examples/namespace-defaults/internal/defaults"
	"github.com/homeostat/homeostat/internal/test/stage"
	"github.com/homeostat/homeostat/internal/test/wiretap"
)

func TestE2ENamespaceDefaults(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "namespace-defaults on the real server")
}

var cluster *stage.Cluster

var _ = BeforeSuite(func(ctx SpecContext) {
	cluster = stage.Open(ctx, nil)
	cluster.Deploy(ctx, defaults.Name, "../../deploy")
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
	run := cluster.Start(cluster.Account, tap, makerOf(policy))
	return func() { Expect(run.Stop()).To(Succeed()) }
}

// state describes a namespace: its owner, and our limits on Pods and CPU.
type state struct {
	Owner, Pods, MaxCPU string
}

func stateOf(ctx context.Context, name string) func() (state, error) {
	return func() (state, error) {
		var s state
		namespace, err := cluster.User.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return s, err
		}
		s.Owner = namespace.Annotations[defaults.OwnerKey]
		ours := metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by=" + defaults.Name}
		quotas, err := cluster.User.CoreV1().ResourceQuotas(name).List(ctx, ours)
		if err != nil {
			return s, err
		}
		for _, quota := range quotas.Items {
			s.Pods = quota.Spec.Hard.Pods().String()
		}
		ranges, err := cluster.User.CoreV1().LimitRanges(name).List(ctx, ours)
		if err != nil {
			return s, err
		}
		for _, limits := range ranges.Items {
			s.MaxCPU = limits.Spec.Limits[0].Max.Cpu().String()
		}
		return s, nil
	}
}

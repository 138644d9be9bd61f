//go:build e2e

package trial_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/examples/reboot/deploy"
	"github.com/homeostat/homeostat/internal/test/e2e"
	"github.com/homeostat/homeostat/internal/test/stage"
)

func TestE2E(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "reboot operator on the real server")
}

var (
	cluster  *e2e.Cluster
	core     kubernetes.Interface
	groups   *api.Client
	programs string
)

var _ = BeforeSuite(func(ctx SpecContext) {
	var err error
	cluster, err = e2e.Start(ctx, &e2e.Options{Progress: GinkgoWriter})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(cluster.Stop()).To(Succeed()) })
	Expect(cluster.Apply(ctx, deploy.Manifest("crd.yaml"))).To(Succeed())
	core, err = kubernetes.NewForConfig(cluster.Config())
	Expect(err).NotTo(HaveOccurred())
	groups, err = api.NewClient(stage.Reach(cluster.Config()))
	Expect(err).NotTo(HaveOccurred())

	programs = GinkgoT().TempDir()
	for _, name := range []string{"controller", "agent", "kubectl-reboot"} {
		out, err := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(programs, name),
			"github.com/homeostat/homeostat/examples/reboot/"+name).CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), string(out))
	}
})

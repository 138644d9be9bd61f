//go:build e2e

package roll_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/onsi/gomega"

	"github.com/homeostat/homeostat/examples/reboot/demo/internal/roll"
	"github.com/homeostat/homeostat/internal/test/e2e"
)

// TestE2ERoll rolls twelve nodes, two at a time, with two controllers at once,
// and kills one of them and two agents on the way.
func TestE2ERoll(t *testing.T) {
	g := gomega.NewWithT(t)
	cluster, err := e2e.Start(t.Context(), &e2e.Options{Progress: t.Output()})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	defer func() { g.Expect(cluster.Stop()).To(gomega.Succeed()) }()

	program := filepath.Join(t.TempDir(), "demo")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../..").CombinedOutput()
	g.Expect(err).NotTo(gomega.HaveOccurred(), "%s", out)

	verdict, err := roll.Run(t.Context(),
		&roll.Options{Kubeconfig: cluster.Kubeconfig(), Program: program, Out: t.Output()})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(verdict.Write(t.Output())).To(gomega.Succeed())
	g.Expect(verdict.Faults).To(gomega.BeEmpty())
	g.Expect(verdict.Rebooted).To(gomega.Equal(roll.DefaultNodes))
	g.Expect(verdict.MostSlots).To(gomega.BeNumerically("<=", roll.DefaultMax))
	g.Expect(verdict.Killed).To(gomega.HaveLen(3))
	g.Expect(verdict.Refused).To(gomega.And(gomega.ContainSubstring("Pod reboot-demo/database-on-node-01"),
		gomega.ContainSubstring("The disruption budget one-must-stay needs 1 healthy pods")))
	g.Expect(verdict.Events).To(gomega.BeNumerically(">", 100))
}

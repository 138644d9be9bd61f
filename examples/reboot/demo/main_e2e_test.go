//go:build e2e

package main

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/onsi/gomega"
)

// The demo as a newcomer runs it, with fewer nodes.
func TestE2EDemoOnASimulatedServer(t *testing.T) {
	g := gomega.NewWithT(t)
	program := filepath.Join(t.TempDir(), "demo")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".").CombinedOutput()
	g.Expect(err).NotTo(gomega.HaveOccurred(), "%s", out)
	out, err = exec.CommandContext(t.Context(), program, "--nodes=6").CombinedOutput()
	t.Logf("%s", out)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(string(out)).To(gomega.And(
		gomega.MatchRegexp(`kubectl --kubeconfig /\S+/kubeconfig get nodes`),
		gomega.MatchRegexp(`controller-1 shows what it does at http://127.0.0.1:\d+/debug/homeostat`),
		gomega.ContainSubstring("VERDICT PASS: 6 of 6 nodes rebooted once"),
		gomega.ContainSubstring("The disruption budget one-must-stay needs 1 healthy pods"),
	))
}

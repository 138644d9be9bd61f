package crd_test

import (
	"flag"
	"os"
	"testing"

	"github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/internal/test/conformance"
	"github.com/homeostat/homeostat/reconcile/reconciletest/crd"
)

// TestSchemaConformance compares the answers about custom resources with a
// schema to the answers of the real server, which the e2e test of
// internal/apisim records.
func TestSchemaConformance(t *testing.T) {
	g := gomega.NewWithT(t)
	definitions, err := crd.Read(os.DirFS("testdata"))
	g.Expect(err).NotTo(gomega.HaveOccurred())
	all, count := conformance.Differences(t, conformance.Scripts(t, "testdata/*.txt"),
		func(s *conformance.Script) []string {
			sim, err := apisim.New(&apisim.Options{Resources: definitions.Parts(), Lifecycle: true})
			g.Expect(err).NotTo(gomega.HaveOccurred())
			return s.Run(t, conformance.World{Config: sim.Admin(), Settle: func(string) {}})
		})
	g.Expect(count).To(gomega.BeNumerically(">=", 150))
	conformance.HoldPage(t, "../../../docs/simulated-server.md", "table of schemas", all, count, *write)
}

var write = flag.Bool("write", false, "write the table of differences")

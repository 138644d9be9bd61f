package apisim_test

import (
	"flag"
	"testing"

	"github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/internal/test/conformance"
)

const tables = "testdata/conformance/table/*.txt"

// simulate plays a script against a simulated server of its own.
func simulate(t *testing.T, s *conformance.Script) []string {
	t.Helper()
	sim, err := apisim.New(&apisim.Options{Resources: customResources(), Lifecycle: true})
	gomega.NewWithT(t).Expect(err).NotTo(gomega.HaveOccurred())
	return s.Run(t, conformance.World{Config: sim.Admin(), Settle: func(string) { sim.Collector().Run() }})
}

func customAndBuiltin() []apisim.Resource { return append(apisim.Builtin(), customResources()...) }

// TestConformanceTable compares the simulated server with the recorded answers.
// It may differ only where the table in the documentation says so. The flag
// -write writes that table. TestE2EConformanceTable compares the real server
// with the recorded answers.
func TestConformanceTable(t *testing.T) {
	g := gomega.NewWithT(t)
	all, count := conformance.Differences(t, conformance.Scripts(t, tables), func(s *conformance.Script) []string {
		return simulate(t, s)
	})
	conformance.HoldPage(t, "../../docs/simulated-server.md", "table", all, count, *write)
	g.Expect(count).To(gomega.BeNumerically(">=", 600))
}

// TestARepeatedScriptAsksForOtherNodePorts plays scripts twice on one server, on
// which the first time has taken the node ports.
func TestARepeatedScriptAsksForOtherNodePorts(t *testing.T) {
	g := gomega.NewWithT(t)
	played := 0
	for _, s := range conformance.Scripts(t, "testdata/conformance/table/refusals.txt") {
		if s.Title != "refusals: two ports of a Service with one number" {
			continue
		}
		played++
		sim, err := apisim.New(&apisim.Options{})
		g.Expect(err).NotTo(gomega.HaveOccurred())
		w := conformance.World{Config: sim.Admin(), Settle: func(string) {}}
		first := s.Run(t, w)
		g.Expect(first).To(gomega.ContainElement(gomega.ContainSubstring("odePort=30083")))
		g.Expect(s.InNewNamespace(1).Run(t, w)).To(gomega.Equal(first))
	}
	g.Expect(played).To(gomega.Equal(1))
}

var write = flag.Bool("write", false, "write the table of differences")

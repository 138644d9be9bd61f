package metrics_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/metrics"
)

// Two informers of a program, without a controller, may have the same name.
func TestTheProblemsOfInformersWithoutAControllerAreCounted(t *testing.T) {
	g, registry := NewWithT(t), prometheus.NewRegistry()
	refused := []informer.Problem{{Cause: "Unauthorized"}}
	registry.MustRegister(metrics.Informers(func() []informer.Status {
		return []informer.Status{
			{Name: "pods", Kind: "Pod", Synced: true, Problems: refused},
			{Name: "pods", Kind: "PartialObjectMetadata", Synced: true, Problems: refused},
		}
	}))
	const want = "# HELP homeostat_problems Problems in spite of which the process keeps working, by cause. " +
		"/readyz names them.\n# TYPE homeostat_problems gauge\n" +
		`homeostat_problems{cause="Unauthorized",check="informer/pods"} 2` + "\n"
	g.Expect(testutil.GatherAndCompare(registry, strings.NewReader(want), "homeostat_problems")).To(Succeed())
}

package metrics_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	dto "github.com/prometheus/client_model/go"

	"github.com/homeostat/homeostat/reconcile"
)

// The metrics in the rules and the dashboard of examples/monitoring are served.
func TestTheRulesAskForMetricsThatAreServed(t *testing.T) {
	served := map[string]bool{}
	note := func(s *fixture) {
		families, err := s.registry.Gather()
		s.Expect(err).NotTo(HaveOccurred())
		for _, f := range families {
			served[f.GetName()] = true
			if f.GetType() == dto.MetricType_HISTOGRAM {
				for _, part := range []string{"_bucket", "_sum", "_count"} {
					served[f.GetName()+part] = true
				}
			}
		}
	}
	inEverything(t, note)
	inBubble(t, nil, func(s *fixture) {
		s.controller("test", &reconcile.Options{Shards: threeSlots{}}, idle)
		s.register()
		note(s)
	})
	metric := regexp.MustCompile(`\b(?:homeostat|controller_runtime|workqueue)_\w+`)
	for file, least := range map[string]int{"alerts.yaml": 12, "adapter.yaml": 3, "dashboard.json": 25} {
		g := NewWithT(t)
		text, err := os.ReadFile("../examples/monitoring/" + file)
		g.Expect(err).NotTo(HaveOccurred())
		asked := 0
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, "as:") { // what an adapter calls it
				continue
			}
			for _, name := range metric.FindAllString(line, -1) {
				asked++
				g.Expect(served).To(HaveKey(name), file)
			}
		}
		g.Expect(asked).To(BeNumerically(">=", least), file)
	}
}

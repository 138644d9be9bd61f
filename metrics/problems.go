package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/homeostat/homeostat/reconcile/inspect"
)

var problems = describe("homeostat_problems",
	"Problems in spite of which the process keeps working, by cause. /readyz names them.",
	"check", "cause")

// problems sends the number of problems of each check, by cause.
func (s sender) problems(list []inspect.Problem) {
	counts := map[[2]string]int{}
	for _, p := range list {
		counts[[2]string(valid([]string{p.Check, p.Cause}))] += 1 + max(p.More, 0)
	}
	for labels, n := range counts {
		s.gauge(float64(n), problems, labels[:]...)
	}
}

// Problems returns a collector of homeostat_problems for the problems that find
// returns. These are problems of the program, apart from its controllers; see
// status.Options.Problems. No other collector may have a check of the same
// name. The collector is safe for concurrent use if find is.
func Problems(find func() []inspect.Problem) prometheus.Collector { return problemCollector(find) }

type problemCollector func() []inspect.Problem

// Describe sends no descriptors, since the metrics depend on the problems.
func (c problemCollector) Describe(chan<- *prometheus.Desc) {}

// Collect sends the number of current problems, by check and cause.
func (c problemCollector) Collect(metrics chan<- prometheus.Metric) {
	sender{metrics: metrics}.problems(c())
}

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/homeostat/homeostat/reconcile/inspect"
)

var problems = named("homeostat_problems",
	"Things that do not work although the process goes on with everything else, by cause: /readyz names them.",
	"check", "cause")

// problems sends how many problems of each cause each check has.
func (s sender) problems(all []inspect.Problem) {
	counts := map[[2]string]int{}
	for _, p := range all {
		counts[[2]string{p.Check, p.Cause}] += 1 + p.More
	}
	for labels, n := range counts {
		s.gauge(float64(n), problems, labels[:]...)
	}
}

// Problems returns a collector of homeostat_problems for what find returns: the
// problems of a program that are none of its controllers, see
// status.Options.Problems. Their checks must not have the names of those in another
// collector. It is safe for concurrent use if find is.
func Problems(find func() []inspect.Problem) prometheus.Collector { return found(find) }

type found func() []inspect.Problem

// Describe sends nothing: the metrics depend on what is found.
func (f found) Describe(chan<- *prometheus.Desc) {}

// Collect sends the problems of this moment.
func (f found) Collect(out chan<- prometheus.Metric) { sender{out: out}.problems(f()) }

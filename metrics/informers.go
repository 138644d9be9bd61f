package metrics

import (
	"cmp"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/parts"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// Informers returns a collector of the homeostat_informer metrics of informers
// that belong to no controller, and of homeostat_problems for their problems.
// For example, it shows the informers of a clientgo.Informers:
//
//	registry.MustRegister(metrics.Informers(informers.Status))
//
// The collector calls statuses at each scrape; statuses must not wait. It adds
// a number to the name of an informer if an earlier one has the same name and
// kind. Other collectors in the same registry must not have informers with the
// same names; otherwise scrapes fail. The registry does not notice this when a
// second collector is registered. So register one collector for the informers of
// all managers of a process. See also [New].
func Informers(statuses func() []informer.Status) prometheus.Collector {
	return statusCollector(statuses)
}

type statusCollector func() []informer.Status

// Describe sends no descriptors, since the set of metrics depends on the
// informers.
func (statusCollector) Describe(chan<- *prometheus.Desc) {}

// Collect sends the current state of the informers.
func (c statusCollector) Collect(metrics chan<- prometheus.Metric) {
	type identity struct{ name, kind string }
	counts := map[identity]int{}
	var problems []inspect.Problem
	for _, status := range c() {
		for _, p := range status.Problems {
			p.Check = cmp.Or(p.Check, parts.InformerCheck(status.Name))
			problems = append(problems, p)
		}
		id := identity{status.Name, status.Kind}
		if counts[id]++; counts[id] > 1 {
			status.Name = fmt.Sprintf("%s-%d", status.Name, counts[id])
		}
		sender{metrics: metrics}.informer(&inspect.InformerStatus{Status: status})
	}
	sender{metrics: metrics}.problems(problems)
}

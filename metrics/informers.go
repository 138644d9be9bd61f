package metrics

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// Informers returns a collector of the homeostat_informer metrics of informers that
// belong to no controller, such as those of clientgo.Informers:
//
//	registry.MustRegister(metrics.Informers(informers.Status))
//
// statuses is called for each scrape, and must not wait. An informer with the name and
// kind of an earlier one gets a number. Controllers of one registry with these informers
// must not have any of the same name and kind, see [New].
func Informers(statuses func() []informer.Status) prometheus.Collector { return running(statuses) }

type running func() []informer.Status

// Describe sends nothing: the set of metrics depends on the informers.
func (running) Describe(chan<- *prometheus.Desc) {}

// Collect sends the state of this moment.
func (r running) Collect(metrics chan<- prometheus.Metric) {
	type identity struct{ name, kind string }
	known := map[identity]int{}
	for _, status := range r() {
		of := identity{status.Name, status.Kind}
		if known[of]++; known[of] > 1 {
			status.Name = fmt.Sprintf("%s-%d", status.Name, known[of])
		}
		sender{metrics: metrics}.informer(&inspect.InformerStatus{Status: status})
	}
}

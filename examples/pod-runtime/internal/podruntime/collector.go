package podruntime

import (
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/homeostat/homeostat/informer"
)

var (
	totalDesc = prometheus.NewDesc("pod_runtime_seconds_total",
		"How long all Pods of a namespace together have run.", []string{"namespace"}, nil)
	unseenDesc = prometheus.NewDesc("pod_runtime_unseen_seconds_total",
		"How much longer Pods that vanished while the controller was down may have run.", []string{"namespace"}, nil)
)

// A Collector is a prometheus.Collector that shows the ledgers in the cache. So
// a metric never shows a total that was not stored on the server.
type Collector struct {
	ledgers *informer.Informer[*corev1.ConfigMap]
}

// Describe sends the descriptions of the metrics.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	ch <- totalDesc
	ch <- unseenDesc
}

// Collect sends the current values.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	for object := range c.ledgers.Snapshot().All() {
		if object.Labels[managedByKey] != Name {
			continue
		}
		l, err := parse(object.Data)
		if err != nil {
			continue // the reconcile of the ledger reports the error
		}
		counter := prometheus.CounterValue
		ch <- prometheus.MustNewConstMetric(totalDesc, counter, float64(l.Total), object.Namespace)
		ch <- prometheus.MustNewConstMetric(unseenDesc, counter, float64(l.Unseen), object.Namespace)
	}
}

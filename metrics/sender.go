package metrics

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
)

// sender sends the constant metrics of one scrape.
type sender struct {
	metrics chan<- prometheus.Metric
}

func (s sender) send(kind prometheus.ValueType, value float64, m *prometheus.Desc, labels ...string) {
	s.metrics <- prometheus.MustNewConstMetric(m, kind, value, valid(labels)...)
}

func (s sender) count(value uint64, m *prometheus.Desc, labels ...string) {
	s.send(prometheus.CounterValue, float64(value), m, labels...)
}

func (s sender) gauge(value float64, m *prometheus.Desc, labels ...string) {
	s.send(prometheus.GaugeValue, value, m, labels...)
}

// valueOf returns 1 for true and 0 for false.
func valueOf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// histogram sends a histogram. buckets holds cumulative counts by upper bound.
func (s sender) histogram(count uint64, sum float64, buckets map[float64]uint64, m *prometheus.Desc, labels ...string) {
	s.metrics <- prometheus.MustNewConstHistogram(m, count, sum, buckets, valid(labels)...)
}

// valid returns the labels in a form that Prometheus accepts. A program may
// choose names that are not valid UTF-8, and a single such label would make
// every scrape fail.
func valid(labels []string) []string {
	if !slices.ContainsFunc(labels, func(label string) bool { return !utf8.ValidString(label) }) {
		return labels
	}
	labels = slices.Clone(labels)
	for i := range labels {
		labels[i] = strings.ToValidUTF8(labels[i], string(utf8.RuneError))
	}
	return labels
}

// describe returns the description of a metric. help must end with a full stop.
func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

package metrics

import (
	"context"
	"net/url"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientmetrics "k8s.io/client-go/tools/metrics"
)

// requestBuckets are those of Kubernetes' own controllers.
var requestBuckets = []float64{0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60}

// Requests returns a collector of the requests that client-go makes, for all
// clients of the process: rest_client_requests_total,
// rest_client_request_retries_total, rest_client_request_duration_seconds and
// rest_client_rate_limiter_duration_seconds.
//
// client-go reports to one collector in a process. Every call returns the same
// collector, which counts from the first call on. It stays empty if another
// library, such as component-base, has registered with client-go before. It is safe
// for concurrent use.
func Requests() prometheus.Collector { return requests() }

var requests = sync.OnceValue(func() *requestCollector {
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"code", "method", "host"})
	}
	histogram := func(name, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: requestBuckets},
			[]string{"verb", "host"})
	}
	c := &requestCollector{
		results:   counter("rest_client_requests_total", "Requests, by status code, method and host."),
		retries:   counter("rest_client_request_retries_total", "Requests that were repeated, by code, method and host."),
		durations: histogram("rest_client_request_duration_seconds", "How long requests took, by verb and host."),
		throttled: histogram("rest_client_rate_limiter_duration_seconds",
			"How long requests waited for the client's own rate limiter, by verb and host."),
	}
	clientmetrics.Register(clientmetrics.RegisterOpts{
		RequestResult: c, RequestRetry: c,
		RequestLatency: latency{c.durations}, RateLimiterLatency: latency{c.throttled},
	})
	return c
})

// requestCollector receives the counts of client-go.
type requestCollector struct {
	results, retries     *prometheus.CounterVec
	durations, throttled *prometheus.HistogramVec
}

// Describe sends the descriptions of all vectors.
func (c *requestCollector) Describe(out chan<- *prometheus.Desc) {
	for _, vector := range []prometheus.Collector{c.results, c.retries, c.durations, c.throttled} {
		vector.Describe(out)
	}
}

// Collect sends the present values.
func (c *requestCollector) Collect(out chan<- prometheus.Metric) {
	for _, vector := range []prometheus.Collector{c.results, c.retries, c.durations, c.throttled} {
		vector.Collect(out)
	}
}

// Increment counts an answer.
func (c *requestCollector) Increment(_ context.Context, code, method, host string) {
	c.results.WithLabelValues(code, method, host).Inc()
}

// IncrementRetry counts a repeated request.
func (c *requestCollector) IncrementRetry(_ context.Context, code, method, host string) {
	c.retries.WithLabelValues(code, method, host).Inc()
}

// latency receives durations by verb and host.
type latency struct{ *prometheus.HistogramVec }

func (l latency) Observe(_ context.Context, verb string, u url.URL, took time.Duration) {
	l.WithLabelValues(verb, u.Host).Observe(took.Seconds())
}

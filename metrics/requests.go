package metrics

import (
	"context"
	"net/url"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientmetrics "k8s.io/client-go/tools/metrics"
)

// requestBuckets are the upper bounds of the buckets, in seconds. Kubernetes'
// own controllers have the same ones.
var requestBuckets = []float64{0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60}

// Requests returns a collector of the requests that client-go makes, for all
// clients of the process: rest_client_requests_total,
// rest_client_request_retries_total, rest_client_request_duration_seconds and
// rest_client_rate_limiter_duration_seconds.
//
// client-go reports to one collector in a process. Every call returns the same
// collector. It counts from the first call on. It stays empty if another
// library, such as component-base, has already registered with client-go. It is
// safe for concurrent use.
func Requests() prometheus.Collector { return requests() }

var requests = sync.OnceValue(func() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	counts := func(name, help string) counter {
		vector := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"code", "method", "host"})
		registry.MustRegister(vector)
		return counter{vector}
	}
	durations := func(name, help string) latency {
		vector := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: requestBuckets},
			[]string{"verb", "host"})
		registry.MustRegister(vector)
		return latency{vector}
	}
	clientmetrics.Register(clientmetrics.RegisterOpts{
		RequestResult:  counts("rest_client_requests_total", "Requests, by status code, method and host."),
		RequestRetry:   counts("rest_client_request_retries_total", "Requests that were repeated, by code, method and host."),
		RequestLatency: durations("rest_client_request_duration_seconds", "How long requests took, by verb and host."),
		RateLimiterLatency: durations("rest_client_rate_limiter_duration_seconds",
			"How long requests waited for the client's own rate limiter, by verb and host."),
	})
	return registry
})

// counter receives counts of requests.
type counter struct{ *prometheus.CounterVec }

// Increment counts a request by the status code of its answer, its method and
// its host.
func (c counter) Increment(_ context.Context, code, method, host string) {
	c.WithLabelValues(code, method, host).Inc()
}

// IncrementRetry counts a repeated request.
func (c counter) IncrementRetry(ctx context.Context, code, method, host string) {
	c.Increment(ctx, code, method, host)
}

// latency receives durations by verb and host.
type latency struct{ *prometheus.HistogramVec }

// Observe records the duration of a request.
func (l latency) Observe(_ context.Context, verb string, u url.URL, took time.Duration) {
	l.WithLabelValues(verb, u.Host).Observe(took.Seconds())
}

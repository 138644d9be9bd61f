// Package queue_test measures package queue beside the queues of client-go and
// controller-runtime, and proves that controller-runtime accepts it.
package queue_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"

	"github.com/homeostat/homeostat/queue"
	adapter "github.com/homeostat/homeostat/queue/workqueue"
)

type key = types.NamespacedName

// A dispatch is a key in the hands of a worker; ours carries its item.
type dispatch struct {
	key  key
	item queue.Item[key]
}

// A subject is a queue under measurement.
type subject interface { //nolint:interfacebloat // it is every call that is measured
	add(k key)
	addBackground(k key)
	addAfter(k key, d time.Duration)
	get() dispatch
	done(d dispatch)
	// whole adds k, gets it, and is done with it.
	whole(k key)
	// retry counts a failure of k and adds it with back-off.
	retry(k key)
	forget(k key)
	stop()
}

// impls are the rivals. Ours has lanes, causes and metrics on in each row; the
// others have them only where the name says so.
var impls = []struct {
	name string
	make func() subject
}{
	{"homeostat", newOurs},
	{"homeostat-as-workqueue", newOursAdapted},
	{"client-go", func() subject { return newClientGo(nil) }},
	{"client-go+prometheus", func() subject { return newClientGo(newProvider()) }},
	{"controller-runtime", func() subject { return newRuntime("") }},
	{"controller-runtime+prometheus", func() subject { return newRuntime("bench") }},
}

// each runs f as a sub-benchmark for every rival.
func each(b *testing.B, f func(b *testing.B, s subject)) {
	for _, impl := range impls {
		b.Run("impl="+impl.name, func(b *testing.B) {
			b.ReportAllocs()
			s := impl.make()
			defer s.stop()
			before := cpu(b)
			f(b, s)
			b.ReportMetric(float64((cpu(b)-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
		})
	}
}

// cpu returns the processor time of this process, background work included. It
// is more precise than elapsed time on a shared machine.
func cpu(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func keys(n int) []key {
	all := make([]key, n)
	for i := range all {
		all[i] = key{Namespace: fmt.Sprintf("namespace-%d", i%100), Name: fmt.Sprintf("name-%08d", i)}
	}
	return all
}

// ours adds with a cause, as controllers do for each event.
type ours struct {
	q      *queue.Queue[key]
	ctx    context.Context // the context of the controller, which ends
	cancel context.CancelFunc
}

func newOurs() subject {
	q, err := queue.New[key](nil)
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	return ours{q, ctx, cancel}
}

func (s ours) add(k key) {
	s.q.AddWithOptions(k, queue.AddOptions{Cause: queue.Cause{
		Trigger: "pods", Namespace: k.Namespace, Name: k.Name,
		Type: "updated", OldVersion: "1234567", NewVersion: "1234568",
	}})
}

func (s ours) addBackground(k key) {
	s.q.AddWithOptions(k, queue.AddOptions{Lane: queue.Background})
}

func (s ours) addAfter(k key, d time.Duration) {
	s.q.AddWithOptions(k, queue.AddOptions{After: d}) // like Item.After, which has no cause
}

func (s ours) get() dispatch {
	item, err := s.q.Get(s.ctx)
	if err != nil {
		return dispatch{}
	}
	return dispatch{item.Key(), item}
}

func (s ours) done(d dispatch) { d.item.Done() }

func (s ours) whole(k key) {
	s.add(k)
	item, _ := s.q.Get(s.ctx)
	item.Done()
}

// retry needs a dispatch, as nothing fails without one.
func (s ours) retry(k key) {
	s.add(k)
	s.get().item.Retry()
}

func (s ours) forget(k key) { s.q.Cancel(k); s.q.Forget(k) }

func (s ours) stop() {
	s.q.Stop()
	s.cancel()
}

// theirs is any queue of client-go's interface.
type theirs struct {
	workqueue.TypedRateLimitingInterface[key]
}

func newOursAdapted() subject {
	q, err := queue.New[key](nil)
	if err != nil {
		panic(err)
	}
	return theirs{adapter.New(q, nil)}
}

func newClientGo(p workqueue.MetricsProvider) subject {
	c := workqueue.TypedRateLimitingQueueConfig[key]{}
	if p != nil {
		c.Name, c.MetricsProvider = "bench", p
	}
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[key](100*time.Millisecond, 5*time.Minute)
	return theirs{workqueue.NewTypedRateLimitingQueueWithConfig(limiter, c)}
}

func (s theirs) add(k key)                       { s.Add(k) }
func (s theirs) addBackground(k key)             { s.Add(k) }
func (s theirs) addAfter(k key, d time.Duration) { s.AddAfter(k, d) }
func (s theirs) done(d dispatch)                 { s.Done(d.key) }
func (s theirs) retry(k key)                     { s.AddRateLimited(k) }
func (s theirs) forget(k key)                    { s.Forget(k) }
func (s theirs) stop()                           { s.ShutDown() }

func (s theirs) whole(k key) {
	s.Add(k)
	got, _ := s.Get()
	s.Done(got)
}

func (s theirs) get() dispatch {
	k, _ := s.Get()
	return dispatch{key: k}
}

// runtime is controller-runtime's queue, which knows priorities.
type runtime struct {
	theirs
	q priorityqueue.PriorityQueue[key]
}

// newRuntime counts nothing without a name.
func newRuntime(name string) subject {
	q := priorityqueue.New[key](name)
	return runtime{theirs{q}, q}
}

func (s runtime) addBackground(k key) {
	low := -100
	s.q.AddWithOpts(priorityqueue.AddOpts{Priority: &low}, k)
}

// provider makes Prometheus metrics as controller-runtime registers them.
type provider struct{ registry *prometheus.Registry }

func newProvider() workqueue.MetricsProvider { return provider{prometheus.NewRegistry()} }

func (p provider) gauge(metric, name string) prometheus.Gauge {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: metric}, []string{"name"})
	p.registry.MustRegister(v)
	return v.WithLabelValues(name)
}

func (p provider) counter(metric, name string) prometheus.Counter {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: metric}, []string{"name"})
	p.registry.MustRegister(v)
	return v.WithLabelValues(name)
}

func (p provider) histogram(metric, name string) prometheus.Observer {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: metric, Buckets: prometheus.ExponentialBuckets(10e-9, 10, 12),
	}, []string{"name"})
	p.registry.MustRegister(v)
	return v.WithLabelValues(name)
}

func (p provider) NewDepthMetric(n string) workqueue.GaugeMetric  { return p.gauge("depth", n) }
func (p provider) NewAddsMetric(n string) workqueue.CounterMetric { return p.counter("adds", n) }
func (p provider) NewLatencyMetric(n string) workqueue.HistogramMetric {
	return p.histogram("latency", n)
}

func (p provider) NewWorkDurationMetric(n string) workqueue.HistogramMetric {
	return p.histogram("duration", n)
}

func (p provider) NewUnfinishedWorkSecondsMetric(n string) workqueue.SettableGaugeMetric {
	return p.gauge("unfinished", n)
}

func (p provider) NewLongestRunningProcessorSecondsMetric(n string) workqueue.SettableGaugeMetric {
	return p.gauge("longest", n)
}

func (p provider) NewRetriesMetric(n string) workqueue.CounterMetric {
	return p.counter("retries", n)
}

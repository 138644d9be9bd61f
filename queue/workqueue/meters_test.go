package workqueue_test

import (
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	clientgo "k8s.io/client-go/util/workqueue"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/homeostat/homeostat/queue"
	"github.com/homeostat/homeostat/queue/workqueue"
)

// A gauge stands in for each of client-go's kinds of metric.
type gauge struct {
	mu    sync.Mutex // guards the fields below
	value float64
	seen  []float64
}

func (m *gauge) change(f func()) { m.mu.Lock(); defer m.mu.Unlock(); f() }
func (m *gauge) Inc()            { m.change(func() { m.value++ }) }
func (m *gauge) Dec()            { m.change(func() { m.value-- }) }
func (m *gauge) Set(v float64)   { m.change(func() { m.value = v }) }
func (m *gauge) Observe(v float64) {
	m.change(func() { m.seen = append(m.seen, v) })
}

func (m *gauge) get() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.value
}

type gauges struct {
	names                                                      []string
	depth, adds, latency, duration, unfinished, longest, retry gauge
}

func (p *gauges) named(name string, m *gauge) *gauge { p.names = append(p.names, name); return m }

func (p *gauges) NewDepthMetric(name string) clientgo.GaugeMetric {
	return p.named(name, &p.depth)
}

func (p *gauges) NewAddsMetric(name string) clientgo.CounterMetric {
	return p.named(name, &p.adds)
}

func (p *gauges) NewLatencyMetric(name string) clientgo.HistogramMetric {
	return p.named(name, &p.latency)
}

func (p *gauges) NewWorkDurationMetric(name string) clientgo.HistogramMetric {
	return p.named(name, &p.duration)
}

func (p *gauges) NewUnfinishedWorkSecondsMetric(name string) clientgo.SettableGaugeMetric {
	return p.named(name, &p.unfinished)
}

func (p *gauges) NewLongestRunningProcessorSecondsMetric(name string) clientgo.SettableGaugeMetric {
	return p.named(name, &p.longest)
}

func (p *gauges) NewRetriesMetric(name string) clientgo.CounterMetric {
	return p.named(name, &p.retry)
}

func TestMetrics(t *testing.T) {
	g := NewWithT(t)
	m := &gauges{}
	fake := testingclock.NewFakeClock(time.Unix(0, 0))
	q := adapted(t, &queue.Options[string]{Name: "test", Clock: fake}, &workqueue.Options[string]{Metrics: m})
	g.Expect(m.names).To(HaveLen(7))
	g.Expect(m.names).To(HaveEach("test"))

	q.Add("a")
	g.Expect(m.adds.get()).To(Equal(1.0))
	g.Expect(m.depth.get()).To(Equal(1.0))

	fake.Step(50 * time.Microsecond)
	q.Get()
	g.Expect(m.latency.seen).To(Equal([]float64{5e-05}))
	g.Expect(m.depth.get()).To(Equal(0.0))

	for range 5 {
		q.Add("a")
	}
	g.Expect(m.adds.get()).To(Equal(2.0), "many additions while the key is held are one")
	g.Expect(m.depth.get()).To(Equal(1.0), "and the key counts as waiting")

	fake.Step(25 * time.Microsecond)
	q.Done("a")
	g.Expect(m.duration.seen).To(Equal([]float64{2.5e-05}))
	g.Expect(m.adds.get()).To(Equal(2.0))
	g.Expect(m.depth.get()).To(Equal(1.0))

	q.Get()
	g.Expect(m.latency.seen).To(Equal([]float64{5e-05, 2.5e-05}), "it has waited since it was added")
	g.Expect(m.depth.get()).To(Equal(0.0))

	g.Eventually(func() float64 {
		fake.Step(500 * time.Millisecond)
		return m.unfinished.get()
	}, time.Minute).Should(BeNumerically(">", 0))
	g.Expect(m.longest.get()).To(BeNumerically(">", 0))
	q.Done("a")
	g.Eventually(func() float64 {
		fake.Step(500 * time.Millisecond)
		return m.unfinished.get()
	}, time.Minute).Should(BeZero())
	g.Expect(fake.HasWaiters()).To(BeFalse(), "no timer while nothing is held")

	q.AddAfter("a", time.Minute)
	q.AddRateLimited("b")
	g.Expect(m.retry.get()).To(Equal(2.0))
	g.Expect(m.adds.get()).To(Equal(2.0), "delayed keys do not count yet")
	fake.Step(time.Hour)
	q.Get()
	g.Expect(m.adds.get()).To(Equal(4.0))
	g.Expect(m.depth.get()).To(Equal(1.0))
}

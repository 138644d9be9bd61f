package queue

import (
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
)

// meters keeps client-go's metrics of a queue.
type meters[K comparable] struct {
	queue                        *Queue[K]
	depth                        workqueue.GaugeMetric
	adds, retries                workqueue.CounterMetric
	latency, duration            workqueue.HistogramMetric
	unfinished, longest          workqueue.SettableGaugeMetric
	mu                           sync.Mutex // guards what follows
	publishedDepth, publishedAdd int64
	ticking                      bool
}

func newMeters[K comparable](q *Queue[K], p workqueue.MetricsProvider) *meters[K] {
	q.mu.Lock()
	q.timed = true
	q.mu.Unlock()
	name := q.options.Name
	return &meters[K]{
		queue:      q,
		depth:      p.NewDepthMetric(name),
		adds:       p.NewAddsMetric(name),
		retries:    p.NewRetriesMetric(name),
		latency:    p.NewLatencyMetric(name),
		duration:   p.NewWorkDurationMetric(name),
		unfinished: p.NewUnfinishedWorkSecondsMetric(name),
		longest:    p.NewLongestRunningProcessorSecondsMetric(name),
	}
}

func (m *meters[K]) retried() {
	if m != nil {
		m.retries.Inc()
	}
}

// publish brings depth and adds up to date.
func (m *meters[K]) publish() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	adds, depth := m.queue.levels()
	for ; m.publishedAdd < adds; m.publishedAdd++ {
		m.adds.Inc()
	}
	for ; m.publishedDepth < depth; m.publishedDepth++ {
		m.depth.Inc()
	}
	for ; m.publishedDepth > depth; m.publishedDepth-- {
		m.depth.Dec()
	}
}

func (m *meters[K]) got(i Item[K]) {
	if m == nil {
		return
	}
	m.publish()
	m.latency.Observe(m.queue.waitOf(i).Seconds())
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.ticking {
		m.ticking = m.schedule()
	}
}

func (m *meters[K]) did(held time.Duration) {
	if m == nil {
		return
	}
	m.publish()
	m.duration.Observe(held.Seconds())
}

// unfinishedPeriod is how often the gauges of unfinished work are set.
const unfinishedPeriod = 500 * time.Millisecond

// schedule makes tick run once, if the clock can.
func (m *meters[K]) schedule() bool {
	c, ok := m.queue.options.Clock.(clock.WithDelayedExecution)
	if ok {
		// A fake clock calls back while it holds its lock.
		c.AfterFunc(unfinishedPeriod, func() { go m.tick() })
	}
	return ok
}

// tick stops with the queue, as client-go's does: the gauges keep their last value.
func (m *meters[K]) tick() {
	m.publish()
	s := m.queue.Stats()
	if m.queue.draining() {
		return
	}
	m.unfinished.Set(s.HeldTime.Seconds())
	m.longest.Set(s.OldestHeld.Seconds())
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ticking = s.Held > 0 && m.schedule()
}

// levels returns how often a key has begun to be pending, and how many are.
func (q *Queue[K]) levels() (began, pending int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.promoteNow()
	return q.counters.began, int64(q.ready + q.again)
}

// waitOf returns how long the key of an item had waited.
func (q *Queue[K]) waitOf(i Item[K]) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t := q.turnOf(i.turn, i.number); t != nil {
		return time.Duration(t.waited)
	}
	return 0
}

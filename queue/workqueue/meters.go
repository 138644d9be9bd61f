package workqueue

import (
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	"github.com/homeostat/homeostat/queue"
	"github.com/homeostat/homeostat/queue/internal/keyed"
)

// meters keeps client-go's metrics of a queue. A nil meters stands for a queue
// without metrics: its methods have no effect.
type meters[K comparable] struct {
	keys                         keyed.Queue[K]
	stats                        func() queue.Stats
	depth                        workqueue.GaugeMetric
	adds, retries                workqueue.CounterMetric
	latency, duration            workqueue.HistogramMetric
	unfinished, longest          workqueue.SettableGaugeMetric
	mu                           sync.Mutex // guards the fields below
	publishedDepth, publishedAdd int64
	ticking                      bool
}

func newMeters[K comparable](
	name string, keys keyed.Queue[K], stats func() queue.Stats, p workqueue.MetricsProvider,
) *meters[K] {
	return &meters[K]{
		keys:       keys,
		stats:      stats,
		depth:      p.NewDepthMetric(name),
		adds:       p.NewAddsMetric(name),
		retries:    p.NewRetriesMetric(name),
		latency:    p.NewLatencyMetric(name),
		duration:   p.NewWorkDurationMetric(name),
		unfinished: p.NewUnfinishedWorkSecondsMetric(name),
		longest:    p.NewLongestRunningProcessorSecondsMetric(name),
	}
}

// recordRetry counts a delayed addition, which client-go calls a retry.
func (m *meters[K]) recordRetry() {
	if m != nil {
		m.retries.Inc()
	}
}

// publish brings depth and adds up to date. A key whose timer has fired is
// counted with the next call of publish, not at once.
func (m *meters[K]) publish() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	depth, adds := m.keys.Pending()
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

// recordGet records that Get has returned a key.
func (m *meters[K]) recordGet(waited time.Duration) {
	if m == nil {
		return
	}
	m.publish()
	m.latency.Observe(waited.Seconds())
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.ticking {
		m.ticking = m.schedule()
	}
}

// recordDone records that the work on a key has ended.
func (m *meters[K]) recordDone(age time.Duration) {
	if m == nil {
		return
	}
	m.publish()
	m.duration.Observe(age.Seconds())
}

// unfinishedPeriod is how often the gauges of unfinished work are set. It is
// the same as in client-go.
const unfinishedPeriod = 500 * time.Millisecond

// schedule makes tick run once, unfinishedPeriod from now, and reports whether
// the clock can do that.
func (m *meters[K]) schedule() bool {
	c, ok := m.keys.Clock().(clock.WithDelayedExecution)
	if ok {
		// A fake clock calls back while it holds its lock.
		c.AfterFunc(unfinishedPeriod, func() { go m.tick() })
	}
	return ok
}

// tick sets the gauges of unfinished work. It runs again after unfinishedPeriod
// as long as a key is held. Like client-go's, it stops with the queue, and the
// gauges keep their last value.
func (m *meters[K]) tick() {
	m.publish()
	s := m.stats()
	if m.keys.Draining() {
		return
	}
	m.unfinished.Set(s.HeldTime.Seconds())
	m.longest.Set(s.OldestHeld.Seconds())
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ticking = s.Held > 0 && m.schedule()
}

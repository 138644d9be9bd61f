package loop_test

import (
	"context"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A stage runs a loop, counts its reconciles and ends it.
type stage struct {
	loop
	count  atomic.Int64
	goal   atomic.Int64
	met    chan struct{}
	cancel context.CancelFunc
	ended  chan error
}

func (s *stage) reconciled(key) {
	if s.count.Add(1) == s.goal.Load() {
		s.met <- struct{}{}
	}
}

func newStage(goal int) *stage {
	s := &stage{met: make(chan struct{}, 1), ended: make(chan error, 1)}
	s.goal.Store(int64(goal))
	return s
}

func (s *stage) start(b *testing.B, l loop) {
	ctx, cancel := context.WithCancel(b.Context())
	s.loop, s.cancel = l, cancel
	go func() { s.ended <- l.run(ctx) }()
}

func (s *stage) stop(b *testing.B) {
	s.cancel()
	if err := <-s.ended; err != nil {
		b.Fatal(err)
	}
}

// meter reports the cost of n reconciles.
type meter struct {
	b      *testing.B
	cpu    time.Duration
	clock  time.Time
	before runtime.MemStats
}

func measure(b *testing.B) *meter {
	m := &meter{b: b}
	runtime.GC()
	runtime.ReadMemStats(&m.before)
	m.cpu, m.clock = cpu(b), time.Now()
	return m
}

func (m *meter) report(reconciles int) {
	used, took := cpu(m.b)-m.cpu, time.Since(m.clock)
	var after runtime.MemStats
	runtime.ReadMemStats(&after)
	n := float64(reconciles)
	m.b.ReportMetric(0, "ns/op")
	m.b.ReportMetric(float64(used)/n, "cpu-ns/reconcile")
	m.b.ReportMetric(float64(took)/n, "ns/reconcile")
	m.b.ReportMetric(float64(after.Mallocs-m.before.Mallocs)/n, "allocs/reconcile")
	m.b.ReportMetric(float64(after.TotalAlloc-m.before.TotalAlloc)/n, "B/reconcile")
}

// 500,000 keys become due at once, and nothing is to be done about any.
func BenchmarkNoOp(b *testing.B) {
	const n = 500_000
	keys := make([]key, n)
	for i := range keys {
		keys[i] = key{Namespace: "namespace-" + strconv.Itoa(i%100), Name: "name-" + strconv.Itoa(i)}
	}
	for _, workers := range []int{1, 16} {
		for _, rival := range rivals {
			b.Run("workers="+strconv.Itoa(workers)+"/impl="+rival.name, func(b *testing.B) {
				s := newStage(1) // the stage of the memory's only object
				s.start(b, rival.make(b, setup{newMemory(1), workers, s.reconciled}))
				<-s.met
				if rival.name == "homeostat" {
					<-time.After(100 * time.Millisecond) // the bell's own first event
				}
				s.count.Store(0)
				s.goal.Store(n)
				m, rounds := measure(b), 0
				for b.Loop() {
					s.count.Store(0)
					s.add(keys)
					<-s.met
					rounds++
				}
				m.report(n * rounds)
				s.stop(b)
			})
		}
	}
}

// From nothing to the end of the first reconcile of each of 100,000 objects.
func BenchmarkFlood(b *testing.B) {
	const n = 100_000
	for _, rival := range rivals {
		b.Run("impl="+rival.name, func(b *testing.B) {
			rounds := 0
			var took, used time.Duration
			for b.Loop() {
				server, s := newMemory(n), newStage(n)
				runtime.GC()
				began, before := time.Now(), cpu(b)
				s.start(b, rival.make(b, setup{server, 16, s.reconciled}))
				<-s.met
				took, used = took+time.Since(began), used+cpu(b)-before
				s.stop(b)
				rounds++
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(took.Seconds()*1000/float64(rounds), "ms/flood")
			b.ReportMetric(used.Seconds()*1000/float64(rounds), "cpu-ms/flood")
		})
	}
}

// From the event to the reconciler, at 1,000 events per second.
func BenchmarkEventToReconcile(b *testing.B) {
	const events = 5000
	for _, rival := range rivals {
		b.Run("events="+strconv.Itoa(events)+"/impl="+rival.name, func(b *testing.B) {
			l := &lateness{sent: make([]atomic.Int64, 1000)}
			s := newStage(len(l.sent))
			server := newMemory(len(l.sent))
			s.start(b, rival.make(b, setup{server, 4, func(k key) {
				l.note(k)
				s.reconciled(k)
			}}))
			<-s.met
			tick := time.NewTicker(time.Millisecond)
			for b.Loop() {
				for range events {
					l.update(server)
					<-tick.C
				}
			}
			tick.Stop()
			<-time.After(100 * time.Millisecond)
			s.stop(b)
			l.report(b)
		})
	}
}

// The time from an event to its reconcile, while 20,000 objects of the first
// list wait for their first reconcile, each of which takes a millisecond.
func BenchmarkFreshDuringFlood(b *testing.B) {
	const updates = 150
	for _, rival := range rivals {
		b.Run("impl="+rival.name, func(b *testing.B) {
			l := &lateness{sent: make([]atomic.Int64, 20_000)}
			for b.Loop() {
				s := newStage(100)
				server := newMemory(len(l.sent))
				s.start(b, rival.make(b, setup{server, 16, func(k key) {
					l.note(k)
					s.reconciled(k)
					<-time.After(time.Millisecond)
				}}))
				<-s.met
				s.goal.Store(int64(len(l.sent)))
				tick := time.NewTicker(5 * time.Millisecond)
				for range updates {
					l.update(server)
					<-tick.C
				}
				<-s.met
				<-time.After(100 * time.Millisecond)
				s.stop(b)
			}
			l.report(b)
		})
	}
}

// A lateness is how long after an update the reconcile of its key begins.
type lateness struct {
	sent []atomic.Int64 // when the i-th object was updated
	last int

	mu   sync.Mutex // guards late
	late []time.Duration
}

// update changes an object: the later ones first, which wait longest for their
// first reconcile.
func (l *lateness) update(server *memory) {
	l.last++
	i := len(l.sent) - 1 - l.last%len(l.sent)
	l.sent[i].Store(time.Now().UnixNano())
	server.update(i)
}

func (l *lateness) note(k key) {
	now := time.Now().UnixNano()
	i, _ := strconv.Atoi(k.Name[len("name-"):])
	if at := l.sent[i].Swap(0); at != 0 {
		l.mu.Lock()
		l.late = append(l.late, time.Duration(now-at))
		l.mu.Unlock()
	}
}

func (l *lateness) report(b *testing.B) {
	slices.Sort(l.late)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(l.late[len(l.late)/2].Seconds()*1000, "p50-ms")
	b.ReportMetric(l.late[len(l.late)*99/100].Seconds()*1000, "p99-ms")
}

package queue_test

import (
	"math/rand/v2"
	goruntime "runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func BenchmarkAddGetDone(b *testing.B) {
	each(b, func(b *testing.B, s subject) {
		all := keys(1024)
		i := 0
		for b.Loop() {
			s.whole(all[i&1023])
			i++
		}
	})
}

func BenchmarkDuplicateAdd(b *testing.B) {
	each(b, func(b *testing.B, s subject) {
		all := keys(1024)
		for _, k := range all {
			s.add(k)
		}
		i := 0
		for b.Loop() {
			s.add(all[i&1023])
			i++
		}
	})
}

// A worker waits in Get; the producer waits until it has the key.
func BenchmarkHandOff(b *testing.B) {
	each(b, func(b *testing.B, s subject) {
		all := keys(2)
		got := make(chan struct{})
		go func() {
			for {
				t := s.get()
				if t.key.Name == "" || t.key == all[1] {
					close(got)
					return
				}
				s.done(t)
				got <- struct{}{}
			}
		}()
		for b.Loop() {
			s.add(all[0])
			<-got
		}
		s.add(all[1])
		<-got
	})
}

// Each worker takes a key, adds it again and ends it.
func BenchmarkRequeueLoop(b *testing.B) {
	for _, workers := range []int{1, 4, 16, 64} {
		b.Run("workers="+strconv.Itoa(workers), func(b *testing.B) {
			each(b, func(b *testing.B, s subject) { requeue(b, s, workers) })
		})
	}
}

func requeue(b *testing.B, s subject, workers int) {
	last := key{Name: "last"}
	for _, k := range keys(4 * workers) {
		s.add(k)
	}
	var left atomic.Int64
	left.Store(int64(b.N))
	var running sync.WaitGroup
	b.ResetTimer()
	for range workers {
		running.Go(func() {
			for left.Add(-1) > 0 {
				t := s.get()
				if t.key == last {
					s.add(last)
					s.done(t)
					return
				}
				s.add(t.key)
				s.done(t)
			}
			s.add(last) // wakes the waiting workers
		})
	}
	running.Wait()
}

const million = 1_000_000

func heap() uint64 {
	goruntime.GC()
	goruntime.GC()
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return m.HeapAlloc
}

// settled is the heap when it no longer changes: rivals sort in the background.
func settled() uint64 {
	last := heap()
	for range 10 {
		now := heap()
		if now == last {
			break
		}
		last = now
	}
	return last
}

// Whole runs with a million keys: memory, and the cost of each.
func BenchmarkMillionKeys(b *testing.B) {
	all := keys(million)
	each(b, func(b *testing.B, s subject) {
		var add, drain time.Duration
		var bytes uint64
		for b.Loop() {
			before := heap()
			start := time.Now()
			for _, k := range all {
				s.add(k)
			}
			add += time.Since(start)
			bytes += heap() - before
			start = time.Now()
			for range all {
				s.done(s.get())
			}
			drain += time.Since(start)
		}
		report(b, map[string]time.Duration{"add-ns/key": add, "drain-ns/key": drain})
		b.ReportMetric(float64(bytes)/float64(b.N)/million, "B/key")
	})
	goruntime.KeepAlive(all)
}

// A million keys are added with delays, and taken when they are due.
func BenchmarkMillionDelayedKeys(b *testing.B) {
	all := keys(million)
	delays := make([]time.Duration, million)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range delays {
		delays[i] = time.Duration(1 + random.IntN(int(100*time.Millisecond)))
	}
	each(b, func(b *testing.B, s subject) {
		var add, settle time.Duration
		for b.Loop() {
			start := time.Now()
			for i, k := range all {
				s.addAfter(k, delays[i])
			}
			add += time.Since(start)
			start = time.Now()
			for range all {
				s.done(s.get())
			}
			settle += time.Since(start)
		}
		report(b, map[string]time.Duration{"add-ns/key": add, "settle-ns/key": settle, "all-ns/key": add + settle})
	})
}

// The memory of a million keys with long delays.
func BenchmarkMillionDelayedKeysHeld(b *testing.B) {
	all := keys(million)
	each(b, func(b *testing.B, s subject) {
		before := heap()
		var bytes float64
		for b.Loop() {
			for i, k := range all {
				s.addAfter(k, time.Hour+time.Duration(i*7919%million)*time.Millisecond)
			}
			bytes = float64(settled()-before) / million
		}
		b.ReportMetric(bytes, "B/key")
		b.ReportMetric(0, "ns/op")
	})
	goruntime.KeepAlive(all)
}

func report(b *testing.B, spent map[string]time.Duration) {
	for unit, d := range spent {
		b.ReportMetric(float64(d.Nanoseconds())/float64(b.N)/million, unit)
	}
	b.ReportMetric(0, "ns/op")
}

// A failure is counted, its retry delayed, and both forgotten. Ours takes the
// key first, since only a dispatched key can fail.
func BenchmarkRetryForget(b *testing.B) {
	each(b, func(b *testing.B, s subject) {
		all := keys(1024)
		i := 0
		for b.Loop() {
			s.retry(all[i&1023])
			s.forget(all[i&1023])
			i++
		}
	})
}

// How late timers are while two producers keep the workers busy.
func BenchmarkLateness(b *testing.B) {
	each(b, func(b *testing.B, s subject) {
		late := make([]time.Duration, 0, 10_000)
		for b.Loop() {
			late = append(late, lateness(s)...)
		}
		slices.Sort(late)
		at := func(p int) float64 { return float64(late[len(late)*p/100].Microseconds()) / 1000 }
		b.ReportMetric(at(50), "p50-ms")
		b.ReportMetric(at(99), "p99-ms")
		b.ReportMetric(0, "ns/op")
	})
}

func lateness(s subject) []time.Duration {
	const timers = 5000
	busy, timed := keys(1000), keys(1000 + timers)[1000:]
	due := make(map[key]time.Time, timers)
	random := rand.New(rand.NewPCG(1, 2))
	for _, k := range timed {
		d := time.Duration(50+random.IntN(450)) * time.Millisecond
		due[k] = time.Now().Add(d)
		s.addAfter(k, d)
	}
	var stop atomic.Bool
	var producing sync.WaitGroup
	for p := range 2 {
		producing.Go(func() {
			for i := p; !stop.Load(); i++ {
				s.add(busy[i%len(busy)])
				if i%100 == 0 {
					// No timer is used, because the timers of an idle process
					// are late by up to a millisecond.
					for rested := time.Now(); time.Since(rested) < 100*time.Microsecond; {
						goruntime.Gosched()
					}
				}
			}
		})
	}
	late := make([]time.Duration, 0, timers)
	for len(late) < timers {
		t := s.get()
		if at, ok := due[t.key]; ok {
			late = append(late, time.Since(at))
		}
		s.done(t)
	}
	stop.Store(true)
	producing.Wait()
	return late
}

// Of five background keys under endless live keys, how many are served within
// 100,000 dispatches, and after how many the last.
func BenchmarkStarvation(b *testing.B) {
	const dispatches, background = 100_000, 5
	all := keys(64 + background)
	each(b, func(b *testing.B, s subject) {
		served, last := 0, 0
		for b.Loop() {
			for _, k := range all[:64] {
				s.add(k)
			}
			for _, k := range all[64:] {
				s.addBackground(k)
			}
			served, last = 0, 0
			for i := range dispatches {
				t := s.get()
				if slices.Contains(all[64:], t.key) {
					served, last = served+1, i+1
					s.done(t)
					continue
				}
				s.add(t.key)
				s.done(t)
			}
		}
		b.ReportMetric(float64(served), "served")
		b.ReportMetric(float64(last), "dispatches-to-last")
		b.ReportMetric(0, "ns/op")
	})
}

package leader_test

import (
	"context"
	"fmt"
	"math/rand"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/test/leaseapi"
	"github.com/homeostat/homeostat/leader"
)

// throne observes the leader at each moment, from the call of the function
// until its context ended and the last effect that it still had in flight is
// over.
type throne struct {
	mu      sync.Mutex
	holders map[string]int
	reigns  int
	faults  []string
}

func (s *throne) take(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holders == nil {
		s.holders = map[string]int{}
	}
	s.holders[name]++
	s.reigns++
	if len(s.holders) > 1 {
		s.faults = append(s.faults, fmt.Sprintf("%v lead at once at %v", s.holders, time.Now().Format(time.TimeOnly)))
	}
}

func (s *throne) leave(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holders[name]--; s.holders[name] == 0 {
		delete(s.holders, name)
	}
}

// reign leads until the context ends, and for the request timeout that a last
// request may still take.
func (s *throne) reign(name string, tail time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		s.take(name)
		defer s.leave(name)
		<-ctx.Done()
		leaseapi.Wait(tail)
		return nil
	}
}

func skewedClocksNeverLeadAtOnce(t *testing.T) {
	for _, offset := range []time.Duration{-24 * time.Hour, -time.Minute, time.Minute, 24 * time.Hour} {
		for _, speed := range []float64{0.99, 1.01} {
			t.Run(fmt.Sprintf("%v at %v", offset, speed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { skewed(t, offset, speed) })
			})
		}
	}
}

// skewed lets a replica with a right clock and one with a wrong clock lose the
// API in turns.
func skewed(t *testing.T, offset time.Duration, speed float64) {
	g := NewWithT(t)
	api := leaseapi.New(t)
	links := []*leaseapi.Link{api.Link(1), api.Link(2)}
	wrong := wrongClock{start: time.Now(), offset: offset, speed: speed}
	right := wrongClock{start: time.Now(), speed: 2 - speed}
	ctx, cancel := context.WithCancel(t.Context())
	var s throne
	var done sync.WaitGroup
	for i, c := range []wrongClock{wrong, right} {
		e := newElector(t, leaseOf(links[i], fmt.Sprint(i)), &leader.Options{Clock: c})
		done.Go(func() { _ = e.Run(ctx, s.reign(fmt.Sprint(i), 3*time.Second)) })
	}
	for round := range 20 {
		pass(time.Minute)
		l, open := links[round%2], make(chan struct{})
		l.Set(func(l *leaseapi.Link) { l.Cut = open })
		pass(40 * time.Second)
		l.Set(func(l *leaseapi.Link) { l.Cut = nil })
		close(open)
	}
	cancel()
	done.Wait()
	g.Expect(s.faults).To(BeEmpty())
	g.Expect(s.reigns).To(BeNumerically(">=", 10))
}

func TestElectorsNeverOverlapOverRandomSchedules(t *testing.T) {
	for seed := range int64(schedules) {
		synctest.Test(t, func(t *testing.T) { randomSchedule(t, seed) })
	}
}

// randomSchedule runs three replicas for about an hour each, that start, stop,
// and lose the API in either direction at random.
func randomSchedule(t *testing.T, seed int64) {
	g := NewWithT(t)
	r := rand.New(rand.NewSource(seed))
	api := leaseapi.New(t)
	var s throne
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	for i := range 3 {
		l := api.Link(seed*3 + int64(i))
		l.Set(func(l *leaseapi.Link) { l.Slow = time.Duration(r.Int63n(int64(2 * time.Second))) })
		r := rand.New(rand.NewSource(r.Int63()))
		done.Go(func() { replicaLife(ctx, l, r, fmt.Sprint(i), &s) })
	}
	pass(time.Hour)
	cancel()
	done.Wait()
	g.Expect(s.faults).To(BeEmpty(), "seed %d", seed)
	g.Expect(s.reigns).To(BeNumerically(">", 5), "seed %d", seed)
}

func replicaLife(ctx context.Context, l *leaseapi.Link, r *rand.Rand, name string, s *throne) {
	for ctx.Err() == nil {
		e, err := leader.New(leaseOf(l, name), nil)
		if err != nil {
			panic(err)
		}
		run, stop := context.WithCancel(ctx)
		end := background(func() error { return e.Run(run, s.reign(name, 3*time.Second)) })
		for range r.Intn(10) {
			leaseapi.Wait(time.Duration(r.Int63n(int64(time.Minute))))
			open := make(chan struct{})
			lose := r.Float64()
			l.Set(func(l *leaseapi.Link) { l.LoseAsk, l.LoseTell = lose*r.Float64(), lose*r.Float64() })
			if r.Intn(2) == 0 {
				l.Set(func(l *leaseapi.Link) { l.Cut = open })
			}
			leaseapi.Wait(time.Duration(r.Int63n(int64(40 * time.Second))))
			l.Set(func(l *leaseapi.Link) { l.LoseAsk, l.LoseTell, l.Cut = 0, 0, nil })
			close(open)
		}
		stop()
		if err := end(); err != nil {
			panic(err)
		}
	}
}

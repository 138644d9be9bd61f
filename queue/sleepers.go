package queue

import (
	"context"
	"math"
	"time"

	"k8s.io/utils/clock"
)

// sleepers are the callers of Get that found nothing. At most one of them, the
// watchman, sleeps until the next timer; so the queue needs no goroutine of its
// own. The last to fall asleep is woken first, the watchman last of all.
type sleepers struct {
	last     *sleeper // those without a timer
	watchman *sleeper
	until    int64    // when the watchman wakes up
	spare    *sleeper // not in use
	rising   int      // roused, and not yet back in get
}

// A sleeper is one caller of Get. Whoever wakes it takes it off the list first.
type sleeper struct {
	awake      chan struct{} // has room for one
	next, prev *sleeper
	listed     bool
	roused     bool
	timer      clock.Timer
}

// sleep returns when there may be something to do, with the lock released
// meanwhile.
func (q *Queue[K]) sleep(ctx context.Context, now int64) error {
	s := q.lieDown()
	var alarm <-chan time.Time
	if len(q.timers.nodes) > 0 && q.sleepers.watchman == nil {
		q.sleepers.watchman, q.sleepers.until = s, q.timers.nodes[0].due
		alarm = q.wind(s, time.Duration(q.sleepers.until-now))
	} else {
		q.list(s)
	}
	q.mu.Unlock()
	err := s.rest(ctx, alarm)
	q.mu.Lock()
	q.riseUp(s)
	return err
}

// rest sleeps until s is roused, the alarm rings, or ctx ends.
func (s *sleeper) rest(ctx context.Context, alarm <-chan time.Time) error {
	if alarm == nil { // the fewer channels, the faster
		if ctx.Done() == nil {
			<-s.awake
			return nil
		}
		select {
		case <-s.awake:
		case <-ctx.Done():
		}
		return ctx.Err()
	}
	defer s.timer.Stop()
	select {
	case <-s.awake:
	case <-alarm:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// lieDown returns a sleeper that is not in use.
func (q *Queue[K]) lieDown() *sleeper {
	s := q.sleepers.spare
	if s == nil {
		return &sleeper{awake: make(chan struct{}, 1)}
	}
	q.sleepers.spare = s.next
	s.next = nil
	return s
}

// riseUp makes s ready for the next use.
func (q *Queue[K]) riseUp(s *sleeper) {
	switch {
	case q.sleepers.watchman == s:
		q.sleepers.watchman = nil
	case s.listed:
		q.unlist(s)
	case s.roused:
		q.sleepers.rising--
		s.roused = false
	}
	select {
	case <-s.awake: // roused while ctx or the timer ended the sleep
	default:
	}
	s.next = q.sleepers.spare
	q.sleepers.spare = s
}

// wind sets the timer of s.
func (q *Queue[K]) wind(s *sleeper, d time.Duration) <-chan time.Time {
	d = min(max(d, 1), math.MaxInt64/2)
	if s.timer == nil {
		s.timer = q.options.Clock.NewTimer(d)
		return s.timer.C()
	}
	select {
	case <-s.timer.C(): // of an earlier use, if the clock is not the real one
	default:
	}
	s.timer.Reset(d)
	return s.timer.C()
}

func (q *Queue[K]) list(s *sleeper) {
	s.listed, s.next, s.prev = true, q.sleepers.last, nil
	if s.next != nil {
		s.next.prev = s
	}
	q.sleepers.last = s
}

func (q *Queue[K]) unlist(s *sleeper) {
	if s.prev != nil {
		s.prev.next = s.next
	} else {
		q.sleepers.last = s.next
	}
	if s.next != nil {
		s.next.prev = s.prev
	}
	s.listed, s.next, s.prev = false, nil, nil
}

// wake wakes a sleeper for each key that waits and for which none rises yet.
func (q *Queue[K]) wake() {
	if q.ready > q.sleepers.rising {
		q.rouse()
	}
}

// rouse wakes one sleeper, if there is any.
func (q *Queue[K]) rouse() {
	s := q.sleepers.last
	switch {
	case s != nil:
		q.unlist(s)
	case q.sleepers.watchman != nil:
		s = q.sleepers.watchman
		q.sleepers.watchman = nil
	default:
		return
	}
	q.sleepers.rising++
	s.roused = true
	s.awake <- struct{}{}
}

// alarm sees to it that somebody, if anybody sleeps, wakes up then.
func (q *Queue[K]) alarm(then int64) {
	s := q.sleepers.watchman
	switch {
	case s == nil && q.sleepers.rising == 0:
		q.rouse()
	case s != nil && then < q.sleepers.until:
		q.sleepers.watchman = nil
		q.sleepers.rising++
		s.roused = true
		s.awake <- struct{}{}
	}
}

// pass hands on the duties of a caller that has slept, or meant to, and leaves:
// to take a key that it was roused for, and to be the watchman.
func (q *Queue[K]) pass() {
	q.wake()
	if len(q.timers.nodes) > 0 && q.sleepers.watchman == nil && q.sleepers.rising == 0 {
		q.rouse()
	}
}

func (q *Queue[K]) rouseAll() {
	for q.sleepers.last != nil || q.sleepers.watchman != nil {
		q.rouse()
	}
}

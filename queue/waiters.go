package queue

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// waiters are the callers of Get that found nothing. At most one of them waits
// for the next timer, so that the queue needs no goroutine of its own. The last
// to come is woken first, and the one with the timer last of all.
type waiters struct {
	clock  clock.Clock
	idle   []*waiter // those without a timer
	timer  *waiter   // the one with the timer, nil if there is none
	until  int64     // when that timer fires
	spare  []*waiter
	waking int // woken, and not yet back in Get
}

// waiter is one caller of Get.
type waiter struct {
	woken bool
	wake  chan struct{} // has room for one
	timer clock.Timer
}

// wait returns when there may be something to do; mu is released meanwhile. due
// is the time of the next timer, 0 if there is none.
//
// Errors: ctx.Err().
func (w *waiters) wait(ctx context.Context, mu *sync.Mutex, now, due int64) error {
	one := w.take()
	var alarm <-chan time.Time
	if due != 0 && w.timer == nil {
		w.timer, w.until = one, due
		alarm = one.arm(w.clock, time.Duration(due-now))
	} else {
		w.idle = append(w.idle, one)
	}
	mu.Unlock()
	err := one.park(ctx, alarm)
	mu.Lock()
	w.put(one)
	return err
}

// take returns a waiter that is not in use.
func (w *waiters) take() *waiter {
	last := len(w.spare) - 1
	if last < 0 {
		return &waiter{wake: make(chan struct{}, 1)}
	}
	one := w.spare[last]
	w.spare = w.spare[:last]
	return one
}

// put makes one, which has stopped waiting, ready for its next use.
func (w *waiters) put(one *waiter) {
	switch {
	case one.woken:
		w.waking--
		one.woken = false
	case w.timer == one:
		w.timer = nil
	default:
		i := slices.Index(w.idle, one)
		w.idle = slices.Delete(w.idle, i, i+1)
	}
	select {
	case <-one.wake: // woken when ctx or the timer had ended the wait already
	default:
	}
	w.spare = append(w.spare, one)
}

// notify wakes a waiter for each ready key for which none has been woken yet,
// and one that resets its timer if none fires by due, the time of the next
// timer; 0 if there is none.
func (w *waiters) notify(ready int, due int64) {
	for ready > w.waking && w.wakeNext() {
	}
	switch {
	case due == 0:
	case w.timer == nil:
		if w.waking == 0 {
			w.wakeNext()
		}
	case due < w.until:
		w.wakeTimer()
	}
}

// wakeNext wakes one waiter and reports whether there was one.
func (w *waiters) wakeNext() bool {
	last := len(w.idle) - 1
	if last < 0 {
		return w.wakeTimer()
	}
	one := w.idle[last]
	w.idle = w.idle[:last]
	w.wake(one)
	return true
}

// wakeTimer wakes the waiter with the timer and reports whether there was one.
func (w *waiters) wakeTimer() bool {
	if w.timer == nil {
		return false
	}
	w.wake(w.timer)
	w.timer = nil
	return true
}

func (w *waiters) wake(one *waiter) {
	w.waking++
	one.woken = true
	one.wake <- struct{}{}
}

func (w *waiters) wakeAll() {
	for w.wakeNext() {
	}
}

// arm makes the timer fire after d.
func (w *waiter) arm(c clock.Clock, d time.Duration) <-chan time.Time {
	d = min(max(d, 1), math.MaxInt64/2)
	if w.timer == nil {
		w.timer = c.NewTimer(d)
		return w.timer.C()
	}
	select {
	case <-w.timer.C(): // of an earlier use, if the clock is not the real one
	default:
	}
	w.timer.Reset(d)
	return w.timer.C()
}

// park returns when w is woken, the alarm fires, or ctx ends.
func (w *waiter) park(ctx context.Context, alarm <-chan time.Time) error {
	if alarm != nil {
		defer w.timer.Stop()
	}
	select {
	case <-w.wake:
	case <-alarm:
	case <-ctx.Done():
	}
	return ctx.Err()
}

package queue

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// waiters are the callers of Get for which there was no key. At most one of
// them waits for the next timer, so that the queue needs no goroutine of its
// own. The caller that came last is woken first, and the one with the timer
// last of all.
type waiters struct {
	clock  clock.Clock
	idle   []*waiter // those without a timer
	timer  *waiter   // the one with the timer, nil if there is none
	until  int64     // when that timer fires
	spare  []*waiter
	waking int // waiters that were woken and have not returned from wait yet
}

// waiter is one caller of Get.
type waiter struct {
	woken bool
	wake  chan struct{} // has room for one
	timer clock.Timer
}

// wait returns when there may be a key to dispatch. It releases mu while it
// waits. due is the time of the next timer, or 0 without timers.
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

// put makes one, which has stopped waiting, ready to be used again.
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
	case <-one.wake: // it was woken after ctx or the timer had ended its wait
	default:
	}
	w.spare = append(w.spare, one)
}

// notify wakes one waiter for each ready key, as far as none has been woken for
// it yet. It also wakes a waiter to set its timer, if no timer fires by due,
// the time of the next timer of the queue; 0 means that there is no such timer.
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

// arm makes the timer of w fire after d.
func (w *waiter) arm(c clock.Clock, d time.Duration) <-chan time.Time {
	d = min(max(d, 1), math.MaxInt64/2)
	if w.timer == nil {
		w.timer = c.NewTimer(d)
		return w.timer.C()
	}
	select {
	case <-w.timer.C(): // left from an earlier use, which only happens with a fake clock
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

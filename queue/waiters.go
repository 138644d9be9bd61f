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
// them waits for the next timer. So the queue needs no goroutine of its own.
// The caller that arrived last is woken first, and the caller with the timer is
// woken last of all.
type waiters struct {
	clock    clock.Clock
	idle     []*waiter // the waiters without a timer
	timer    *waiter   // the waiter with the timer, or nil
	timerDue int64     // when the timer of the waiter in timer fires
	spare    []*waiter
	waking   int // number of waiters that were woken and are still in wait, and of callers in passGate
}

// waiter is one caller of Get.
type waiter struct {
	woken bool
	wake  chan struct{} // receives an element to wake the waiter; has room for one
	timer clock.Timer
}

// wait returns when there may be a key to dispatch. It releases mu while it
// waits. due is the time of the next timer, or 0 if there are no timers.
//
// If ctx ends, wait returns ctx.Err().
func (w *waiters) wait(ctx context.Context, mu *sync.Mutex, now, due int64) error {
	caller := w.take()
	var alarm <-chan time.Time
	if due != 0 && w.timer == nil {
		w.timer, w.timerDue = caller, due
		alarm = caller.arm(w.clock, time.Duration(due-now))
	} else {
		w.idle = append(w.idle, caller)
	}
	mu.Unlock()
	err := caller.park(ctx, alarm)
	mu.Lock()
	w.put(caller)
	return err
}

// take returns a waiter that is not in use.
func (w *waiters) take() *waiter {
	last := len(w.spare) - 1
	if last < 0 {
		return &waiter{wake: make(chan struct{}, 1)}
	}
	caller := w.spare[last]
	w.spare = w.spare[:last]
	return caller
}

// put stores a waiter that has stopped waiting. take can return it again.
func (w *waiters) put(caller *waiter) {
	switch {
	case caller.woken:
		w.waking--
		caller.woken = false
	case w.timer == caller:
		w.timer = nil
	default:
		i := slices.Index(w.idle, caller)
		w.idle = slices.Delete(w.idle, i, i+1)
	}
	select {
	case <-caller.wake: // it was woken after ctx or the timer had ended its wait
	default:
	}
	w.spare = append(w.spare, caller)
}

// notify wakes one waiter for each ready key for which no waiter has been woken
// yet. due is the time of the queue's next timer, or 0 if there are no timers.
// If no waiter has a timer that fires by then, notify also wakes a waiter to
// set one.
func (w *waiters) notify(ready int, due int64) {
	for ready > w.waking && w.wakeNext() {
	}
	switch {
	case due == 0:
	case w.timer == nil:
		if w.waking == 0 {
			w.wakeNext()
		}
	case due < w.timerDue:
		w.wakeTimer()
	}
}

// wakeNext wakes one waiter and reports whether there was one.
func (w *waiters) wakeNext() bool {
	last := len(w.idle) - 1
	if last < 0 {
		return w.wakeTimer()
	}
	caller := w.idle[last]
	w.idle = w.idle[:last]
	w.wake(caller)
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

func (w *waiters) wake(caller *waiter) {
	w.waking++
	caller.woken = true
	caller.wake <- struct{}{}
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

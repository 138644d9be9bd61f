package reconciletest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/report"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/state"
)

// await is what a run waits for at a rest that was not right: virtual time is
// free, so the run goes on for up to an hour.
type await struct {
	rest  int // the number of the rest, from 0
	right func(r *run) bool
	after time.Duration // how long it has waited
	came  bool
}

// settle waits at the rest that the setting names, if this is the one.
func (r *run) settle(ctx context.Context) {
	w := r.setting.await
	if w == nil || len(r.out.states) != w.rest || r.out.finding != nil {
		return
	}
	r.steps -= hourOfSteps
	defer func() { r.steps += hourOfSteps }()
	for ; w.after < sleepTime; w.after += time.Minute {
		if w.came = w.right(r); w.came {
			return
		}
		until := time.Now().Add(time.Minute)
		r.live(ctx, func() time.Time { return until })
	}
}

// explain adds to a finding what one more run shows: that the end is right a
// while later, or that an error was logged and not returned.
func (e *example) explain() {
	f := e.out.finding
	if after, came := e.later(); came {
		f.Text += fmt.Sprintf("\n  It is right %s later: Options.Rest is %v.", minutes(after), e.x.o.Rest)
		f.Reason = report.TooEarly
		return
	}
	if text := e.out.swallowed(); text != "" && f.Reason == report.NotRetried {
		f.Text += "\n  It has logged this error, and has neither read nor written since: " + text
		f.Reason = report.OnlyLogged
	}
}

// minutes words a time of whole minutes.
func minutes(d time.Duration) string { return strings.TrimSuffix(d.String(), "0s") }

// later returns after how much more time a state or a goal that was not right
// is so.
func (e *example) later() (time.Duration, bool) {
	x, w := e.x, &await{}
	switch e.out.finding.Oracle {
	case report.Goal:
		w.rest = len(e.out.states) - 1
		w.right = func(r *run) bool { return ask(r.c.Goal, r.world) == nil }
	case report.State:
		at, differs := state.Compare(e.out.states, x.reference.states, x.masked)
		if differs == nil {
			return 0, false
		}
		want, mask := x.wanted(at, len(e.out.states))
		w.rest = at
		w.right = func(r *run) bool { return len(state.OfServer(r.sim, r.ignore).Diff(want, mask)) == 0 }
	default:
		return 0, false
	}
	if _, err := x.inBubble(e.p, setting{seed: 1, await: w}); err != nil {
		return 0, false
	}
	return w.after, w.came && w.after > 0
}

// wanted is the state without faults for a rest of a run that has some number
// of them, and the fields in which it may differ.
func (x *explorer) wanted(at, rests int) (*state.Rest, map[string]bool) {
	if rests == at+1 {
		at = len(x.reference.states) - 1
	}
	var mask map[string]bool
	if at < len(x.masked) {
		mask = x.masked[at]
	}
	return x.reference.states[at], mask
}

// returned are what package reconcile and controller-runtime log of an error that
// a reconcile has returned, and for which they call it again.
var returned = []string{`"reconcile failed, `, `"Reconciler error"`}

// swallowed returns the last error that the program has logged after the fault,
// if no get and no write followed and the reconcile did not return it. It returns
// "" if there is none.
func (o *outcome) swallowed() string {
	rested := len(o.lines)
	if n := len(o.restedAt); n > 0 {
		rested = o.restedAt[n-1]
	}
	for _, l := range slices.Backward(o.lines[min(o.same, rested):rested]) {
		if text, is := strings.CutPrefix(l, report.Error); is {
			if slices.ContainsFunc(returned, func(by string) bool { return strings.Contains(text, by) }) {
				return ""
			}
			return text
		}
		call, is := strings.CutPrefix(l, "call      ")
		if is && !strings.HasPrefix(call, "list ") && !strings.HasPrefix(call, "watch ") { // caches list by themselves
			return ""
		}
	}
	return ""
}

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

// await tells a run to wait at a rest whose state is wrong, until the state
// becomes right.
type await struct {
	rest      int // the number of the rest, from 0, or everyRest
	isRight   func(r *run) bool
	limit     time.Duration // the longest time that the run waits, in virtual time
	waited    time.Duration // how long the run has waited at this rest, in virtual time
	satisfied bool
}

const everyRest = -1

// waitAtRest waits as setting.await says, if the run is at the rest that
// setting.await names.
func (r *run) waitAtRest(ctx context.Context) {
	w := r.setting.await
	if w == nil || w.rest != everyRest && len(r.out.states) != w.rest || r.out.finding != nil {
		return
	}
	steps := int(w.limit/time.Minute) * hourOfSteps / 60
	r.steps -= steps
	defer func() { r.steps += steps }()
	for w.waited = 0; w.waited < w.limit; w.waited += time.Minute {
		if w.satisfied = w.isRight(r); w.satisfied {
			return
		}
		deadline := time.Now().Add(time.Minute)
		r.runUntil(ctx, func() time.Time { return deadline })
	}
}

// explain adds an explanation to the finding of an example, if there is one.
// One explanation is that the state becomes right a while later. explain checks
// that with one more run. The other is that the program has logged an error
// without returning it.
func (e *example) explain() {
	f := e.out.finding
	if delay, becomesRight := e.lateness(); becomesRight {
		f.Text += fmt.Sprintf("\n  It is right %s later: Options.Rest is %v.", minutes(delay), e.x.o.Rest)
		f.Reason = report.TooEarly
		return
	}
	if text := e.out.swallowed(); text != "" && f.Reason == report.NotRetried {
		f.Text += "\n  It has logged this error, and has neither read nor written since: " + text
		f.Reason = report.OnlyLogged
	}
}

// minutes returns the text of a time in whole minutes, such as "5m".
func minutes(d time.Duration) string { return strings.TrimSuffix(d.String(), "0s") }

// lateness returns the additional time after which a wrong state or an unmet
// goal becomes right. It returns false if that does not happen within an hour.
func (e *example) lateness() (time.Duration, bool) {
	x, w := e.x, &await{limit: sleepTime}
	switch e.out.finding.Oracle {
	case report.Goal:
		w.rest = len(e.out.states) - 1
		w.isRight = func(r *run) bool { return ask(r.c.Goal, r.world) == nil }
	case report.State:
		i, differs := state.Compare(e.out.states, x.reference.states, x.masked)
		if differs == nil {
			return 0, false
		}
		want, mask := x.wanted(i, len(e.out.states))
		w.rest = i
		w.isRight = func(r *run) bool { return len(state.OfServer(r.sim, r.ignore, r.foreign).Diff(want, mask)) == 0 }
	default:
		return 0, false
	}
	if _, err := x.inBubble(e.p, setting{seed: 1, await: w}); err != nil {
		return 0, false
	}
	return w.waited, w.satisfied && w.waited > 0
}

// wanted returns the state with which rest number i of a run is compared: the
// state of the run without faults at that rest. It also returns the fields in
// which the two may differ. rests is the number of rests of the run.
func (x *explorer) wanted(i, rests int) (*state.Rest, map[string]bool) {
	if rests == i+1 {
		i = len(x.reference.states) - 1
	}
	var mask map[string]bool
	if i < len(x.masked) {
		mask = x.masked[i]
	}
	return x.reference.states[i], mask
}

// returned lists the messages with which package reconcile and
// controller-runtime log an error that a reconcile has returned. They retry
// such a reconcile.
var returned = []string{`"reconcile failed, `, `"Reconciler error"`}

// swallowed returns the last error that the program has logged after the fault
// without returning it from the reconcile. It returns "" if there is no such
// error, or if the program has made a get or a write after it.
func (o *outcome) swallowed() string {
	rested := len(o.lines)
	if n := len(o.restedAt); n > 0 {
		rested = o.restedAt[n-1]
	}
	for _, l := range slices.Backward(o.lines[min(o.samePrefix, rested):rested]) {
		if text, ok := strings.CutPrefix(l, report.Error); ok {
			if slices.ContainsFunc(returned, func(cause string) bool { return strings.Contains(text, cause) }) {
				return ""
			}
			return text
		}
		call, ok := strings.CutPrefix(l, "call      ")
		if ok && !strings.HasPrefix(call, "list ") && !strings.HasPrefix(call, "watch ") { // caches list by themselves
			return ""
		}
	}
	return ""
}

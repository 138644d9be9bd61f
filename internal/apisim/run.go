package apisim

import (
	"fmt"
	"slices"
	"testing/synctest"
	"time"
)

// Outcome is the way in which a run ended.
type Outcome uint8

// The outcomes of [Scheduler.Run].
const (
	Quiescent Outcome = iota // the policy took no action, and none became possible, for the horizon
	Reached                  // Limits.Stop returned true
	Exhausted                // the steps are used up
)

func (o Outcome) String() string { return [...]string{"quiescent", "reached", "exhausted"}[o] }

// Limits determine when a run ends.
type Limits struct {
	// Steps is the largest number of steps.
	Steps int
	// Horizon is how much virtual time must pass, in which no action becomes
	// possible, until the run counts as quiescent.
	Horizon time.Duration
	// Stop ends the run when it returns true. It is called before every step.
	// nil means that only Steps and Horizon end the run.
	Stop func() bool
}

// Run takes the steps that the policy chooses. When it returns, every goroutine
// of the bubble is blocked.
func (d *Scheduler) Run(p Policy, l Limits) Outcome {
	for range l.Steps {
		enabled := d.Enabled()
		if l.Stop != nil && l.Stop() {
			return Reached
		}
		c, ok := p.Pick(enabled)
		switch {
		case !ok:
			if !d.Idle(l.Horizon) {
				return Quiescent
			}
		case c.Wait > 0:
			d.Wait(c.Wait)
		default:
			d.Step(enabled[c.Index], c.Fault)
		}
	}
	synctest.Wait() // wait until the last step has taken effect
	return Exhausted
}

// Idle lets time pass until an action becomes possible. It returns false if
// none becomes possible before the duration in horizon has passed.
func (d *Scheduler) Idle(horizon time.Duration) bool {
	select { // earlier signals are about actions that were seen already
	case <-d.wake:
	default:
	}
	timer := time.NewTimer(horizon)
	defer timer.Stop()
	select {
	case <-d.wake:
		return true
	case <-timer.C:
		synctest.Wait()
		select {
		case <-d.wake:
			return true
		default:
			return false
		}
	}
}

// Wait lets time pass while all parked calls remain parked.
func (d *Scheduler) Wait(t time.Duration) {
	d.steps++
	d.line("wait " + t.String())
	timer := time.NewTimer(t)
	<-timer.C
	synctest.Wait()
}

// Steps returns the number of steps so far.
func (d *Scheduler) Steps() int { return d.steps }

// Trace returns a line for each action, wait and note so far: the number of
// steps, the time since the start, the action and the fault. The first lines
// are missing if [Server.Schedule] was told to keep fewer.
func (d *Scheduler) Trace() []string { return slices.Clone(d.trace) }

// Note adds a line to the trace, for example to mark a phase of the scenario.
func (d *Scheduler) Note(format string, args ...any) { d.line("note " + fmt.Sprintf(format, args...)) }

func (d *Scheduler) note(a Action, f Fault) {
	if d.keep < 0 {
		return
	}
	text := a.String()
	if f != NoFault {
		text += " FAULT " + f.String()
	}
	d.line(text)
}

func (d *Scheduler) line(text string) {
	if d.keep < 0 {
		return
	}
	d.trace = append(d.trace, fmt.Sprintf("%5d %8.3fs %s", d.steps, time.Since(d.started).Seconds(), text))
	if d.keep > 0 && len(d.trace) > 2*d.keep {
		d.trace = slices.Clone(d.trace[d.keep:])
	}
}

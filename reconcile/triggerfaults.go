package reconcile

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/homeostat/homeostat/internal/parts"
	"github.com/homeostat/homeostat/internal/redact"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// failsFor is how long the function of a trigger may fail before that is
// reported as a problem. An external trigger counts as working again once a
// call of it has lasted for that time.
const failsFor = time.Minute

// triggerFaults records which functions of triggers fail. For example, a mapper
// that fails for an object enqueues no keys for that object until a call
// succeeds. triggerFaults records at most maxFailures objects for which mappers
// fail. Others are recorded when there is room, because each failed call is
// repeated.
type triggerFaults struct {
	mu     sync.Mutex // guards the field below
	faults map[faultKey]triggerFault
}

// faultKey identifies what fails: the function of a trigger and, for a mapper,
// the object that it is called for.
type faultKey struct {
	function any // the *mapping or the *externalCalls
	object   Key
}

// triggerFault is a series of failed calls, without a success in between.
type triggerFault struct {
	subject string // what fails, such as `the external trigger "cloud"`
	err     error  // the error of the last call
	began   time.Time
	called  time.Time // when the present call began; zero between calls
}

// begin records that a call starts, if the last call has failed.
func (t *triggerFaults) begin(k faultKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if fault, ok := t.faults[k]; ok {
		fault.called = time.Now()
		t.faults[k] = fault
	}
}

// failed records that a call has failed. It reports whether the call is the
// first of a series: the previous call succeeded, or this one has lasted for
// failsFor.
func (t *triggerFaults) failed(k faultKey, subject string, err error, lasted time.Duration) (first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fault, ok := t.faults[k]
	if !ok && k.object != (Key{}) && len(t.faults) >= maxFailures {
		return false
	}
	if !ok || lasted >= failsFor {
		fault.began, first = time.Now(), true
	}
	fault.subject, fault.err, fault.called = subject, err, time.Time{}
	if t.faults == nil {
		t.faults = map[faultKey]triggerFault{}
	}
	t.faults[k] = fault
	return first
}

// succeeded records that a call has succeeded.
func (t *triggerFaults) succeeded(k faultKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.faults, k)
}

// lasting returns the faults that have lasted for failsFor, the oldest first.
// It leaves out a trigger whose present call has lasted for that time, because
// it works again.
func (t *triggerFaults) lasting() []triggerFault {
	t.mu.Lock()
	defer t.mu.Unlock()
	var lasting []triggerFault
	for _, fault := range t.faults {
		works := !fault.called.IsZero() && time.Since(fault.called) >= failsFor
		if time.Since(fault.began) >= failsFor && !works {
			lasting = append(lasting, fault)
		}
	}
	slices.SortFunc(lasting, func(a, b triggerFault) int {
		return cmp.Or(a.began.Compare(b.began), cmp.Compare(a.subject, b.subject))
	})
	return lasting
}

// triggerProblems returns a problem for each function of a trigger that has
// failed for a minute.
func (c *Controller) triggerProblems() []inspect.Problem {
	var problems []inspect.Problem
	for _, fault := range c.triggerFaults.lasting() {
		problems = append(problems, inspect.Problem{
			Check: parts.ControllerCheck(c.name), Cause: "trigger fails",
			Reason: fault.subject + " fails, so its keys are not reconciled: " + redact.Error(fault.err),
			Since:  fault.began,
		})
	}
	return limitProblems(problems)
}

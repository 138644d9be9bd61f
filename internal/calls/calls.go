// Package calls records the calls of a program's functions that are under way,
// such as the function of an index, and names those that hang. Such a function
// must not block, and has no context with which it could be ended.
package calls

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// HangsAfter is how long a call takes before it counts as hanging.
const HangsAfter = time.Minute

// Call is one call of a function.
type Call struct {
	// Function names the function, such as "informer.Options.Transform".
	Function string
	// Key is the object that the call is about. It may be empty.
	Key   types.NamespacedName
	Since time.Time

	id       uint64
	reported bool
}

// Calls are the calls that are under way. The zero value has no calls. The
// methods are safe for concurrent use.
type Calls struct {
	// Report is called once for each call that hangs, to log it. It may be nil.
	Report func(Call)

	mu     sync.Mutex // guards the fields below
	open   []Call
	latest uint64
	timed  bool // whether reportHanging will be called
}

// Begin records that a call starts. The caller passes id to End when the call
// has returned, panicked or ended its goroutine.
func (c *Calls) Begin(function string, key types.NamespacedName) (id uint64) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.latest++
	c.open = append(c.open, Call{Function: function, Key: key, Since: now, id: c.latest})
	// Most calls are short, so the timer is not stopped when a call ends.
	if c.Report != nil && !c.timed {
		c.timed = true
		time.AfterFunc(HangsAfter, c.reportHanging)
	}
	return c.latest
}

// End records that a call has ended.
func (c *Calls) End(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = slices.DeleteFunc(c.open, func(call Call) bool { return call.id == id })
}

// Hanging returns the calls that hang, the oldest first.
func (c *Calls) Hanging() (hanging []Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, call := range c.open {
		if time.Since(call.Since) >= HangsAfter {
			hanging = append(hanging, call)
		}
	}
	return hanging
}

// reportHanging reports the calls that hang. It is called again as long as
// calls are under way.
func (c *Calls) reportHanging() {
	var found []Call
	c.mu.Lock()
	if c.timed = len(c.open) > 0; c.timed {
		next := HangsAfter
		for n := range c.open {
			call := &c.open[n]
			switch left := HangsAfter - time.Since(call.Since); {
			case left > 0:
				next = min(next, left)
			case !call.reported:
				call.reported = true
				found = append(found, *call)
			}
		}
		time.AfterFunc(next, c.reportHanging)
	}
	c.mu.Unlock()
	for _, call := range found {
		c.Report(call)
	}
}

package reconcile

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/internal/calls"
	"github.com/homeostat/homeostat/internal/guard"
	"github.com/homeostat/homeostat/internal/parts"
	"github.com/homeostat/homeostat/internal/redact"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// mostProblems is how many problems with the same cause a controller lists.
const mostProblems = 10

// Problems returns what the controller cannot do at present, while the process
// continues: an optional controller waits for its caches, writes are refused
// because a permission is missing, ten or more keys fail with the same error,
// keys wait because too many reconciles fail only after more than ten seconds,
// the function of a trigger keeps failing, calls ignore the end of their
// context, a function that must not block, such as Options.Group, has not
// returned for a minute, sweeps fail, or no replica can lead because another
// client holds the Lease. Problems of its informers are in their status;
// inspect.Problems returns all of them. It never waits.
func (c *Controller) Problems() []inspect.Problem {
	problems := slices.Concat(
		c.refusals(), c.sharedError(), c.lingerProblem(), c.stuckCalls(), c.triggerProblems(), c.noLeader())
	if c.waits() {
		problems = append(problems, c.waiting())
	}
	if sweep := c.Sweep(); sweep != nil {
		if err := sweep.Ready(); err != nil {
			problems = append(problems, inspect.Problem{
				Check: "sweep/" + c.name, Cause: "sweep failed", Reason: redact.Error(err),
			})
		}
	}
	return problems
}

// waits reports whether this is an optional controller that waits for its
// caches.
func (c *Controller) waits() bool {
	phase := c.Phase()
	return c.options.Optional && (phase == inspect.Created || phase == inspect.Syncing)
}

// waiting returns a problem that says what an optional controller is waiting
// for.
func (c *Controller) waiting() inspect.Problem {
	p := inspect.Problem{Check: parts.ControllerCheck(c.name), Cause: "waiting", Reason: "it has not started yet"}
	for _, s := range c.sources {
		if status := s.Status(); !status.Synced && c.Phase() == inspect.Syncing {
			p.Reason = fmt.Sprintf("it waits for the cache of %s: %s", status.Name, redact.Text(status.Reason))
			break
		}
	}
	return p
}

// noLeader returns a problem if no replica leads although this one is ready.
// For example, a client that is not a replica holds the Lease.
func (c *Controller) noLeader() []inspect.Problem {
	w, ok := c.elects().(inspect.Warner)
	if !ok || c.waits() {
		return nil
	}
	var warning error
	if err := guard.Call(func() { warning = w.Warning() }); err != nil || warning == nil {
		return nil // describeElection shows that a call of the Leader has failed
	}
	return []inspect.Problem{{Check: parts.LeaderCheck(c.name), Cause: "no leader", Reason: redact.Error(warning)}}
}

// limitProblems returns the first ten problems. They must all have the same
// cause. The field More of the tenth counts the problems that were left out.
func limitProblems(problems []inspect.Problem) []inspect.Problem {
	if len(problems) <= mostProblems {
		return problems
	}
	last := &problems[mostProblems-1]
	for _, p := range problems[mostProblems:] {
		last.More += 1 + p.More
	}
	return problems[:mostProblems]
}

// refusals returns a problem for each permission that writes have lacked for
// refusedFor. It returns nil while the controller is not working, for example
// on a standby.
func (c *Controller) refusals() []inspect.Problem {
	if c.Phase() != inspect.Working {
		return nil
	}
	var problems []inspect.Problem
	for _, r := range c.failures.refused(time.Now().Add(-refusedFor)) {
		problems = append(problems, inspect.Problem{
			Check: parts.ControllerCheck(c.name), Object: strings.TrimPrefix(r.keys[0].String(), "/"),
			Cause:  "missing permission",
			Reason: "the API server refuses to " + r.permission.String(),
			Remedy: r.permission.remedy(r.allowed),
			Since:  r.began, More: len(r.keys) - 1,
		})
	}
	return limitProblems(problems)
}

// stuckCalls returns a problem for each call that ignores the end of its
// context, and for each call of a function that must not block but has not
// returned for a minute.
func (c *Controller) stuckCalls() []inspect.Problem {
	var problems []inspect.Problem
	for _, subject := range c.watchdog.stuck() {
		problems = append(problems, inspect.Problem{
			Check: parts.ControllerCheck(c.name), Cause: "stuck call",
			Reason: subject + " has not returned although its context has ended",
			Remedy: "make the call return when its context ends: the log has the stack of the call",
		})
	}
	for _, call := range c.calls.Hanging() {
		problems = append(problems, inspect.Problem{
			Check: parts.ControllerCheck(c.name), Object: strings.Trim(call.Key.String(), "/"), Cause: "stuck call",
			Reason: call.Function + " has not returned for a minute, and other keys wait for it",
			Remedy: "the function must not block", Since: call.Since,
		})
	}
	return limitProblems(problems)
}

// logStuck logs a call that has not returned, of a function that must not
// block.
func (c *Controller) logStuck(call calls.Call) {
	klog.Background().Error(nil, "a function has not returned, blocking the controller", "controller", c.name,
		"function", call.Function, "namespace", call.Key.Namespace, "name", call.Key.Name, "since", call.Since)
}

// refusedFor is how long the writes of a key may be refused before that is
// reported as a problem.
const refusedFor = time.Minute

// Refused returns an error that names the missing permissions if the API server
// has refused the writes of nearly all keys for a minute. Nearly all means nine
// tenths of the keys that this replica reconciles or, if it reconciles more
// than 1,000 keys, 900 of them. They must also be of several namespaces or, if
// the controller has only one namespace, at least two keys. If fewer keys are
// refused, for example because one tenant has not granted a permission, they
// are only in [Controller.Problems]. The error names at most three permissions
// and counts the others. Refused returns nil while the controller does not
// reconcile: before its caches are filled, as a standby, and while stopping.
func (c *Controller) Refused() error {
	if c.Phase() != inspect.Working {
		return nil
	}
	refusals := c.failures.refused(time.Now().Add(-refusedFor))
	refused, missing := map[Key]bool{}, []string{}
	for _, r := range refusals {
		missing = append(missing, r.permission.String())
		for _, key := range r.keys {
			refused[key] = true
		}
	}
	if len(refused) == 0 || !c.isWidespread(refused) {
		return nil
	}
	const shown = 3
	if hidden := len(missing) - shown; hidden > 0 {
		missing = append(missing[:shown], fmt.Sprintf("%d more", hidden))
	}
	return fmt.Errorf("the writes of nearly all keys (%d) have been refused for more than a minute; "+
		"missing permissions: %s", len(refused), strings.Join(missing, ", "))
}

// isWidespread reports whether nearly all keys are refused, and the refused
// keys are in several namespaces. For a kind without namespaces, and for a
// cache of one namespace, two refused keys are enough instead of two
// namespaces.
func (c *Controller) isWidespread(refused map[Key]bool) bool {
	namespaces := map[string]bool{}
	for key := range refused {
		namespaces[key.Namespace] = true
	}
	if len(namespaces) < 2 && (len(refused) < 2 || c.spansNamespaces()) {
		return false
	}
	const nearlyAll = 0.9
	return float64(len(refused)) >= nearlyAll*float64(min(c.ownedKeys(), maxFailures))
}

// ownedKeys counts the cached keys that this replica reconciles.
func (c *Controller) ownedKeys() int {
	owned := 0
	for _, key := range c.primary.keys() {
		if c.slots == nil || c.slots.owns(key) {
			owned++
		}
	}
	return owned
}

// spansNamespaces reports whether the controller's keys can be of several
// namespaces.
func (c *Controller) spansNamespaces() bool {
	if len(c.primary.Status().Namespaces) == 1 {
		return false
	}
	for _, key := range c.primary.keys() {
		if key.Namespace != "" {
			return true
		}
	}
	return false
}

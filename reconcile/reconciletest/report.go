package reconciletest

import (
	"fmt"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Report describes the coverage of an exploration, and its failure if there is
// one. It is complete when [Explore] or [Search] returns, and belongs to the
// caller from then on.
type Report struct {
	// Runs is the number of runs, including those without faults. The runs that
	// shrink a failure do not count.
	Runs int
	// Planned is the number of single deviations for this process, and Tried
	// the number that were tried before the budget was used up.
	Planned, Tried int
	// Pairs is the number of runs with two deviations.
	Pairs int
	// KnownFindings is the number of runs with a finding of
	// [Options].KnownFindings.
	KnownFindings int
	// Kills is the number of kills of package live.
	Kills int
	// Calls, Writes and Deliveries are those of the run without faults: API
	// calls of the program except for Events and Leases, the calls among them
	// that changed something, and the watch events that it received.
	Calls, Writes, Deliveries int
	// Rules are the minimal RBAC rules for everything that the program did in
	// all runs.
	Rules []rbacv1.PolicyRule
	// Narrower lists the lists and watches that a ClusterRole of Case.Roles
	// grants and that less would be enough for in all runs: a Role for one
	// namespace, or one with resourceNames, as for what reconcile.References
	// says.
	Narrower []string
	// Failure is the text that the test failed with: the fault, the violation,
	// the token, the trace and a hint. It is empty if nothing was found.
	Failure string
	// Token replays the failure with [Replay].
	Token string
	// Oracle is the rule that the failure breaks:
	//
	//   - run: Run returns only when its context has ended.
	//   - stop: Run returns within 30 seconds of the end of its context; no
	//     goroutine is left behind.
	//   - vain: without faults the program does not end in errors; it writes
	//     something, or does what Goal asks for; no write is refused again and again.
	//   - workload: without faults the steps of the workload succeed.
	//   - rest: the program comes to rest.
	//   - stay: it stays at rest.
	//   - goal, always: those of the case hold.
	//   - tail: at rest a restart writes nothing.
	//   - state: the state at rest is that of the run without faults.
	//   - counts: a slow watch, or a read that fails, does not alone make it
	//     have or delete more.
	//   - amplify: a fault does not multiply the writes.
	//   - leader: only the replica that holds the Lease writes.
	//   - watch: what the program reads and writes, it watches.
	//   - past: with caches of the past it deletes nothing that is wanted.
	//   - lost: what other clients have written is not overwritten.
	//   - status: at rest observedGeneration is the generation.
	//   - mutation: objects of a cache are not modified.
	//   - cache: at rest a cache holds what the server has.
	//   - others: an object or a namespace that the server refuses to the end does
	//     not stop the others.
	//   - role: it does what Case.Roles grant, and needs all of it.
	//   - retry: what the server has put off is not repeated before its time.
	Oracle string
	// Reason is the code of the usual cause, such as "half-done", which the
	// hint of Failure explains. It is empty if only a rule of the case is
	// broken, or nothing was found.
	Reason string
	// Unused lists declarations of the case and the options that no run needed:
	// an Ignore that matched nothing, a KnownFindings that was not found, an
	// Unwatched resource that the run without faults did not need, an Unneeded
	// rule that is needed. It is empty until one process without Shards has
	// made all runs. [Explore] also prints it to stderr.
	Unused []string
	// Failing is the first error that the program logged without faults, or empty.
	Failing string
	// Chance describes where two runs that should have been identical differed,
	// or is empty.
	Chance string
	// Trace has one line for each step up to the failure. It is empty if
	// nothing was found.
	Trace []string
	// Elapsed is how long the exploration took, in real time.
	Elapsed time.Duration
}

// String summarizes the report in one line.
func (r *Report) String() string {
	text := fmt.Sprintf("%d runs: %d of %d single deviations (%d %%), %d pairs; "+
		"without faults: %d calls, %d writes, %d deliveries",
		r.Runs, r.Tried, r.Planned, 100*r.Tried/max(r.Planned, 1), r.Pairs, r.Calls, r.Writes, r.Deliveries)
	if r.KnownFindings > 0 {
		text += fmt.Sprintf("; %d runs with known findings", r.KnownFindings)
	}
	if r.Failing != "" {
		text += "; an error even so: " + r.Failing
	}
	if len(r.Unused) > 0 {
		text += "; declared, and never used: " + strings.Join(r.Unused, ", ")
	}
	return strings.Join(append([]string{text}, r.Narrower...), "; ")
}

// Covered reports whether every single deviation of this process was tried.
func (r *Report) Covered() bool { return r.Planned > 0 && r.Tried == r.Planned }

package reconciletest

import (
	"fmt"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Report describes the coverage of an exploration, and its failure if there is
// one. It is complete when [Explore] or [Search] returns it. The caller then
// owns it.
type Report struct {
	// Runs is the number of runs, including the runs without faults. The runs
	// that shrink a failure do not count.
	Runs int
	// Planned is the number of single deviations for this process, and Tried
	// the number of them that were tried before a run failed or the budget was
	// used up.
	Planned, Tried int
	// Pairs is the number of runs with two deviations.
	Pairs int
	// KnownFindings is the number of runs with a finding of
	// [Options].KnownFindings.
	KnownFindings int
	// Kills is the number of kills of package live.
	Kills int
	// Calls, Writes and Deliveries describe the run without faults. Calls is
	// the number of the program's API calls, except for Events and Leases.
	// Writes is the number of these calls that changed an object. Deliveries is
	// the number of watch events that the program received.
	Calls, Writes, Deliveries int
	// Rules are RBAC rules that grant the program's calls in all runs: one rule
	// for each resource, with exactly the verbs that the calls need.
	Rules []rbacv1.PolicyRule
	// Narrower describes lists and watches that a ClusterRole of Case.Roles
	// grants although a narrower grant would be enough in all runs. A narrower
	// grant is a Role for one namespace, or a rule with resourceNames, for
	// example for objects that are read with reconcile.References.
	Narrower []string
	// Failure is the text with which [Explore] fails the test. It has the
	// deviations of the failed run, the violation, the token, the trace and a
	// hint. If only rights in Case.Roles are unused, it lists them. It is empty
	// if there is no finding.
	Failure string
	// Token replays the failure with [Replay]. It is empty if no run failed.
	Token string
	// Oracle is the rule that the failure breaks:
	//
	//   - run: Run returns only when its context has ended.
	//   - stop: Run returns within 30 seconds of the end of its context, and
	//     leaves no goroutine behind.
	//   - vain: without faults, the program does its work: it writes or reaches
	//     Goal, and does not end up repeating an error. The server does not refuse
	//     a write again and again, or an Event even once.
	//   - workload: without faults, the steps of the workload succeed.
	//   - rest: the program comes to rest.
	//   - stay: the program stays at rest.
	//   - goal, always: Goal and Always of the case hold.
	//   - tail: a restart at rest does not write.
	//   - state: the state at rest is the same as in the run without faults.
	//   - counts: a slow watch or a failed read alone does not make the
	//     program create or delete more objects.
	//   - amplify: a fault does not multiply the writes.
	//   - leader: if the program uses one Lease, only the replica that holds it
	//     writes.
	//   - watch: the program watches the resources that it reads and writes.
	//   - past: with caches that show an old state, or while a kind is not
	//     served, the program does not delete objects that are needed.
	//   - lost: the program does not overwrite changes by other clients.
	//   - status: at rest, observedGeneration equals the generation.
	//   - mutation: the program does not modify objects of a cache.
	//   - cache: at rest, a cache has the same objects as the server.
	//   - others: an object or a namespace that the server refuses to the end,
	//     or an object that Go cannot decode, does not stop the others.
	//   - role: Case.Roles grant all calls of the program, and nothing more.
	//   - owner: owner references lead to objects that exist or existed.
	//   - retry: a request that the server has postponed is not repeated early.
	Oracle string
	// Reason is the code of the usual cause of the failure, such as
	// "half-done". The hint in Failure explains it. It is empty if no run
	// failed, or if only a rule of the case is broken.
	Reason string
	// Unused lists declarations of the case and the options that no run needed.
	// These are entries of Ignore that matched no field of any object that was
	// compared, KnownFindings that did not occur, Unwatched resources that the
	// run without faults did not need, and Unneeded rules that are needed. An
	// entry of Ignore counts as used even if its field never differed, because
	// the exploration also does not edit that field. Unused is filled in only
	// by a process without Shards that has made all runs. [Explore] also prints
	// it to stderr.
	Unused []string
	// Failing is the first error that the program logged in the run without
	// faults. It is empty if the program logged no error.
	Failing string
	// Chance describes where two runs that should have been identical differed.
	// It is empty if they were identical.
	Chance string
	// Trace has one line for each step up to the failure. It is empty if no run
	// failed.
	Trace []string
	// Elapsed is how long the exploration took, in real time.
	Elapsed time.Duration
	// Processor is the processor time that the process used meanwhile, user and
	// system time together. Unlike Elapsed, it hardly depends on what else the
	// machine does. It is zero where the system is not a Unix.
	Processor time.Duration
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
		text += "; an error without faults: " + r.Failing
	}
	if len(r.Unused) > 0 {
		text += "; declared, and never used: " + strings.Join(r.Unused, ", ")
	}
	return strings.Join(append([]string{text}, r.Narrower...), "; ")
}

// Covered reports whether every single deviation of this process was tried. It
// returns false if no deviation was planned, for example because a run without
// faults failed.
func (r *Report) Covered() bool { return r.Planned > 0 && r.Tried == r.Planned }

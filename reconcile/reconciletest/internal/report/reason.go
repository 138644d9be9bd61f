package report

import (
	"strings"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/plan"
)

// Reason is the usual cause of a finding. The judge of the finding chooses it.
// The Reason alone determines the hint.
type Reason string

// The oracle of a finding alone determines these reasons, and the plan does
// not.
const (
	// NoReason means that no usual cause is known. For example, a run without
	// faults breaks Goal or Always of the case, or a cache of Env.Cache cannot
	// be checked. A finding with NoReason has no hint.
	NoReason Reason = ""
	// NoCalls means that the program does not use the clients of its Env.
	NoCalls Reason = "no-calls"
	// Unwatched means that the program reads or writes a resource without a
	// watch.
	Unwatched Reason = "unwatched"
	// Unnamed means that a reconcile reads an object through a cache of
	// references, although reconcile.References does not return that object for
	// the reconciled one.
	Unnamed Reason = "unnamed"
	// Idle means that the program writes nothing, and that the Goal is missing
	// or holds without the program. So nothing shows that the program works.
	Idle Reason = "idle"
	// OnlyFails means that the program ends up repeating an error although no
	// fault was injected.
	OnlyFails Reason = "only-fails"
	// Refused means that the server refuses a write again and again, and that
	// no fault explains it. For example, there was no fault, or the fault has
	// been over for long.
	Refused Reason = "refused"
	// EventRefused means that the server refuses an Event because of its
	// content, and recorders drop such an Event.
	EventRefused Reason = "event-refused"
	// StepFails means that a step of the workload fails. In a simulated run
	// with faults, the step must have failed twice.
	StepFails Reason = "step-fails"
	// NeverSynced means that a manager of controller-runtime has to stop before
	// its caches have synced.
	NeverSynced Reason = "never-synced"
	// EndedEarly means that Run returns before the end of its context.
	EndedEarly Reason = "ended-early"
	// LeftBehind means that Run, or a goroutine that it started, continues
	// after the end of its context.
	LeftBehind Reason = "left-behind"
	// NotSynced means that Run does not return because it waits for caches that
	// do not sync.
	NotSynced Reason = "not-synced"
	// EndedLate means that Run returns so late that a real cluster would have
	// killed the process.
	EndedLate Reason = "ended-late"
	// NoControllers means that a run on a real server does not come to rest,
	// although no client writes. For example, the cluster has not finished a
	// deletion, a watch has not shown a write, or the Lease of a killed replica
	// has not expired.
	NoControllers Reason = "no-controllers"
	// WakesItself means that the program does not come to rest, because it
	// writes again and again without a long pause, or that it writes many times
	// more often in a run with a fault than in a run without one.
	WakesItself Reason = "wakes-itself"
	// Seldom means that the program never comes to rest, but time passes
	// between its writes.
	Seldom Reason = "seldom"
	// ByClock means that an object changes while the program has to stay at
	// rest.
	ByClock Reason = "by-clock"
	// Collected means that the program never comes to rest, because the garbage
	// collector deletes the objects that it creates.
	Collected Reason = "collected"
	// WritesAgain means that the program updates an object after a restart,
	// long after the fault is over.
	WritesAgain Reason = "writes-again"
	// Overdue means that the program updates an object after a restart although
	// no fault was injected.
	Overdue Reason = "overdue"
	// Forgotten means that the program creates or deletes an object, or changes
	// the state at the end, after a restart with current caches.
	Forgotten Reason = "forgotten"
	// NotLeader means that a replica writes although it does not hold the
	// Lease.
	NotLeader Reason = "not-leader"
	// Impatient means that a request is repeated before the time that the
	// server has named.
	Impatient Reason = "impatient"
	// Overwrites means that another client's fields are lost, or that caches
	// which hold an older state lead to different fields at the end.
	Overwrites Reason = "overwrites"
	// WrongObject means that the program restarted with caches that held an
	// older state, and that it deleted a needed object, or that needed objects
	// are missing.
	WrongObject Reason = "wrong-object"
	// NotGranted means that Case.Roles do not grant a call.
	NotGranted Reason = "not-granted"
	// Modified means that the program has modified an object of a cache.
	Modified Reason = "modified"
	// MissedDeletion means that a cache of the program differs from the server
	// at rest.
	MissedDeletion Reason = "missed-deletion"
	// StaleCache means that a watch was held back or ended, or that a call was
	// slow, and that the program wrote at least as much as without that. For
	// example, it created more objects.
	StaleCache Reason = "stale-cache"
	// FailedRead means that a failed read makes the program create or delete
	// more objects.
	FailedRead Reason = "failed-read"
	// StrayOwner means that the program writes an owner reference to an object
	// that does not exist and never did.
	StrayOwner Reason = "stray-owner"
	// SecondName means that the state is wrong, and that an object with a name
	// that the server has generated is missing, is left over or differs.
	SecondName Reason = "second-name"
)

// The deviation of the plan determines these reasons, for a run with that
// deviation that ends in a wrong state.
const (
	// LostEvent means that an event was lost or delivered twice, and the
	// program depends on events instead of the objects that exist.
	LostEvent Reason = "lost-event"
	// LateEventIgnored means that a watch was held back and the program wrote
	// less than without the delay, because the late event did not trigger the
	// key.
	LateEventIgnored Reason = "late-event-ignored"
	// ChangeIgnored means that another client changed an input, and the program
	// made the writes that follow from the change only after a restart.
	ChangeIgnored Reason = "change-ignored"
	// NotRestored means that another client deleted an output, and the program
	// did not create it again.
	NotRestored Reason = "not-restored"
	// NotCorrected means that another client edited an output, and the program
	// did not repair it, unless NotOwned, NotSeen or NotMapped explains why.
	NotCorrected Reason = "not-corrected"
	// NotOwned means that the program did not repair an output that another
	// client deleted or edited, and the output has no owner reference.
	NotOwned Reason = "not-owned"
	// NotSeen means that the program did not repair an output that another
	// client deleted or edited, and no watch received the event.
	NotSeen Reason = "not-seen"
	// NotMapped means that the program did not repair an output that another
	// client deleted or edited, and a watch received the event, but no worker
	// took a key.
	NotMapped Reason = "not-mapped"
	// Hangs means that calls hung because of a partition, and the program did
	// not make another attempt.
	Hangs Reason = "hangs"
	// GivesUp means that the server refused every call for a while, or was slow
	// for minutes, and the program gave up instead of retrying.
	GivesUp Reason = "gives-up"
	// MixedVersions means that the old and the new version ran at the same time
	// during a rollout.
	MixedVersions Reason = "mixed-versions"
	// OneStopsAll means that unrelated objects ended in a wrong state because,
	// until the end of the run, the server refused all calls in one namespace
	// or all writes to one object, or one object could not be decoded.
	OneStopsAll Reason = "one-stops-all"
	// StopsKind means that a typed informer of client-go could not decode one
	// object, and no longer shows any object of the kind.
	StopsKind Reason = "stops-kind"
	// ChangedMeanwhile means that a step of the workload happened early, so
	// that an object changed while it was being reconciled.
	ChangedMeanwhile Reason = "changed-meanwhile"
	// OutsideFailed means that a step of the workload happened early and
	// changed only state outside the server.
	OutsideFailed Reason = "outside-failed"
	// Unsynced means that a list was delayed at a restart, and the program
	// acted before all of its caches were filled.
	Unsynced Reason = "unsynced"
	// MissedWhileDown means that the program missed steps of the workload that
	// happened while it was down.
	MissedWhileDown Reason = "missed-while-down"
	// Stopped means that the program was told to stop, and did not finish its
	// work after the next start.
	Stopped Reason = "stopped"
	// Conflict means that another client wrote an object just before the
	// program read or wrote it, and that the program did not react to that with
	// another attempt.
	Conflict Reason = "conflict"
	// TooSoon means that an actor was late, and the program did not wait for
	// its report.
	TooSoon Reason = "too-soon"
	// Restored means that the server was restored from a backup.
	Restored Reason = "restored"
	// Reborn means that all objects of a custom resource were deleted and
	// created again, and the program got no event of their deletion.
	Reborn Reason = "reborn"
	// Clocks means that the clocks of the server and of the replicas differed.
	Clocks Reason = "clocks"
	// Mutated means that a webhook added labels, fields or containers to the
	// objects that the program wrote.
	Mutated Reason = "mutated"
	// Slept means that all processes were suspended for an hour, and afterwards
	// the program did not renew the watches and the Leases that had ended.
	Slept Reason = "slept"
	// Order means that all actions happened in a random order.
	Order Reason = "order"
	// PastCache means that the program restarted with caches that held an older
	// state, and went wrong in another way than with Overwrites or WrongObject.
	// For example, it left more objects behind than it should have.
	PastCache Reason = "past-cache"
	// SlowCall means that one call was slow while all others continued.
	SlowCall Reason = "slow-call"
	// UnknownReply means that the reply to a write was lost or late.
	UnknownReply Reason = "unknown-reply"
	// HalfDone means that the program crashed just before or after a write, and
	// did not finish its work after the next start.
	HalfDone Reason = "half-done"
	// NotRetried means that a call failed, and the program did not make another
	// attempt.
	NotRetried Reason = "not-retried"
	// Misled means that a 404 that was not about the object of a call misled
	// the program.
	Misled Reason = "misled"
	// OnlyLogged means that a call failed, and that the program only logged the
	// error. Since then it has sent no requests except lists and watches.
	OnlyLogged Reason = "only-logged"
	// TooEarly means that the state or the goal was wrong at a rest, and became
	// right within the following hour.
	TooEarly Reason = "too-early"
)

// Seen describes a finding. [ReasonFor] chooses the reason from it and the
// plan.
type Seen struct {
	End         bool // whether the state or the goal is wrong at a rest
	Fields      bool // whether the state differs only in fields
	Lost        bool // whether objects are missing, and no objects are left over
	MadeUp      bool // whether an object with a generated name is among the differences
	FewerWrites bool // whether the program has written less than without the plan
	Missed      bool // whether no watch got an event of the output that the plan has disturbed
	Unmoved     bool // whether a watch got an event of the disturbed output, but no worker took a key
	Unowned     bool // whether the disturbed output had no owner reference
	OnlyOutside bool // whether a step that was done early changed only state outside the server
}

// ReasonFor returns the reason for a finding in a run with the plan p.
func ReasonFor(p plan.Plan, saw Seen) Reason {
	_, unsynced := p.First(plan.Unsynced)
	switch {
	case saw.End && unsynced:
		return Unsynced
	case saw.End && len(p) == 1 && p[0].Kind == plan.Restarted && p[0].N == 0: // no cache was old
		return Forgotten
	case saw.End && saw.MadeUp:
		return SecondName
	case len(p) == 0:
		return NoReason
	}
	if len(p) == 1 && (p[0].Kind == plan.Deleted || p[0].Kind == plan.Detained || p[0].Kind == plan.Edited) {
		switch {
		case saw.Missed:
			return NotSeen
		case saw.Unmoved:
			return NotMapped
		case saw.Unowned:
			return NotOwned
		}
	}
	return reasonOfDeviation(p[0], saw)
}

// ReasonAfterRestart returns the reason for a finding about a program that
// wrote after a restart although no work was left. verb is the verb of that
// write.
func ReasonAfterRestart(p plan.Plan, verb string) Reason {
	_, unsynced := p.First(plan.Unsynced)
	switch {
	case unsynced:
		return Unsynced
	case verb == "create" || strings.HasPrefix(verb, "delete"):
		return Forgotten
	case len(p) == 0:
		return Overdue
	}
	return WritesAgain
}

// reasonOfKind maps each kind of deviation to the reason for a finding in a run
// with such a deviation. [ReasonFor] uses it if no more precise reason is
// known.
var reasonOfKind = map[byte]Reason{
	plan.AtDelivery: LostEvent, plan.Altered: ChangeIgnored, plan.Replaced: ChangeIgnored, plan.Held: ChangeIgnored,
	plan.Deleted: NotRestored, plan.Detained: NotRestored, plan.Edited: NotCorrected, plan.Marked: NotCorrected,
	plan.Parted: Hangs, plan.Refused: GivesUp, plan.Outage: GivesUp, plan.Rollout: MixedVersions,
	plan.Barred: OneStopsAll, plan.Poisoned: OneStopsAll, plan.Garbled: OneStopsAll,
	plan.Early: ChangedMeanwhile, plan.Unsynced: Unsynced, plan.Offline: MissedWhileDown,
	plan.Stopped: Stopped, plan.Halted: Stopped, plan.Paused: Stopped, plan.Rivalled: Conflict,
	plan.Mutated: Mutated, plan.Unserved: Misled, plan.Silent: NotRetried, plan.Restored: Restored,
	plan.Skewed: Clocks, plan.Reborn: Reborn,
	plan.Lagging: TooSoon, plan.Asleep: Slept, plan.Shuffled: Order,
}

func reasonOfDeviation(d plan.Deviation, saw Seen) Reason {
	switch {
	case d.Kind == plan.Restarted && d.N == 0:
		return Forgotten
	case d.Kind == plan.Restarted && saw.Fields:
		return Overwrites
	case d.Kind == plan.Restarted && saw.Lost:
		return WrongObject
	case d.Kind == plan.Restarted:
		return PastCache
	case d.Kind == plan.AtDelivery && d.Fault == plan.Hold && saw.FewerWrites:
		return LateEventIgnored
	case d.Kind == plan.AtDelivery && d.Fault == plan.Hold:
		return StaleCache
	case d.Kind == plan.Early && saw.OnlyOutside:
		return OutsideFailed
	case d.Kind != plan.AtCall:
		return reasonOfKind[d.Kind]
	}
	switch d.Fault {
	case plan.Hold:
		return SlowCall
	case apisim.LostReply, apisim.Late:
		return UnknownReply
	case apisim.CrashAfter, apisim.CrashBefore:
		return HalfDone
	case apisim.ProxyNotFound, apisim.NotServed, apisim.OtherNotFound:
		return Misled
	}
	return NotRetried
}

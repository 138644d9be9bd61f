package report

import (
	"strings"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/plan"
)

// Reason is the usual cause of a finding, chosen by the judge that makes the
// finding. The hint follows from it alone.
type Reason string

// The reasons that follow from what the oracle saw, whatever the plan was.
const (
	// NoReason is chosen when only a rule of the case is broken, and nothing
	// was disturbed. It has no hint.
	NoReason Reason = ""
	// NoCalls is chosen when the clients of the Env are not used.
	NoCalls Reason = "no-calls"
	// Unwatched is chosen when the program reads or writes a resource without a
	// watch.
	Unwatched Reason = "unwatched"
	// Unnamed is chosen when a reconcile reads a reference that its object does
	// not name.
	Unnamed Reason = "unnamed"
	// Idle is chosen when nothing shows that the program works.
	Idle Reason = "idle"
	// OnlyFails is chosen when the program ends in errors without a fault.
	OnlyFails Reason = "only-fails"
	// Refused is chosen when the server refuses a write again and again without
	// a fault.
	Refused Reason = "refused"
	// StepFails is chosen when a step of the workload fails without a fault, or
	// at its second try.
	StepFails Reason = "step-fails"
	// NeverSynced is chosen when a manager whose caches are not filled has to stop.
	NeverSynced Reason = "never-synced"
	// EndedEarly is chosen when Run returns before the end of its context.
	EndedEarly Reason = "ended-early"
	// LeftBehind is chosen when Run or one of its goroutines goes on after the end.
	LeftBehind Reason = "left-behind"
	// NotSynced is chosen when Run does not return because it waits for caches
	// that do not sync.
	NotSynced Reason = "not-synced"
	// EndedLate is chosen when Run returns after a cluster would have killed it.
	EndedLate Reason = "ended-late"
	// NoControllers is chosen when a real cluster does not end what was deleted.
	NoControllers Reason = "no-controllers"
	// WakesItself is chosen when the program writes without a pause, or many
	// times more with a fault.
	WakesItself Reason = "wakes-itself"
	// Seldom is chosen when the program never rests, and time passes between
	// its writes.
	Seldom Reason = "seldom"
	// ByClock is chosen when something changes while the program has to stay at
	// rest.
	ByClock Reason = "by-clock"
	// Collected is chosen when the program never rests, and the garbage
	// collector deletes what it makes.
	Collected Reason = "collected"
	// WritesAgain is chosen when a restart updates an object although a fault
	// is over.
	WritesAgain Reason = "writes-again"
	// Overdue is chosen when a restart updates an object, and there was no fault.
	Overdue Reason = "overdue"
	// Forgotten is chosen when a plain restart creates or deletes an object, or
	// changes the end.
	Forgotten Reason = "forgotten"
	// NotLeader is chosen when a replica writes that does not hold the Lease.
	NotLeader Reason = "not-leader"
	// Impatient is chosen when a request comes again before the time that the
	// server has named.
	Impatient Reason = "impatient"
	// Overwrites is chosen when another client's fields are lost, or caches of
	// the past change fields at the end.
	Overwrites Reason = "overwrites"
	// WrongObject is chosen when caches of the past make the program delete
	// what is wanted.
	WrongObject Reason = "wrong-object"
	// NotGranted is chosen when Case.Roles do not grant a call.
	NotGranted Reason = "not-granted"
	// Modified is chosen when the program has modified an object of a cache.
	Modified Reason = "modified"
	// MissedDeletion is chosen when a cache of the program differs from the
	// server at rest.
	MissedDeletion Reason = "missed-deletion"
	// StaleCache is chosen when a held watch makes the program write more than
	// without it.
	StaleCache Reason = "stale-cache"
	// FailedRead is chosen when a read that fails makes the program have or
	// delete more.
	FailedRead Reason = "failed-read"
	// SecondName is chosen when there is one object more or less whose name the
	// server has made up.
	SecondName Reason = "second-name"
)

// The reasons that follow from the deviation of the plan, where the end is not
// the right one.
const (
	// LostEvent is chosen for an event that is lost or comes twice.
	LostEvent Reason = "lost-event"
	// NotWoken is chosen for a watch that is held: afterwards the program has
	// written less than without it.
	NotWoken Reason = "not-woken"
	// Unwoken is chosen for an input that is changed: only a restart writes
	// what follows from it.
	Unwoken Reason = "unwoken"
	// NotRestored is chosen for an output that is deleted.
	NotRestored Reason = "not-restored"
	// NotCorrected is chosen for an output that is edited: its event led to a
	// reconcile, or that is not known.
	NotCorrected Reason = "not-corrected"
	// NotOwned is chosen for an output that is deleted or edited and has no
	// owner reference.
	NotOwned Reason = "not-owned"
	// NotSeen is chosen for an output that is deleted or edited, of which no
	// watch got an event.
	NotSeen Reason = "not-seen"
	// NotMapped is chosen for an output that is deleted or edited: its event
	// came, and no worker took a key.
	NotMapped Reason = "not-mapped"
	// Hangs is chosen for a partition.
	Hangs Reason = "hangs"
	// GivesUp is chosen for a server that refuses every call for a while.
	GivesUp Reason = "gives-up"
	// MixedVersions is chosen for a rollout, in which both versions run.
	MixedVersions Reason = "mixed-versions"
	// OneStopsAll is chosen for a refusal that lasts, when it changes what it does
	// not strike.
	OneStopsAll Reason = "one-stops-all"
	// ChangedMeanwhile is chosen for a step of the workload that comes early.
	ChangedMeanwhile Reason = "changed-meanwhile"
	// OutsideFailed is chosen for a step of the workload that comes early and
	// changes only what is outside the server.
	OutsideFailed Reason = "outside-failed"
	// Unsynced is chosen for a restart in which a list comes late.
	Unsynced Reason = "unsynced"
	// MissedWhileDown is chosen for steps while the program was down.
	MissedWhileDown Reason = "missed-while-down"
	// Stopped is chosen for a program that is told to stop.
	Stopped Reason = "stopped"
	// Conflict is chosen for another client that writes the object just before.
	Conflict Reason = "conflict"
	// TooSoon is chosen for an actor that is late.
	TooSoon Reason = "too-soon"
	// Slept is chosen for an hour without an event.
	Slept Reason = "slept"
	// Order is chosen for a random order.
	Order Reason = "order"
	// PastCache is chosen for a restart with caches of the past.
	PastCache Reason = "past-cache"
	// SlowCall is chosen for a call that is slow.
	SlowCall Reason = "slow-call"
	// UnknownReply is chosen for a write whose reply is lost or late.
	UnknownReply Reason = "unknown-reply"
	// HalfDone is chosen for a crash beside a write.
	HalfDone Reason = "half-done"
	// NotRetried is chosen for a call that fails.
	NotRetried Reason = "not-retried"
	// OnlyLogged is chosen for a call that fails, whose error the program logs
	// without another call afterwards.
	OnlyLogged Reason = "only-logged"
	// TooEarly is chosen when the end is right after more time.
	TooEarly Reason = "too-early"
)

// Seen is what a judge knows of a finding whose reason follows from the plan.
type Seen struct {
	End     bool // the state or the goal at the end is not the right one
	Fields  bool // the state differs, and only in fields
	Lost    bool // objects are missing, and nothing is too much
	MadeUp  bool // a name that the server has made up is among the differences
	Less    bool // the program has written less than without the plan
	Missed  bool // no watch got an event of the output that the plan has disturbed
	Unmoved bool // its event came, and no worker of a controller took a key
	Unowned bool // the output had no owner reference
	Outside bool // a step that came early changed only what is outside the server
}

// Of returns the reason of a finding that a plan explains.
func Of(p plan.Plan, saw Seen) Reason {
	_, unsynced := p.First(plan.Unsynced)
	switch {
	case saw.End && unsynced:
		return Unsynced
	case saw.End && len(p) == 1 && p[0].At == plan.Restarted && p[0].N == 0: // no cache was old
		return Forgotten
	case saw.End && saw.MadeUp:
		return SecondName
	case len(p) == 0:
		return NoReason
	}
	if len(p) == 1 && (p[0].At == plan.Deleted || p[0].At == plan.Edited) {
		switch {
		case saw.Missed:
			return NotSeen
		case saw.Unmoved:
			return NotMapped
		case saw.Unowned:
			return NotOwned
		}
	}
	return ofDeviation(p[0], saw)
}

// Again returns the reason of a write that a restart makes although all was done.
func Again(p plan.Plan, verb string) Reason {
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

// ofKind has the reasons of deviations that are always the same.
var ofKind = map[byte]Reason{
	plan.AtDelivery: LostEvent, plan.Altered: Unwoken, plan.Replaced: Unwoken,
	plan.Deleted: NotRestored, plan.Edited: NotCorrected, plan.Marked: NotCorrected,
	plan.Parted: Hangs, plan.Refused: GivesUp, plan.Rollout: MixedVersions,
	plan.Barred: OneStopsAll, plan.Poisoned: OneStopsAll, plan.Early: ChangedMeanwhile, plan.Unsynced: Unsynced,
	plan.Offline: MissedWhileDown, plan.Stopped: Stopped, plan.Halted: Stopped, plan.Rivalled: Conflict,
	plan.Lagging: TooSoon, plan.Asleep: Slept, plan.Shuffled: Order,
}

func ofDeviation(d plan.Deviation, saw Seen) Reason {
	switch {
	case d.At == plan.Restarted && d.N == 0:
		return Forgotten
	case d.At == plan.Restarted && saw.Fields:
		return Overwrites
	case d.At == plan.Restarted && saw.Lost:
		return WrongObject
	case d.At == plan.Restarted:
		return PastCache
	case d.At == plan.AtDelivery && d.Fault == plan.Hold && saw.Less:
		return NotWoken
	case d.At == plan.AtDelivery && d.Fault == plan.Hold:
		return StaleCache
	case d.At == plan.Early && saw.Outside:
		return OutsideFailed
	case d.At != plan.AtCall:
		return ofKind[d.At]
	}
	switch d.Fault {
	case plan.Hold:
		return SlowCall
	case apisim.LostReply, apisim.Late:
		return UnknownReply
	case apisim.CrashAfter, apisim.CrashBefore:
		return HalfDone
	}
	return NotRetried
}

package report

import (
	"strings"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/plan"
)

// NoControllers explains a cluster that never comes to rest. A finding with it gets no hint.
const NoControllers = "is there a kube-controller-manager? It ends namespaces and collects garbage; envtest has none"

// ByClock is in the finding about a program that never rests, and writes only now and then.
const ByClock = "now and then"

// Killed is in the finding about a Run that returns too late.
const Killed = "a cluster kills it"

const (
	staleCache = "it trusts a cache that has not seen its own writes: " +
		"wait for it, or give children names that do not depend on it"
	generated = "a second try, or an old cache, gives a second object when the server makes up the name: " +
		"let names follow from the owner"
	halfDone    = "the next reconcile must find the work half done: write the mark that it is done last"
	syncedFirst = "it acts before all of its caches are filled: wait until each has synced"
	loops       = "a reconciler that writes every time wakes itself: compare before you write; " +
		"two that want different things of one field never stop"
	seldom = "a reconciler that writes every time wakes itself, and a back-off slows it down; or something writes by " +
		"the clock: compare before you write, or name the field in Case.Ignore"
	collected = "the garbage collector deletes the objects that it makes: " +
		"an owner has to be in the same namespace, or in none, and to be there under that UID"
	forgotten = "it decides by its memory, and a restart forgets that: decide by the objects that exist"
	late      = "work that Run does after its context has ended needs a deadline of its own; a Pod that needs longer " +
		"says so by terminationGracePeriodSeconds, and its case by Options.Known"
	noAnswer  = "a failed read does not mean that nothing exists: return its error, to be called again"
	oldCopy   = "it writes from an old copy: patch only your own fields, or send the resourceVersion that you have read"
	unseenUID = "a cache may be of the past after a restart: give deletes the UID of the object that you mean, " +
		"and ask the server itself before you destroy"
	overdue = ". If the write was due before, nothing led to it: watch what it follows from"
	unseen  = "a cache may be of the past after a restart: ask the server itself before you make or start anything, " +
		"and report on the copy that you have acted on"
)

var oracleHints = map[string]string{
	Rest:    loops,
	Amplify: loops,
	Tail: "the first reconcile of an object writes although nothing is to do: compare before you write, " +
		"keep times that did not change, and decide by what is there, not by what came first",
	Stay: "something writes by the clock: compare before you write, or name the field in Case.Ignore",
	Watch: "give the controller a trigger for every kind that it reads or writes (reconcile.Owned, reconcile.Mapped), " +
		"or name it in Case.Unwatched",
	Leader: "a leader that may have lost its Lease must not write: leader.Elector.Fence makes clients that do not",
	Stop:   "Run has to wait for every goroutine that it starts, and to end only with its context",
	Run:    "Run has to wait for every goroutine that it starts, and to end only with its context",
	Counts: staleCache,
	Retry: "the error says when to retry (apierrors.SuggestsClientDelay), and clients wait for that long by " +
		"themselves: leave them their retries, and wrap errors with %w",
	Lost:     oldCopy,
	Past:     unseenUID,
	Role:     "Report.Rules are the fewest rules that do",
	Mutation: "objects of a cache are shared: copy before you edit, as patch.Merge does",
	Cache: "a cache of your own has to be listed again when its watch has failed, and a handler of client-go gets a " +
		"deletion that was missed as a cache.DeletedFinalStateUnknown: look into it",
}

var deviationHints = map[byte]string{
	plan.AtDelivery: "events can be lost, or arrive twice: " +
		"decide by the state that is there, not by the events that came",
	plan.Deleted: "nothing restores the deleted object: is there a trigger for this kind that finds the owner, " +
		"and does the name follow from the owner alone?",
	plan.Edited:   "nothing restores the edited object: compare it with its desired state",
	plan.Parted:   "calls that hang, and then time out, must lead to another attempt",
	plan.Refused:  "it gives up after some failures: attempts have to go on until one succeeds, with a back-off",
	plan.Early:    "the object changed in the middle of its own reconcile",
	plan.Unsynced: syncedFirst,
	plan.Offline: "changes while the program is down give no event: look at the objects that exist, " +
		"and let a finalizer wait for the clean-up",
	plan.Stopped:  "a stop may come between any two writes: " + halfDone,
	plan.Rivalled: "the object was not the one that was read: a conflict must lead to another attempt",
	plan.Lagging:  "actors take their time: wait for their report, not for a fixed time or their first answer",
	plan.Asleep:   "watches and leases are over after a long sleep: all of it has to begin again",
	plan.Shuffled: "it depends on the order in which things happen",
}

// hint names the usual reason for a finding at the end of a trace; "" if there is none.
func hint(p plan.Plan, f *Finding, trace []string) string {
	_, unsynced := p.First(plan.Unsynced)
	compared := f.Oracle == State || f.Oracle == Goal
	switch {
	case strings.Contains(f.Text, NoControllers):
		return ""
	case f.Oracle == Stop && strings.Contains(f.Text, Killed):
		return late
	case unsynced && (f.Oracle == Tail || compared):
		return syncedFirst
	case compared && len(p) == 1 && p[0].At == plan.Restarted && p[0].N == 0: // no cache was old
		return forgotten
	case f.Oracle == Tail && (strings.Contains(f.Text, "again: create") || strings.Contains(f.Text, "again: delete")):
		return forgotten
	case f.Oracle == Rest && strings.Contains(strings.Join(trace[max(len(trace)-showLoop, 0):], ""), "collect garbage: "):
		return collected
	case f.Oracle == Counts && strings.Contains(f.Text, "without the error"):
		return noAnswer
	case f.Oracle == Rest && strings.Contains(f.Text, ByClock):
		return seldom
	case f.Oracle == Tail && len(p) == 0:
		return oracleHints[Tail] + overdue
	case oracleHints[f.Oracle] != "":
		return oracleHints[f.Oracle]
	case compared && strings.Contains(f.Text, "-*"):
		return generated
	}
	for _, d := range p {
		if text := hintFor(d, f); text != "" {
			return text
		}
	}
	return ""
}

func hintFor(d plan.Deviation, f *Finding) string {
	switch there := strings.Contains(f.Text, " = there"); {
	case d.At == plan.Restarted && d.N == 0:
		return forgotten
	case d.At == plan.Restarted && f.Oracle == State && !there:
		return oldCopy
	case d.At == plan.Restarted && there && !strings.Contains(f.Text, "\n    + "):
		return unseenUID
	case d.At == plan.Restarted:
		return unseen
	case d.At == plan.AtDelivery && d.Fault == plan.Hold:
		return staleCache
	case d.At != plan.AtCall:
		return deviationHints[d.At]
	}
	switch d.Fault {
	case plan.Hold:
		return "one call is slow, and the rest continues: nothing may depend on which comes first"
	case apisim.LostReply, apisim.Late:
		return "a timeout does not say that nothing was written: a second try has to take what is there, or deleted, " +
			"already as done, and to write last that it is; let names follow from the owner"
	case apisim.CrashAfter, apisim.CrashBefore:
		return halfDone
	}
	return "an error of one call must lead to another attempt"
}

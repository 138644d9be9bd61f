package reconciletest

import (
	"strings"

	"github.com/homeostat/homeostat/internal/apisim"
)

const (
	staleCache = "it trusts a cache that has not seen its own writes: " +
		"wait for it, or give children names that do not depend on it"
	generated = "a second try, or an old cache, gives a second object when the server makes up the name: " +
		"let names follow from the owner"
	halfDone = "the next look must find the work half done: write what says that it is done last"
)

// hint says what mostly is behind it.
func hint(p plan, f *finding) string {
	switch f.oracle {
	case oracleRest, oracleAmplify:
		if strings.Contains(f.text, noControllers) {
			return ""
		}
		return "a reconciler that writes every time wakes itself: compare before you write"
	case oracleTail:
		return hintForTail(p)
	case oracleStay:
		return "something writes by the clock: compare before you write, or name the field in Case.Ignore"
	case oracleWatch:
		return "give the controller a trigger for every kind that it reads or writes (reconcile.Owned, reconcile.Mapped), " +
			"or name it in Case.Unwatched"
	case oracleLeader:
		return "a leader that may have lost its Lease must not write: leader.Elector.Fence makes clients that do not"
	case oracleStop, oracleRun:
		return "Run has to wait for every goroutine that it starts, and to end only with its context"
	case oracleCounts:
		return staleCache
	case oracleRetry:
		return "the error says when to come again (apierrors.SuggestsClientDelay), and clients wait for so long by " +
			"themselves: leave them their retries, and wrap errors with %w"
	case oracleLost:
		return "it has overwritten the object as a whole, from an old copy: patch only what is yours, " +
			"or send the resourceVersion that you have read"
	case oracleMutation:
		return "objects of a cache are shared: copy before you edit, as patch.Merge does"
	case oracleCache:
		return "a cache of your own has to be listed anew when its watch has failed, and a handler of client-go gets a " +
			"deletion that was missed as a cache.DeletedFinalStateUnknown: look into it"
	case oracleState, oracleGoal:
		if strings.Contains(f.text, "-*") {
			return generated
		}
	}
	for _, d := range p {
		if text := hintFor(d); text != "" {
			return text
		}
	}
	return ""
}

func hintForTail(p plan) string {
	if _, found := p.kind(unsynced); found {
		return "it acts before all of its caches are there: wait until each has synced"
	}
	return "the first look at an object writes although nothing is to do: " +
		"compare before you write, keep times that did not change"
}

func hintFor(d deviation) string {
	if d.at == atCall {
		return hintForCall(d.fault)
	}
	if d.at == atDelivery && d.fault == hold {
		return staleCache
	}
	return map[byte]string{
		atDelivery: "events can be lost, and can come twice: decide by the state that is there, not by the events that came",
		deleted:    "nobody puts back what was deleted: is there a trigger for this kind that finds the owner?",
		edited:     "nobody puts back what was edited: hold what is there against what should be",
		parted:     "calls that hang, and then time out, must lead to another try",
		early:      "the object changed in the middle of its own reconciling",
		restarted: "a cache may be of the past after a restart: give deletes the UID of the object that you mean, " +
			"and ask the server itself before you destroy",
		unsynced: "it acts before all of its caches are there: wait until each has synced",
		offline: "what happens while the program is down gives no event: look at what is there, " +
			"and let a finalizer wait for what has to be cleaned up",
		stopped:  "a stop may come between any two writes: " + halfDone,
		rivalled: "the object was not the one that was read: a conflict must lead to another look",
		lagging:  "others take their time: wait for what they report, and neither for a while nor for their first answer",
		asleep:   "watches and leases are over after a long sleep: all of it has to begin again",
		shuffled: "it depends on the order in which things happen",
	}[d.at]
}

func hintForCall(f apisim.Fault) string {
	switch f {
	case hold:
		return "one call is slow, and the rest goes on: nothing may depend on which comes first"
	case apisim.LostReply, apisim.Late:
		return "a timeout does not say that nothing was written: " + halfDone + "; and let names follow from the owner"
	case apisim.CrashAfter, apisim.CrashBefore:
		return halfDone
	}
	return "an error of one call must lead to another try"
}

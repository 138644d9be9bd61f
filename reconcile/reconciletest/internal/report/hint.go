package report

import (
	"maps"
	"slices"
)

// Hint returns advice that usually helps. It returns "" for [NoReason].
func (r Reason) Hint() string { return hints[r] }

// AllReasons returns every reason that has a hint.
func AllReasons() []Reason { return slices.Sorted(maps.Keys(hints)) }

// hints maps each reason to a text that names the usual cause of the finding
// and how to correct it.
var hints = map[Reason]string{
	NoCalls: "Run must start the program with the clients of Env.Client or Env.Config, not with fakes",
	Unwatched: "give the controller a trigger for every kind that it reads or writes (reconcile.Owned and " +
		"reconcile.Mapped, or Owns and Watches), or name the resource in Case.Unwatched",
	Unnamed: "return the object from the function of reconcile.References: only then is it cached and awaited, and only " +
		"then does a change of it trigger the key",
	Idle: "give the case a Goal that does not hold without the program, or an object for which the program has to write",
	OnlyFails: "the program may refuse an object of the case, or the server may refuse a write of the program: " +
		"the error says which",
	Refused: "the answer says what the server does not accept, and a retry does not change that: write what it accepts, " +
		"replace the object if the field is immutable, or report the error in a status and return it with reconcile.Terminal",
	EventRefused: "the note of an Event has at most 1,024 bytes, its reason and its action at most 128, and " +
		"recorders drop longer Events: shorten what comes from an error or an object",
	StepFails: "a step is done when the program is at rest: the object that it needs must exist at that time, and the " +
		"server must accept the body that it sends",
	NeverSynced: "does the program watch or index a kind that is neither built in nor in Case.Definitions, " +
		"or does a list fail?",
	EndedEarly: "Run must not return before its context has ended: retry what may work later, such as the first list " +
		"of a cache",
	LeftBehind: "Run must wait for every goroutine that it starts, and must not return before its context has ended",
	NotSynced: "Run still waits for caches to sync after its context has ended: give the wait the context's Done " +
		"channel. Is a kind that the program watches neither built in nor in Case.Definitions, or does its list fail?",
	EndedLate: "work that Run does after its context has ended needs a deadline of its own; if the Pod sets a longer " +
		"terminationGracePeriodSeconds, name this finding in Options.KnownFindings",
	NoControllers: "does the cluster have a kube-controller-manager? It deletes namespaces and collects garbage; " +
		"envtest does not have one",
	WakesItself: "a reconciler that writes in every reconcile wakes itself: compare before you write; " +
		"two reconcilers that want different values of one field never stop",
	Seldom: "a reconciler that writes in every reconcile wakes itself, slowed down by a back-off; or something writes " +
		"by the clock: compare before you write, or name the field in Case.Ignore",
	ByClock: "something writes by the clock: compare before you write, or name the field in Case.Ignore",
	Collected: "the garbage collector deletes the objects that the program creates: an owner must exist with the UID of " +
		"the reference, and must be in the same namespace or cluster-scoped",
	StrayOwner: "the garbage collector deletes an object whose owner does not exist, and keeps an object whose owner is " +
		"of an unknown kind: take apiVersion, kind and UID from the owner itself, as metav1.NewControllerRef does",
	WritesAgain: writesAgain,
	Overdue: writesAgain + ". If the write was due earlier, no event triggered it: watch the objects that " +
		"it depends on",
	Forgotten: "the program relies on its memory, which a restart clears: base decisions on the objects that exist",
	NotLeader: "a leader that may have lost its Lease must not write: clients of leader.Elector.Fence refuse to",
	Impatient: "the error says when to retry (apierrors.SuggestsClientDelay), and clients wait for that time by " +
		"themselves: do not turn off their retries, and wrap errors with %w",
	Overwrites: "the program writes from an old copy: patch only your own fields, or send the resourceVersion that you " +
		"have read",
	WrongObject: "after a restart, a cache may be of the past: pass the UID of the object that you mean as a " +
		"precondition of the delete, and read from the server itself before you delete",
	NotGranted: "add the rule to the program's Role: Report.Rules lists the rules that all of its calls need",
	Modified:   "objects of a cache are shared: edit a copy (DeepCopy), as patch.Merge does",
	MissedDeletion: "a cache of your own must list again after its watch has failed; a handler of client-go gets a " +
		"missed deletion as a cache.DeletedFinalStateUnknown, which contains the object",
	StaleCache: "the program trusts a cache that does not show its own writes yet: " +
		"wait until it does, or give children names that do not depend on the cache",
	FailedRead: "a failed read does not mean that nothing exists: return its error, so that the reconcile is retried",
	SecondName: "a second attempt, or an old cache, leads to a second object if the server generates the name: " +
		"derive names from the owner",
	LostEvent: "events can be lost, or arrive twice: " +
		"base decisions on the objects that exist, not on the events that arrived",
	LateEventIgnored: "the program looked before the event arrived, and the event did not trigger the key: " +
		"objects that a reconcile looks up need a trigger (reconcile.Mapped, or Watches)",
	ChangeIgnored: "the program read that object, and no trigger leads from it back to the key: give the controller one " +
		"(reconcile.Mapped, or Watches), or name the resource in Case.Unwatched",
	NotRestored: "nothing restores the deleted object: is there a trigger for this kind that finds the owner " +
		"by the reference that the object had, and is the name derived from the owner alone?",
	NotOwned: "the object has no owner reference, so a trigger by owner (reconcile.Owned, Owns) does not lead from it " +
		"to a key: set the reference, or map the object to its key by a label (reconcile.Mapped, Watches)",
	NotCorrected: "nothing restores the edited object: compare it with its desired state",
	NotSeen: "no watch of the program shows the object: its informer reads another namespace, " +
		"or its selector excludes the object",
	NotMapped: "the event arrived, but no key was reconciled: the trigger finds no owner. Does the object have an owner " +
		"reference or the labels of its owner, and does the informer know whether the owner's kind is namespaced?",
	Hangs:         "calls that hang, and then time out, must lead to another attempt",
	MixedVersions: "both versions run at the same time during an upgrade: neither may undo what the other writes",
	OneStopsAll: "an object or a namespace that the server refuses, or that Go cannot decode, must not stop the others: " +
		"continue with them, and return the joined errors at the end",
	StopsKind: "a typed informer of client-go fails to list its kind as long as one object cannot be decoded: cache the " +
		"kind as unstructured objects, or with a client of package cluster, which leaves out only that object. If the " +
		"program has to live with that, add \"stops its whole kind\" to Options.KnownFindings",
	GivesUp: "the program gives up after some failures: retry with a back-off until an attempt succeeds",
	ChangedMeanwhile: "the object changed while it was reconciled: send the resourceVersion that you have read, so that " +
		"the server refuses a decision about the old object, and let the event of the change lead to another reconcile",
	OutsideFailed: "state outside the server changed during a reconcile, and the operation that failed was not " +
		"retried: return the error, or reconcile again after a time",
	Unsynced: "the program acts before all of its caches are filled: wait until each has synced",
	MissedWhileDown: "changes while the program is down cause no event: look at the objects that exist, " +
		"and let a finalizer wait for the clean-up",
	Stopped:  "a stop may happen between any two writes: " + halfDone,
	Conflict: "the object has changed since it was read: a conflict must lead to another attempt",
	TooSoon:  "actors take their time: wait for their report, not for a fixed time or their first answer",
	Mutated: "webhooks add labels, fields, containers and variables to the objects that the program writes: compare " +
		"only the fields that it has set itself, or what it has sent with what it would send now",
	Restored: "after a restore of the server, resourceVersions continue from an older one, and recreated objects have " +
		"new UIDs: compare what the program remembers outside of the server with the objects that exist",
	Reborn: "an object of the same name may be another object, and its deletion may cause no event: compare UIDs in a " +
		"handler and in what the program remembers, and base decisions on the objects that exist",
	Clocks: "the times in an object are from another machine's clock: compare them only with one another, or allow for " +
		"the difference between the clocks",
	Slept: "watches and leases have ended after a long sleep: all of them must begin again",
	Order: "the result depends on the order in which things happen: base decisions on all objects that exist, for " +
		"example on the oldest of them, and not on the one that was seen first",
	PastCache: "after a restart, a cache may be of the past: read from the server itself before you create or start " +
		"anything, and report the status of the copy that you have acted on",
	SlowCall: "one call is slow while the others continue: nothing may depend on which of them ends first",
	UnknownReply: "a timeout does not mean that nothing was written: a second attempt must accept that an object " +
		"already exists, or is already deleted, and must mark the work as done last; derive names from the owner",
	HalfDone:   halfDone,
	NotRetried: "an error of one call must lead to another attempt",
	Misled: "a 404 proves that an object does not exist only if it is the API server's own, and about that object: " +
		"names.IsNotFound reports that. After any other 404, make the call again",
	OnlyLogged: "an error that is only logged is not retried: return it from the reconcile",
	TooEarly: "if the program may take that long, set Options.Rest to a longer time. If not, only a resync or another " +
		"timer has triggered the key: it needs a trigger, or a retry",
}

const (
	halfDone    = "the next reconcile must be able to finish half-done work: mark the work as done last"
	writesAgain = "the first reconcile of an object writes although there is nothing to do: compare before you write, " +
		"keep times that did not change, and base decisions on the objects that exist, not on what happened first"
)

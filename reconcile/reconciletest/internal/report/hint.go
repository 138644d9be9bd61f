package report

import (
	"maps"
	"slices"
)

// Hint says what usually helps, or "" if there is nothing that can be said.
func (r Reason) Hint() string { return hints[r] }

// All returns every reason that has a hint.
func All() []Reason { return slices.Sorted(maps.Keys(hints)) }

// hints name the usual cause of a finding, and what to do about it.
var hints = map[Reason]string{
	NoCalls: "the clients have to be those of Env.Client or Env.Config, and not fakes",
	Unwatched: "give the controller a trigger for every kind that it reads or writes (reconcile.Owned, " +
		"reconcile.Mapped), or name it in Case.Unwatched",
	Unnamed: "let the function of reconcile.References return it: only then is it cached, awaited, and led back from " +
		"to the key when it changes",
	Idle: "give the case a Goal that does not hold without the program, or an object that it has to work for",
	OnlyFails: "an object of the case may be one that the program refuses, or the server refuses what it writes: " +
		"the error says which",
	Refused: "the answer says what the server does not take, and a retry does not change that: write what it takes, " +
		"replace the object if the field is immutable, or report the error in a status and end with reconcile.Terminal",
	StepFails: "a step acts when the program is at rest: the object that it needs has to be there then, and its body " +
		"to be one that the server takes",
	NeverSynced: "is a kind that it watches, or indexes, neither built in nor in Case.Definitions, or does its list fail?",
	EndedEarly: "Run ends only with its context: what may work later, such as the first list of a cache, " +
		"needs another attempt",
	LeftBehind: "Run has to wait for every goroutine that it starts, and to end only with its context",
	NotSynced: "it waits for its caches to sync, and does not end with its context: is a kind that it watches neither " +
		"built in nor in Case.Definitions, or does its list fail? Give the wait the context's Done channel",
	EndedLate: "work that Run does after its context has ended needs a deadline of its own; a Pod that needs longer " +
		"says so by terminationGracePeriodSeconds, and its case by Options.KnownFindings",
	NoControllers: "is there a kube-controller-manager? It ends namespaces and collects garbage; envtest has none",
	WakesItself: "a reconciler that writes every time wakes itself: compare before you write; " +
		"two that want different things of one field never stop",
	Seldom: "a reconciler that writes every time wakes itself, and a back-off slows it down; or something writes by " +
		"the clock: compare before you write, or name the field in Case.Ignore",
	ByClock: "something writes by the clock: compare before you write, or name the field in Case.Ignore",
	Collected: "the garbage collector deletes the objects that it makes: " +
		"an owner has to be in the same namespace, or in none, and to be there under that UID",
	WritesAgain: writesAgain,
	Overdue:     writesAgain + ". If the write was due before, nothing led to it: watch what it follows from",
	Forgotten:   "it decides by its memory, and a restart forgets that: decide by the objects that exist",
	NotLeader:   "a leader that may have lost its Lease must not write: leader.Elector.Fence makes clients that do not",
	Impatient: "the error says when to retry (apierrors.SuggestsClientDelay), and clients wait for that long by " +
		"themselves: leave them their retries, and wrap errors with %w",
	Overwrites: "it writes from an old copy: patch only your own fields, or send the resourceVersion that you have read",
	WrongObject: "a cache may be of the past after a restart: give deletes the UID of the object that you mean, " +
		"and ask the server itself before you destroy",
	NotGranted: "Report.Rules are the fewest rules that do",
	Modified:   "objects of a cache are shared: copy before you edit, as patch.Merge does",
	MissedDeletion: "a cache of your own has to be listed again when its watch has failed, and a handler of client-go " +
		"gets a deletion that was missed as a cache.DeletedFinalStateUnknown: look into it",
	StaleCache: "it trusts a cache that has not seen its own writes: " +
		"wait for it, or give children names that do not depend on it",
	FailedRead: "a failed read does not mean that nothing exists: return its error, to be called again",
	SecondName: "a second try, or an old cache, gives a second object when the server makes up the name: " +
		"let names follow from the owner",
	LostEvent: "events can be lost, or arrive twice: " +
		"decide by the state that is there, not by the events that came",
	NotWoken: "it looked before the event came, and nothing led back to the key when it did: " +
		"what a reconcile looks up needs a trigger (reconcile.Mapped, or Watches)",
	Unwoken: "it read that object, and nothing wakes it when the object changes: give the controller a trigger that " +
		"leads from it back to the key (reconcile.Mapped, or Watches), or name the resource in Case.Unwatched",
	NotRestored: "nothing restores the deleted object: is there a trigger for this kind that finds the owner " +
		"by the reference that the object had, and does the name follow from the owner alone?",
	NotOwned: "the object has no owner reference, so a trigger by owner (reconcile.Owned, Owns) does not lead from it " +
		"to a key: set the reference, or map the object to its key by a label (reconcile.Mapped, Watches)",
	NotCorrected: "nothing restores the edited object: compare it with its desired state",
	NotSeen: "no watch of the program shows the object: its informer is of another namespace, " +
		"or its selector leaves the object out",
	NotMapped: "the event came, and no key was reconciled: its trigger finds no owner. Has the object an owner " +
		"reference or the labels of its owner, and is the owner's kind in a namespace, or in none, as the informer says?",
	Hangs:         "calls that hang, and then time out, must lead to another attempt",
	MixedVersions: "both versions run at the same time during an upgrade: neither may undo what the other writes",
	OneStopsAll: "an object or a namespace that the server refuses must stop only itself: go on with the others, and " +
		"return the joined errors at the end",
	GivesUp:          "it gives up after some failures: attempts have to go on until one succeeds, with a back-off",
	ChangedMeanwhile: "the object changed in the middle of its own reconcile",
	OutsideFailed: "what is outside the server changed in the middle of a reconcile, and what failed there was not " +
		"tried again: return the error, or come again after a time",
	Unsynced: "it acts before all of its caches are filled: wait until each has synced",
	MissedWhileDown: "changes while the program is down give no event: look at the objects that exist, " +
		"and let a finalizer wait for the clean-up",
	Stopped:  "a stop may come between any two writes: " + halfDone,
	Conflict: "the object was not the one that was read: a conflict must lead to another attempt",
	TooSoon:  "actors take their time: wait for their report, not for a fixed time or their first answer",
	Slept:    "watches and leases are over after a long sleep: all of it has to begin again",
	Order:    "it depends on the order in which things happen",
	PastCache: "a cache may be of the past after a restart: ask the server itself before you make or start anything, " +
		"and report on the copy that you have acted on",
	SlowCall: "one call is slow, and the rest continues: nothing may depend on which comes first",
	UnknownReply: "a timeout does not say that nothing was written: a second try has to take what is there, or deleted, " +
		"already as done, and to write last that it is; let names follow from the owner",
	HalfDone:   halfDone,
	NotRetried: "an error of one call must lead to another attempt",
	OnlyLogged: "an error that is only logged is not retried: return it from the reconcile",
	TooEarly: "if it may take that long, set Options.Rest to more than it waits for. If not, only a resync or another " +
		"timer has led back to the key: it needs a trigger, or a retry",
}

const (
	halfDone    = "the next reconcile must find the work half done: write the mark that it is done last"
	writesAgain = "the first reconcile of an object writes although nothing is to do: compare before you write, " +
		"keep times that did not change, and decide by what is there, not by what came first"
)

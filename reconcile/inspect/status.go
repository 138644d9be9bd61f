package inspect

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/queue"
)

// Phase is a stage in the life of a controller.
type Phase string

// The phases of a controller, in this order. Standby and Working alternate.
const (
	Created  Phase = "created"  // Run has not been called
	Syncing  Phase = "syncing"  // informers are waiting for their first lists
	Standby  Phase = "standby"  // this replica does not lead, has not finished taking over, or works on no slot
	Working  Phase = "working"  // keys are reconciled
	Stopping Phase = "stopping" // reconciles in flight are finishing
	Stopped  Phase = "stopped"
)

// Status describes what a controller is doing.
type Status struct {
	Name  string
	Kind  string // the kind of the reconciled objects
	Phase Phase
	// Optional reports whether the process is ready while the controller waits
	// for its caches.
	Optional bool
	// Elects reports whether the controller has a Leader or Shards.
	Elects bool
	// LeaderName describes which replica leads, or why no replica leads. It is
	// empty if the Leader or the Shards do not implement [Elector].
	LeaderName string
	// LeaseName is the name of the Leader's Lease. It is empty if the Leader
	// does not implement [LeaseNamer].
	LeaseName string
	// Slots are the owners of the slots, by number. It is nil unless
	// Options.Shards is from package shard or ranges, or implements [Slots].
	Slots []SlotStatus
	// Imbalance is the number of objects of the replica with the most, divided
	// by the mean of all replicas. For example, 1.5 means half more than the
	// mean. It is zero while the replicas are balanced, and while the numbers
	// of objects are not known.
	Imbalance float64
	// Triggers are the sources of reconciles. The primary informer is the first
	// one.
	Triggers []TriggerStatus
	// Outputs are the kinds that reconciles have written, sorted.
	Outputs []string
	// Keys lists the keys that are held, delayed or waiting, in the order of
	// queue.Entries, followed by the keys that wait for a change after a
	// terminal error. It has at most as many keys as the caller of
	// Controller.Status requests.
	Keys []KeyStatus
}

// TriggerStatus describes an informer and how its objects are mapped to keys.
type TriggerStatus struct {
	Informer string // the name of the informer or of the external trigger
	Kind     string // the kind of the objects; empty for an external trigger
	Type     string // "primary", "owned", "mapped", "references" or "external"

	// Identity is equal to the Identity of the informer's [InformerStatus]. It
	// is nil for an external trigger.
	Identity any
}

// KeyStatus describes one key: why it is queued and how its last reconcile
// ended.
type KeyStatus struct {
	queue.EntryStatus[types.NamespacedName]

	// Resting reports whether the key has left the queue because its last
	// reconcile ended with a terminal error.
	Resting bool
	// Failure is the first line of the error of the key's last reconcile. If
	// there was no error, it describes a hot loop, many repetitions without a
	// delay, or a reconcile that has not returned in time. Otherwise it is
	// empty. It is also empty during the first conflicts in a row, which are
	// retried quietly.
	Failure  string
	FailedAt time.Time // when Failure was recorded; zero if Failure is empty
}

// Reference is an object to which the object of a key refers, by
// reconcile.References.
type Reference struct {
	Kind string
	Key  types.NamespacedName
	// State is "exists", "does not exist" or "not known yet". Otherwise it is
	// the reason why this replica cannot know whether the object exists.
	State string
}

// The states of a slot.
const (
	Here        = "here"        // this replica works on the slot
	Elsewhere   = "elsewhere"   // a live replica owns the slot, but this one does not work on it
	Claimable   = "claimable"   // no live replica owns the slot, so any replica may claim it
	Unavailable = "unavailable" // requests of the slot's last owner may still arrive
)

// SlotStatus describes the owner of one slot, as this replica sees it.
type SlotStatus struct {
	State string
	Owner string    // empty for a slot without an owner
	Since time.Time // when this replica last saw the slot's record change
	// Weight is the slot's share of all objects when the ranges were chosen,
	// from 0 to 1. Slots are assigned to balance the weights of the replicas.
	// It is zero if slots have no weights.
	Weight float64
	// Heavy is the heaviest namespace of the slot if, when the ranges were
	// chosen, it had more objects than a replica's fair share is now. Otherwise
	// it is empty.
	Heavy string
}

// Slots is implemented by a program's own reconcile.Shards if it knows the
// owners of its slots.
type Slots interface {
	// Owners returns the values of [Status].Slots and [Status].Imbalance. It
	// may be called at any time, from any goroutine. It must not send requests,
	// because every scrape calls it.
	Owners() (slots []SlotStatus, imbalance float64)
}

// Elector is implemented by a reconcile.Leader or reconcile.Shards that can
// describe itself, such as leader.Elector and shard.Shards. Its methods may be
// called at any time, from any goroutine.
type Elector interface {
	fmt.Stringer // which replica leads, or why no replica leads

	// Ready returns nil if this replica leads or stands by as it should, and
	// otherwise an error that describes the problem.
	Ready() error
	// Healthy returns nil, or an error that says why only a restart of the
	// process helps.
	Healthy() error
}

// LeaseNamer is implemented by a reconcile.Leader that uses a Lease, such as
// leader.Elector.
type LeaseNamer interface {
	// LeaseName returns the name of the Lease, without its namespace.
	LeaseName() string
}

// Warner is implemented by an [Elector] that can be ready although no replica
// leads, such as leader.Elector.
type Warner interface {
	// Warning returns nil, or an error that says why no replica leads although
	// this replica is ready, and what a person can do about it. For example, a
	// client that is not a replica holds the Lease.
	Warning() error
}

// Outcome is how a reconcile ended.
type Outcome uint8

// The outcomes of a reconcile.
const (
	Succeeded  Outcome = iota // it returned no error
	Requeued                  // it returned After
	Conflicted                // it failed with a conflict, and is retried quietly
	Failed                    // it failed with an error or a panic, and is retried
	GaveUp                    // it failed with a terminal error
	outcomes
)

// String returns the outcome as it appears in metrics.
func (o Outcome) String() string {
	return [...]string{"success", "requeue_after", "conflict", "error", "terminal", ""}[o]
}

// Stats counts what a controller has done since it was made. Stuck, Active and
// Failing describe the present.
type Stats struct {
	// Reconciles counts reconciles by Outcome.
	Reconciles [outcomes]uint64
	// Panics counts panics of Options.Group, of Shards.Slot and of reconciles.
	// Panics of reconciles also count as Failed. A reconcile that ends its
	// goroutine counts like a panic.
	Panics uint64
	// Stuck is the number of calls (of reconcilers, mappers, external triggers
	// and hooks) that have not returned within five seconds after the end of
	// their context.
	Stuck int
	// Overran counts log lines that name stuck calls.
	Overran uint64
	// Active is the number of reconciles that are running now, including stuck
	// ones. It may be up to twice Workers, because other workers replace the
	// stuck ones.
	Active, Workers int
	// HeldBack counts reconciles after which the key had to wait until the
	// caches saw its writes.
	HeldBack uint64
	// Overdue counts reconciles that began before the caches had seen the
	// writes of the key, because Options.FreshnessDeadline had passed.
	Overdue uint64
	// Failing is the number of keys that have a Failure in their [KeyStatus],
	// at most 1000.
	Failing int
	// HotLoops counts reconciles with a write that made no progress, for
	// example because another client keeps undoing it. The controller then
	// delays its reaction to changes of the written object.
	HotLoops uint64
	// Durations is a cumulative histogram. It maps each bound, in seconds, to
	// the number of reconciles that took at most that long.
	Durations map[float64]uint64
	// DurationsSum is the total duration of all reconciles, in seconds.
	DurationsSum float64
}

// Attempt describes one reconcile of a key: what caused it, what it wrote, and
// how it ended. Its slices are shared; do not modify them.
type Attempt struct {
	Key types.NamespacedName
	// Number is 1 plus the number of failures in a row before this attempt.
	// Some changes, such as a change of the object, begin a new count.
	Number int
	Start  time.Time
	Took   time.Duration
	// Causes are the causes of the reconcile. See reconcile.Controller.History
	// for when they are recorded.
	Causes []queue.Cause
	// Writes are the first 10 writes.
	Writes []Write
	// MoreWrites counts the writes after the first 10.
	MoreWrites int
	// Seen is the time when the caches had seen all writes. It is zero until
	// then, and remains zero if the controller does not watch the kinds that
	// were written.
	Seen time.Time
	// Overdue reports whether the reconcile began before the caches had seen
	// the key's last writes.
	Overdue bool
	Outcome Outcome
	// Failure is the first line of the error; empty after a success.
	Failure string
}

// Write is an object that a reconcile created, changed or deleted, or may have,
// if the server's answer is not known.
type Write struct {
	Kind, Namespace, Name string
	ResourceVersion       string // the resourceVersion in the server's answer; may be older for a deletion; may be empty
	Deleted               bool
}

// InformerStatus describes an informer and the controllers that use it.
type InformerStatus struct {
	// Status describes the informer itself. Its Name ends with a number if an
	// earlier informer has the same name.
	informer.Status

	// Controllers are the names of the controllers that use the informer.
	Controllers []string
	// Optional reports whether all controllers that use the informer are
	// optional. If they are, the process is ready without it.
	Optional bool
	// Resource is the watched resource. Its group or its name is empty if the
	// client does not reveal it.
	Resource schema.GroupResource
	// Identity identifies the informer: two statuses have equal Identities if
	// they describe the same informer.
	Identity any
}

// Feeds reports whether t is a trigger of this informer. Their names may
// differ.
func (i InformerStatus) Feeds(t TriggerStatus) bool {
	return t.Identity != nil && i.Identity == t.Identity
}

// Informers returns the state of every informer of the controllers, each once,
// in the order of their first use. If several informers have the same name, it
// adds a number to the names of all but the first. It never waits for an
// informer. C is *reconcile.Controller.
func Informers[C interface{ Informers() []InformerStatus }](controllers ...C) []InformerStatus {
	var informers []InformerStatus
	names := map[string]int{}
	for _, c := range controllers {
		for _, status := range c.Informers() {
			known := slices.IndexFunc(informers, func(i InformerStatus) bool { return i.Identity == status.Identity })
			if known >= 0 {
				informers[known].Controllers = append(informers[known].Controllers, status.Controllers...)
				informers[known].Optional = informers[known].Optional && status.Optional
				continue
			}
			if names[status.Name]++; names[status.Name] > 1 {
				status.Name = fmt.Sprintf("%s-%d", status.Name, names[status.Name])
			}
			informers = append(informers, status)
		}
	}
	return informers
}

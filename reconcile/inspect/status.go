package inspect

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/leader/shard"
	"github.com/homeostat/homeostat/queue"
)

// Phase is a stage in the life of a controller.
type Phase string

// The phases of a controller, in this order. Standby and Working alternate.
const (
	Created  Phase = "created"  // Run has not been called
	Syncing  Phase = "syncing"  // until every informer has its first list
	Standby  Phase = "standby"  // until this replica leads
	Working  Phase = "working"  // keys are reconciled
	Stopping Phase = "stopping" // reconciles in flight may finish
	Stopped  Phase = "stopped"
)

// Status describes what a controller is doing.
type Status struct {
	Name  string
	Kind  string // of the objects that are reconciled
	Phase Phase
	// Elects reports whether there is a Leader, or Shards.
	Elects bool
	// LeaderName says which replica leads, or why none does; empty if the Leader or
	// the Shards do not implement [Elector].
	LeaderName string
	// LeaseName is the name of the Leader's Lease; empty if it does not implement
	// [LeaseNamer].
	LeaseName string
	// Slots are the owners of the slots, by number; nil unless Options.Shards is a
	// [shard.Reporter].
	Slots []shard.SlotStatus
	// Triggers lead to reconciles; the primary informer comes first.
	Triggers []TriggerStatus
	// Outputs are the kinds that reconciles have written, sorted.
	Outputs []string
	// Keys lists the keys that are held, delayed or waiting, in the order of
	// queue.Entries, and then those that rest after a terminal error.
	Keys []KeyStatus
}

// TriggerStatus describes an informer and how its objects are mapped to keys.
type TriggerStatus struct {
	Informer string // its name, or that of an external trigger
	Kind     string // of its objects; empty for an external trigger
	Type     string // "primary", "owned", "mapped" or "external"

	// Identity is equal to that of the informer's [InformerStatus], and nil for an
	// external trigger.
	Identity any
}

// KeyStatus describes one key: why it is queued and how its last reconcile
// ended.
type KeyStatus struct {
	queue.EntryStatus[types.NamespacedName]

	// Resting reports whether the key has left the queue because its last reconcile
	// ended with a terminal error.
	Resting bool
	// Failure is the first line of the error of the key's last reconcile; empty
	// after a success.
	Failure  string
	FailedAt time.Time // zero after a success
}

// Elector is implemented by a reconcile.Leader or shard.Assignment that can
// describe itself, such as leader.Elector and shard.Shards. Its methods may be
// called at any time, from any goroutine.
type Elector interface {
	fmt.Stringer // which replica leads, or why none does

	// Ready returns nil if this replica leads or stands by as it should, and
	// otherwise what is wrong.
	Ready() error
	// Healthy returns nil, or why only a restart of the process helps.
	Healthy() error
}

// LeaseNamer is implemented by a reconcile.Leader that uses a Lease, such as
// leader.Elector.
type LeaseNamer interface {
	// LeaseName returns the name of the Lease, without its namespace.
	LeaseName() string
}

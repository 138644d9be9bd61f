package inspect

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/queue"
)

// Attempt describes one reconcile of a key: what caused it, what it wrote, and
// how it ended. Its slices are shared; do not modify them.
type Attempt struct {
	Key types.NamespacedName
	// Number is 1 plus the number of failures in a row before.
	Number int
	Start  time.Time
	Took   time.Duration
	// Causes of the reconcile; see reconcile.Controller.History for when they are
	// recorded.
	Causes []queue.Cause
	// Writes are the first 10.
	Writes []Write
	// MoreWrites counts the writes after the first 10.
	MoreWrites int
	// Seen is when the caches had seen all writes; zero until then, and for writes
	// of kinds that the controller does not watch.
	Seen time.Time
	// Overdue reports whether the reconcile began before the caches had seen the
	// key's last writes.
	Overdue bool
	Outcome Outcome
	// Failure is the first line of the error; empty after a success.
	Failure string
}

// Write is an object that a reconcile created, changed or deleted.
type Write struct {
	Kind, Namespace, Name string
	ResourceVersion       string // as the server answered
	Deleted               bool
}

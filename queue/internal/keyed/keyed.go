// Package keyed is what queue/workqueue needs of a queue: client-go's callers
// name keys where those of package queue have items.
package keyed

import (
	"time"

	"k8s.io/utils/clock"
)

// Queue is a queue.Queue whose operations are by key.
type Queue[K comparable] interface {
	// AddLater adds key after delay, whatever else is added until then. Of two
	// such additions the earlier counts. If failed, it is a failure of key, and
	// the delay is its back-off. It returns false after Drain and Stop.
	AddLater(key K, delay time.Duration, failed bool) bool
	// Get returns the next key and, if timed, how long it has waited. In a
	// drained queue it does not wait for keys that are held.
	Get(timed bool) (key K, waited time.Duration, err error)
	// Done ends the item of key, neither with success nor with failure. It
	// reports whether key was held and, if timed, for how long.
	Done(key K, timed bool) (age time.Duration, ok bool)
	// Failures returns how often key has failed in a row.
	Failures(key K) int
	// Pending returns how many keys wait for a worker, or will when they are no
	// longer held, and how often one has begun to.
	Pending() (pending, began int64)
	// Draining reports whether the queue takes no more keys.
	Draining() bool
	// Empty returns a channel that is closed when the queue is drained, nothing
	// waits and no key is held.
	Empty() <-chan struct{}
	// Clock is the queue's.
	Clock() clock.Clock
}

// Package keyed has the methods that queue/workqueue needs beyond those that a queue
// exports: client-go's callers name keys where those of package queue have items.
package keyed

import (
	"time"

	"k8s.io/utils/clock"
)

// Queue is a queue.Queue by key. It is safe for concurrent use.
type Queue[K comparable] interface {
	State
	// AddLater adds key after delay, whatever else is added until then. Of two
	// such additions the earlier counts. If failed, it is a failure of key, and
	// the delay is its back-off. Returns false after Drain and Stop.
	AddLater(key K, delay time.Duration, failed bool) bool
	// Get returns the next key and, if timed, how long it has waited. In a
	// drained queue it does not wait for keys that are held.
	Get(timed bool) (key K, waited time.Duration, err error)
	// Done ends the item of key, neither with success nor with failure. It
	// reports whether key was held and, if timed, for how long.
	Done(key K, timed bool) (age time.Duration, ok bool)
	// Failures returns how often key has failed in a row.
	Failures(key K) int
}

// State is the part of a Queue that is not about one key.
type State interface {
	// Pending returns how many keys wait for a worker, or will as soon as they
	// are no longer held, and how often one has begun to.
	Pending() (pending, began int64)
	// Draining reports whether additions are dropped.
	Draining() bool
	// Empty returns a channel that is closed once the queue is drained, nothing
	// waits and no key is held.
	Empty() <-chan struct{}
	// Reopen forgets the failures of all keys, whose back-offs end, and counts the waiting
	// times from now on: the workers of another replica had the keys until now.
	Reopen()
	// Clock returns the queue's clock.
	Clock() clock.Clock
}

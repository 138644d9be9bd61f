// Package keyed defines the operations that packages of this module need beyond
// the methods of queue.Queue. Where the methods of a queue take an item,
// these operations take a key, as the methods of client-go's queues do.
package keyed

import (
	"time"

	"k8s.io/utils/clock"
)

// Queue is a queue.Queue whose operations take keys. It is safe for concurrent
// use.
type Queue[K comparable] interface {
	State
	History[K]
	// AddLater adds key after delay. The addition is kept apart from additions
	// by other methods: neither replaces the other, and each leads to a
	// dispatch. Of several calls of AddLater, the one with the earliest time
	// counts. If failed is true, the addition counts as a failure of key, and
	// the back-off of the key replaces delay. AddLater returns false after
	// Drain and Stop.
	AddLater(key K, delay time.Duration, failed bool) bool
	// Get waits for the next key and returns it. If timed is true, it also
	// returns how long the key has waited. Get returns queue.ErrStopped once
	// the queue is stopped, or is drained and no key waits: it does not wait
	// for held or delayed keys of a drained queue.
	Get(timed bool) (key K, waited time.Duration, err error)
	// Done ends the item of key without success or failure. It reports whether
	// key was held. If timed is true, it also returns for how long.
	Done(key K, timed bool) (age time.Duration, ok bool)
}

// History contains the methods of a Queue for what it remembers of a key.
type History[K comparable] interface {
	// Discount makes queue.Options.MinInterval ignore the last dispatch of key.
	// Call it while key is held, if its worker puts it back without working on
	// it: the next dispatch then need not wait for the interval.
	Discount(key K)
	// Failures returns how often key has failed in a row.
	Failures(key K) int
}

// State contains the methods of a Queue that do not concern a single key.
type State interface {
	// Pending returns how many keys are pending. A pending key waits for a
	// worker, or was added while a worker holds it. began is how often a key
	// has become pending.
	Pending() (pending, began int64)
	// Draining reports whether additions are dropped.
	Draining() bool
	// Empty returns a channel that is closed once Drain or Stop was called and
	// no key waits or is held. Delayed keys do not count.
	Empty() <-chan struct{}
	// Reopen clears the failures and back-offs of all keys, and counts waiting
	// times from now on. A replica calls it when it becomes the leader, because
	// another replica has worked on the keys until then.
	Reopen()
	// Clock returns the queue's clock.
	Clock() clock.Clock
}

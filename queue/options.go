package queue

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/homeostat/homeostat/internal/option"
)

const (
	defaultBackoffBase = 100 * time.Millisecond
	defaultBackoffCap  = 5 * time.Minute
)

// Options configures a [Queue]. Nil and zero fields mean the defaults.
type Options[K comparable] struct {
	// Name appears in metrics and on debug pages. It may be empty, and need not
	// be unique.
	Name string
	// Backoff delays the retries of failed keys. Its fields have their own
	// defaults.
	Backoff Backoff
	// MinInterval is the minimum time between two dispatches of one key, in
	// every lane and for every reason. Defaults to no minimum.
	MinInterval time.Duration
	// Group returns the group of a key. Groups take turns inside a lane, so
	// that a large group does not delay the others. For example, return the
	// namespace to give every tenant an equal share. Group must always return
	// the same group for the same key, and be safe for concurrent use. It is
	// called on the goroutine that adds the key; a panic reaches that caller.
	// Defaults to one group for all keys.
	Group func(K) string
	// Clock tells the time and makes timers. Defaults to the real clock.
	Clock clock.Clock
}

func (o *Options[K]) withDefaults() Options[K] {
	set := ptr.Deref(o, Options[K]{})
	set.Backoff.Base = cmp.Or(set.Backoff.Base, defaultBackoffBase)
	set.Backoff.Cap = cmp.Or(set.Backoff.Cap, max(defaultBackoffCap, set.Backoff.Base))
	if set.Clock == nil {
		set.Clock = clock.RealClock{}
	}
	return set
}

func (o *Options[K]) validate() error {
	check := option.Of("queue.Options")
	check.That(o.MinInterval >= 0, "MinInterval", o.MinInterval, option.Negative)
	return errors.Join(o.Backoff.validate(), check.Err())
}

// Backoff defines how long a failed key waits for its retry. After the n-th
// failure in a row the delay is a random duration between zero and min(Cap,
// Base·2ⁿ⁻¹). For example, with the defaults the third failure waits for up to
// 400 ms. The delay is random, because keys that failed together should not be
// retried together. [New] refuses a negative Base, and a Cap below Base.
type Backoff struct {
	// Base bounds the delay after the first failure. Defaults to 100 ms.
	Base time.Duration
	// Cap bounds the delay after any failure. Defaults to five minutes, or Base
	// if that is longer.
	Cap time.Duration
}

func (b Backoff) validate() error {
	check := option.Of("queue.Backoff")
	check.That(b.Base >= 0, "Base", b.Base, option.Negative)
	check.That(b.Cap >= b.Base, "Cap", b.Cap, "must be at least Base, %v", b.Base)
	return check.Err()
}

// ceiling returns the longest delay after n failures in a row.
func (b Backoff) ceiling(n uint32) time.Duration {
	const maxShift = 62
	shift := min(n-1, maxShift)
	if b.Base > b.Cap>>shift {
		return b.Cap
	}
	return b.Base << shift
}

// delay returns the delay after n failures in a row. The jitter is in [0, 1).
func (b Backoff) delay(n uint32, jitter float64) time.Duration {
	return time.Duration((1 - jitter) * float64(b.ceiling(n)))
}

// A Lane is the priority of a key. Keys of a higher lane are dispatched first,
// but lower lanes are never starved: while keys wait in Retrying, at least one
// in every 8 dispatches is from that lane, and while keys wait in Background,
// at least one in every 16.
type Lane uint8

// The lanes, most urgent first.
const (
	// Normal is for changes of objects.
	Normal Lane = iota
	// Retrying is for keys that are dispatched again without a change: after a
	// failure, or because the reconciler asked for it.
	Retrying
	// Background is for work that can wait, such as the first list, resyncs and
	// sweeps.
	Background

	laneCount = 3
)

// String returns the name of the lane in lower case.
func (l Lane) String() string {
	if l < laneCount {
		return [...]string{"normal", "retrying", "background"}[l]
	}
	return fmt.Sprintf("lane(%d)", uint8(l))
}

// AddOptions defines how a key enters the queue. The zero value fits a change
// of an object: the key waits in the lane Normal, without a delay, and keeps
// its back-off. The addition then has no cause.
type AddOptions struct {
	// Lane is the lane in which the key waits. A key that is already waiting
	// only moves to a higher lane, even if the addition has a delay. An unknown
	// lane counts as Background.
	Lane Lane
	// After delays the key. The earliest deadline of a key wins, and an
	// addition without a delay beats every timer. Zero or less means no delay.
	After time.Duration
	// Replace makes After replace the key's timer, even if the new time is
	// later. It does not delay a key that is already waiting for a worker.
	Replace bool
	// ResetBackoff ends the key's back-off and clears its failures. Set it when
	// the reason for the failures may be gone, for example when the generation,
	// UID, labels or annotations of the object changed. An addition without it
	// neither shortens nor lengthens a back-off.
	ResetBackoff bool
	// Own marks an addition that the caller's own work on the key has caused,
	// for example the event of its own write. See [Item.Own]. It has no other
	// effect.
	Own bool
	// Cause explains the dispatch to which this addition leads; see
	// [Item.Causes].
	Cause Cause
}

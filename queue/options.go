package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"k8s.io/utils/clock"

	"github.com/homeostat/homeostat/internal/simhook"
)

// What the zero Backoff means.
const (
	DefaultBackoffBase = 100 * time.Millisecond
	DefaultBackoffCap  = 5 * time.Minute
)

// Backoff says how long a failed key rests. After the n-th failure in a row the
// delay is drawn evenly between nothing and min(Cap, Base·2ⁿ⁻¹), so that keys
// which failed together do not return together.
type Backoff struct {
	// Base bounds the delay after the first failure; [DefaultBackoffBase].
	Base time.Duration
	// Cap bounds the delay after any failure; [DefaultBackoffCap].
	Cap time.Duration
	// Rand draws a number in [0, 1), and must be safe for concurrent use;
	// math/rand/v2.Float64. Give it a seed to repeat a run.
	Rand func() float64
}

// ceiling is the longest delay after so many failures in a row.
func (b Backoff) ceiling(failures uint32) time.Duration {
	const enough = 62
	shift := min(failures-1, enough)
	if b.Base > b.Cap>>shift {
		return b.Cap
	}
	return b.Base << shift
}

// after draws the delay of a key that has failed so often in a row.
func (b Backoff) after(failures uint32, jitter float64) time.Duration {
	return time.Duration((1 - jitter) * float64(b.ceiling(failures)))
}

// Options of a [Queue]. Nil and zero fields mean the defaults.
type Options[K comparable] struct {
	// Name stands in metrics and on debug pages.
	Name string
	// Backoff of keys whose turn failed.
	Backoff Backoff
	// MinInterval is the least time between two hand-outs of one key; none.
	MinInterval time.Duration
	// Group makes groups of keys take turns inside a lane, so that a large one
	// cannot keep the others waiting; by default there is one group. It must
	// always return the same for the same key, and be safe for concurrent use.
	Group func(K) string
	// BeforeGet is called by Get when a key waits and before one is chosen,
	// and may block. It is a hook for deterministic simulators, which park
	// workers there; reconciletest has one for all queues that have none.
	BeforeGet func(context.Context)
	// Clock tells the time and makes timers; the real clock.
	Clock clock.Clock
}

func (o *Options[K]) withDefaults() Options[K] {
	var set Options[K]
	if o != nil {
		set = *o
	}
	set.Backoff.Base = cmp.Or(set.Backoff.Base, DefaultBackoffBase)
	set.Backoff.Cap = cmp.Or(set.Backoff.Cap, max(DefaultBackoffCap, set.Backoff.Base))
	if set.Clock == nil {
		set.Clock = clock.RealClock{}
	}
	if hooks := simhook.Current(); hooks != nil {
		set.simulate(hooks)
	}
	if set.Backoff.Rand == nil {
		set.Backoff.Rand = rand.Float64
	}
	return set
}

// simulate gives to the simulator what is left to chance.
func (o *Options[K]) simulate(hooks *simhook.Hooks) {
	if o.BeforeGet == nil {
		o.BeforeGet = hooks.Gate(o.Name)
	}
	if o.Backoff.Rand == nil {
		o.Backoff.Rand = hooks.Jitter
	}
}

func (o Options[K]) validate() error {
	var faults []error
	if o.Backoff.Base < 0 {
		faults = append(faults, fmt.Errorf("Options.Backoff.Base is %v: must not be negative", o.Backoff.Base))
	}
	if o.Backoff.Cap < o.Backoff.Base {
		faults = append(faults, fmt.Errorf("Options.Backoff.Cap is %v: must be at least Base, %v",
			o.Backoff.Cap, o.Backoff.Base))
	}
	if o.MinInterval < 0 {
		faults = append(faults, fmt.Errorf("Options.MinInterval is %v: must not be negative", o.MinInterval))
	}
	return errors.Join(faults...)
}

// Package simhook makes queues deterministic while reconciletest runs them.
// Package reconciletest sets the hooks and package queue calls them, so that
// neither imports the other.
package simhook

import (
	"context"
	"errors"
	"sync/atomic"
)

// ErrModified matches, by [errors.Is], the error of an informer whose cached
// object was modified in place.
var ErrModified = errors.New("a cached object was modified in place")

// Hooks replace the random choices of queues.
type Hooks struct {
	// Gate returns the function that Get calls before it chooses a key, if a
	// key is waiting in the queue with that name. The function may block. A nil
	// Gate has no effect.
	Gate func(queue string) func(context.Context)
	// Jitter replaces math/rand/v2.Float64, unless it is nil.
	Jitter func() float64
}

// current is global because a program makes its queues without a context. At
// most one simulation runs at a time.
var current atomic.Pointer[Hooks]

// Use sets h for all queues that are made until end is called.
func Use(h *Hooks) (end func()) {
	current.Store(h)
	return func() { current.Store(nil) }
}

// Current returns the hooks of the running simulation, or nil.
func Current() *Hooks { return current.Load() }

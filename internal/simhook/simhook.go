// Package simhook makes queues deterministic while reconciletest runs them: package queue asks it, reconciletest
// answers, and neither imports the other.
package simhook

import (
	"context"
	"errors"
	"sync/atomic"
)

// ErrModified matches, by [errors.Is], the error of an informer whose cached object was modified in place.
var ErrModified = errors.New("a cached object was modified in place")

// Hooks are what queues have in place of chance.
type Hooks struct {
	// Gate returns what Get of a queue of that name calls when a key waits, before it chooses one. It may block. Nil:
	// nothing.
	Gate func(queue string) func(context.Context)
	// Jitter takes the place of math/rand/v2.Float64. Nil: it keeps its place.
	Jitter func() float64
}

// current is global because a program makes its queues without any context. One simulation runs at a time.
var current atomic.Pointer[Hooks]

// Use gives h to all queues that are made until end is called.
func Use(h *Hooks) (end func()) {
	current.Store(h)
	return func() { current.Store(nil) }
}

// Current returns the hooks of the simulation that runs; nil: none.
func Current() *Hooks { return current.Load() }

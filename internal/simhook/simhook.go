// Package simhook makes queues deterministic while reconciletest runs them, and
// tells it what reconciles read. Package reconciletest sets the hooks, and
// other packages call them. So neither imports the other.
package simhook

import (
	"context"
	"errors"
	"sync/atomic"
)

// ErrModified matches, by [errors.Is], the error of an informer whose cached
// object was modified in place.
var ErrModified = errors.New("a cached object was modified in place")

// Hooks let a simulation make the random choices of queues. They also notify it
// of the objects that each reconcile reads from caches of references.
type Hooks struct {
	// Gate returns the function that Get calls before it chooses a key, if a
	// key is waiting in the queue with that name. The function may block. A nil
	// Gate has no effect.
	Gate func(queue string) func(context.Context)
	// Jitter replaces math/rand/v2.Float64, unless it is nil.
	Jitter func() float64
	// Reads is notified when a reconcile reads a cache of references, unless it
	// is nil.
	Reads Reads
}

// Reads receives the reads of reconciles from caches of references.
type Reads interface {
	// Cache is called when a cache of references is made.
	Cache()
	// Begin is called in the goroutine that begins to reconcile an object, for
	// example "ConfigMap d/a". refersTo reports whether the object refers to a
	// key of a cache. Begin returns a function that is called when the
	// reconcile has ended.
	Begin(object string, refersTo func(cache, key any) bool) (end func())
	// Read is called in the goroutine that reads a key of a cache. The string
	// describes the object, for example "Secret d/x".
	Read(cache, key any, object string)
}

// current is global because a program makes its queues without a context. At
// most one simulation runs at a time.
var current atomic.Pointer[Hooks]

// Use sets h for all queues and all caches of references that are made until
// end is called.
func Use(h *Hooks) (end func()) {
	current.Store(h)
	return func() { current.Store(nil) }
}

// Current returns the hooks of the running simulation, or nil.
func Current() *Hooks { return current.Load() }

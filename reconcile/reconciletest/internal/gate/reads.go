package gate

import (
	"bytes"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// Reads records which objects a reconcile reads from an informer.References
// although reconcile.References does not return them for the reconciled object.
// It does not see reads by goroutines that the reconcile has started.
type Reads struct {
	cached atomic.Bool // whether a cache of references exists

	mu      sync.Mutex             // guards the fields below
	working map[string]*reconciles // the reconciles in progress, by the number of the goroutine
	unnamed map[string]bool
}

// reconciles describes the object that a goroutine reconciles.
type reconciles struct {
	object   string
	refersTo func(cache, key any) bool
}

// Cache implements [simhook.Reads].
func (r *Reads) Cache() { r.cached.Store(true) }

// Begin implements [simhook.Reads]. It does nothing before there is a cache of
// references, because finding out the number of a goroutine is slow.
func (r *Reads) Begin(object string, refersTo func(cache, key any) bool) (end func()) {
	if !r.cached.Load() {
		return func() {}
	}
	id := goroutine()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.working == nil {
		r.working = map[string]*reconciles{}
	}
	previous := r.working[id]
	r.working[id] = &reconciles{object, refersTo}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if previous != nil {
			r.working[id] = previous
		} else {
			delete(r.working, id)
		}
	}
}

// Read implements [simhook.Reads].
func (r *Reads) Read(cache, key any, read string) {
	r.mu.Lock()
	reader := r.working[goroutine()]
	r.mu.Unlock()
	if reader == nil || reader.refersTo(cache, key) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.unnamed == nil {
		r.unnamed = map[string]bool{}
	}
	r.unnamed[fmt.Sprintf("it reads %s, but reconcile.References does not return it for %s", read, reader.object)] = true
}

// Unnamed returns a description of a read that was recorded since the last
// call, or "" if there was no read. If there were several reads, it returns the
// first description in alphabetical order.
func (r *Reads) Unnamed() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	texts := slices.Sorted(maps.Keys(r.unnamed))
	clear(r.unnamed)
	if len(texts) == 0 {
		return ""
	}
	return texts[0]
}

// goroutine returns the number of the goroutine that calls it.
func goroutine() string {
	var head [64]byte
	number, _, _ := bytes.Cut(bytes.TrimPrefix(head[:runtime.Stack(head[:], false)], []byte("goroutine ")), []byte(" "))
	return string(number)
}

package gate

import (
	"bytes"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
)

// Reads notes what reconciles read in caches of references although their
// object does not refer to it. Reads by goroutines that a reconcile has started
// are not seen.
type Reads struct {
	mu      sync.Mutex             // guards the fields below
	working map[string]*reconciles // by goroutine
	unnamed map[string]bool
}

// reconciles is the object that a goroutine reconciles.
type reconciles struct {
	object string
	names  func(cache, key any) bool
}

// Begin implements [simhook.Reads].
func (r *Reads) Begin(object string, names func(cache, key any) bool) (end func()) {
	id := goroutine()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.working == nil {
		r.working = map[string]*reconciles{}
	}
	before := r.working[id]
	r.working[id] = &reconciles{object, names}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if before != nil {
			r.working[id] = before
		} else {
			delete(r.working, id)
		}
	}
}

// Read implements [simhook.Reads].
func (r *Reads) Read(cache, key any, read string) {
	r.mu.Lock()
	of := r.working[goroutine()]
	r.mu.Unlock()
	if of == nil || of.names(cache, key) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.unnamed == nil {
		r.unnamed = map[string]bool{}
	}
	r.unnamed[fmt.Sprintf("it reads %s, to which %s does not say that it refers", read, of.object)] = true
}

// Unnamed returns the first of the reads that were noted since the last call,
// in the order of the alphabet; "" if there is none.
func (r *Reads) Unnamed() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := slices.Sorted(maps.Keys(r.unnamed))
	clear(r.unnamed)
	if len(all) == 0 {
		return ""
	}
	return all[0]
}

// goroutine returns the number of the goroutine that calls it.
func goroutine() string {
	var head [64]byte
	number, _, _ := bytes.Cut(bytes.TrimPrefix(head[:runtime.Stack(head[:], false)], []byte("goroutine ")), []byte(" "))
	return string(number)
}

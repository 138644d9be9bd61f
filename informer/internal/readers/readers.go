// Package readers reads many watches with few goroutines: one goroutine for
// every 64 watches.
package readers

import (
	"reflect"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/watch"
)

// mostWatches is the largest number of watches that one goroutine reads.
const mostWatches = 64

// Readers reads many watches. The zero value is ready to use. Its methods are
// safe for concurrent use.
type Readers struct {
	running sync.WaitGroup

	mu     sync.Mutex // guards groups, and the fields of each group
	groups []*group
}

// reading is a watch that is being read.
type reading struct {
	events  <-chan watch.Event
	receive func(event watch.Event, open bool)
	ended   bool
}

// group contains the watches that one goroutine reads.
type group struct {
	readers  *Readers
	wake     chan struct{}
	readings []*reading
}

// Read calls receive for each event of a watch, one after the other, until stop
// is called. When the watch's channel is closed, it calls receive once with
// open false. stop does not wait: after it has returned, one last call of
// receive may still run or begin. receive must not block, because other watches
// wait for it.
func (r *Readers) Read(events <-chan watch.Event, receive func(event watch.Event, open bool)) (stop func()) {
	added := &reading{events: events, receive: receive}
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.groups, func(g *group) bool { return len(g.readings) < mostWatches })
	if i < 0 {
		i = len(r.groups)
		r.groups = append(r.groups, &group{readers: r, wake: make(chan struct{}, 1)})
	}
	g := r.groups[i]
	g.readings = append(g.readings, added)
	if len(g.readings) == 1 {
		r.running.Go(g.run)
	} else {
		g.wakeUp()
	}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		added.ended = true
		g.wakeUp()
	}
}

// Wait returns when no watch is being read, and every call of receive has
// returned.
func (r *Readers) Wait() { r.running.Wait() }

// wakeUp makes the goroutine of the group read its list of watches again.
func (g *group) wakeUp() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// run reads until there are no watches. If a call of receive ends the
// goroutine, another goroutine continues.
func (g *group) run() {
	finished := false
	defer func() {
		if !finished {
			g.readers.running.Go(g.run)
		}
	}()
	for {
		current := g.current()
		if len(current) == 0 {
			finished = true
			return
		}
		cases := make([]reflect.SelectCase, 1, len(current)+1)
		cases[0] = reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(g.wake)}
		for _, r := range current {
			cases = append(cases, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(r.events)})
		}
		for g.receive(current, cases) {
		}
	}
}

// receive passes one event on. It returns false if the watches have changed.
func (g *group) receive(current []*reading, cases []reflect.SelectCase) bool {
	chosen, value, open := reflect.Select(cases)
	if chosen == 0 {
		return false
	}
	r := current[chosen-1]
	g.readers.mu.Lock()
	ended := r.ended
	r.ended = ended || !open
	g.readers.mu.Unlock()
	switch {
	case ended:
		return false
	case !open:
		r.receive(watch.Event{}, false)
		return false
	}
	event, _ := reflect.TypeAssert[watch.Event](value) // the channel's elements are events
	r.receive(event, true)
	return true
}

// current returns the watches to read, and removes the group if it is empty.
func (g *group) current() []*reading {
	g.readers.mu.Lock()
	defer g.readers.mu.Unlock()
	g.readings = slices.DeleteFunc(g.readings, func(r *reading) bool { return r.ended })
	if len(g.readings) == 0 {
		g.readers.groups = slices.DeleteFunc(g.readers.groups, func(candidate *group) bool { return candidate == g })
	}
	return slices.Clone(g.readings)
}

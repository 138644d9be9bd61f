package leaseapi

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/klog/v2"
)

// Diary is a list of events in order. Its methods may be called concurrently.
type Diary struct {
	mu      sync.Mutex
	entries []string
}

// Add appends an entry.
func (d *Diary) Add(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.entries = append(d.entries, fmt.Sprintf(format, args...))
}

// Read returns a copy of the entries.
func (d *Diary) Read() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string{}, d.entries...)
}

// Count returns how many entries contain text.
func (d *Diary) Count(text string) (n int) {
	for _, entry := range d.Read() {
		n += min(1, strings.Count(entry, text))
	}
	return n
}

// Log returns a context whose logger writes into the diary.
func (d *Diary) Log(ctx context.Context) context.Context {
	return klog.NewContext(ctx, funcr.New(func(_, args string) { d.Add("%s", args) }, funcr.Options{}))
}

// Owners records the owner of each slot. The functions that work on the slots
// report the changes. Its methods may be called concurrently.
type Owners struct {
	mu       sync.Mutex
	slots    map[int]string
	taken    map[int]int
	moves    int // number of times that a slot changed its owner
	previous map[int]string
	fault    string
}

func newOwners() *Owners {
	return &Owners{slots: map[int]string{}, previous: map[int]string{}, taken: map[int]int{}}
}

// Take records that the replica with this name owns a slot from now on.
func (o *Owners) Take(slot int, name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if current := o.slots[slot]; current != "" {
		o.fault = fmt.Sprintf("slot %d is with %s and %s", slot, current, name)
	}
	if previous := o.previous[slot]; previous != "" && previous != name {
		o.moves++
	}
	o.slots[slot], o.previous[slot] = name, name
	o.taken[slot]++
}

// Leave records that a slot has no owner any more.
func (o *Owners) Leave(slot int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.slots, slot)
}

// Shares returns the number of slots that each owner has.
func (o *Owners) Shares() map[string]int {
	o.mu.Lock()
	defer o.mu.Unlock()
	shares := map[string]int{}
	for name := range maps.Values(o.slots) {
		shares[name]++
	}
	return shares
}

// Owned returns the owner of each owned slot. The map is a copy.
func (o *Owners) Owned() map[int]string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.slots)
}

// Taken returns how often a slot was taken.
func (o *Owners) Taken(slot int) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.taken[slot]
}

// MovedSince returns how often slots have changed their owner since the last
// call.
func (o *Owners) MovedSince() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	moves := o.moves
	o.moves = 0
	return moves
}

// conflict describes a slot that had two owners at once. It returns "" if there
// was no such slot.
func (o *Owners) conflict() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.fault
}

// Work returns a function that owns a slot for the replica with this name. The
// function returns when its context has ended and drain has passed after that.
func (o *Owners) Work(name string, drain time.Duration) func(context.Context, int) error {
	return func(ctx context.Context, slot int) error {
		o.Take(slot, name)
		defer o.Leave(slot)
		<-ctx.Done()
		Wait(drain)
		return nil
	}
}

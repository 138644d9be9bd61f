package ranges_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	. "github.com/onsi/gomega"

	"github.com/go-logr/logr/funcr"
	"github.com/homeostat/homeostat/internal/absent/absenttest"
	"github.com/homeostat/homeostat/internal/test/leaseapi"
	"github.com/homeostat/homeostat/leader"
	"k8s.io/klog/v2"
)

// fixture is an API for leases, a record of events in order, and the owners of the
// slots, in a bubble of virtual time.
type fixture struct {
	*WithT
	*diary
	*owners

	t   *testing.T
	api *leaseapi.API
}

// inBubble runs f, after which no slot may have had two owners at once.
func inBubble(t *testing.T, f func(x *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		x := &fixture{WithT: NewWithT(t), diary: &diary{}, owners: newOwners(), t: t, api: leaseapi.New(t)}
		f(x)
		x.Expect(x.fault).To(BeEmpty())
	})
}

// run runs f until stop is called, which wants it to have no error.
func (x *fixture) run(f func(context.Context) error) (stop func()) {
	x.t.Helper()
	ctx, cancel := context.WithCancel(x.t.Context())
	wait := background(func() error { return f(ctx) })
	return func() {
		x.t.Helper()
		cancel()
		x.Expect(wait()).To(Succeed())
	}
}

var errDead = errors.New("dead")

var errForbidden = errors.New("forbidden")

// owners records the owner of each slot, as the functions of the slots see it.
type owners struct {
	mu    sync.Mutex
	slots map[int]string
	fault string
}

func newOwners() *owners {
	return &owners{slots: map[int]string{}}
}

func (o *owners) take(slot int, name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if other := o.slots[slot]; other != "" {
		o.fault = fmt.Sprintf("slot %d is with %s and %s", slot, other, name)
	}
	o.slots[slot] = name
}

func (o *owners) leave(slot int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.slots, slot)
}

// shares is how many slots each has.
func (o *owners) shares() map[string]int {
	o.mu.Lock()
	defer o.mu.Unlock()
	shares := map[string]int{}
	for name := range maps.Values(o.slots) {
		shares[name]++
	}
	return shares
}

// owned returns a copy of the owners by slot.
func (o *owners) owned() map[int]string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.slots)
}

// work owns a slot until its context ends, and for the drain after.
func (o *owners) work(name string, drain time.Duration) func(context.Context, int) error {
	return func(ctx context.Context, slot int) error {
		o.take(slot, name)
		defer o.leave(slot)
		<-ctx.Done()
		leaseapi.Wait(drain)
		return nil
	}
}

// diary is a list of events, in order.
type diary struct {
	mu      sync.Mutex
	entries []string
}

func (d *diary) add(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.entries = append(d.entries, fmt.Sprintf(format, args...))
}

func (d *diary) read() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string{}, d.entries...)
}

// count returns how many entries contain text.
func (d *diary) count(text string) (n int) {
	for _, entry := range d.read() {
		n += min(1, strings.Count(entry, text))
	}
	return n
}

// log returns a context whose logger writes into the diary.
func (d *diary) log(ctx context.Context) context.Context {
	return klog.NewContext(ctx, funcr.New(func(_, args string) { d.add("%s", args) }, funcr.Options{}))
}

func leaseOf(l *leaseapi.Link, identity string) leader.Lease {
	return leader.Lease{Client: l, Namespace: "default", Name: "test", Identity: identity}
}

// background runs f and returns a function that waits for its error.
func background(f func() error) (wait func() error) {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return func() error { return <-done }
}

// pass lets virtual time go by.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// page is the error that a client makes of the HTML of a proxy.
func (x *fixture) page(name string) error {
	pages := absenttest.Pages(coordinationv1.Resource("leases"), name)
	return pages[1].Err(x.t.Context(), coordinationv1.SchemeGroupVersion.WithResource("leases"), name)
}

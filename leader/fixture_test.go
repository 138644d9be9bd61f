package leader_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/clock"

	"github.com/homeostat/homeostat/internal/test/leaseapi"
	"github.com/homeostat/homeostat/leader"
)

// fixture is an API for leaseapi.Leases, a record of events in order, and the owners of slots,
// in a bubble of virtual time.
type fixture struct {
	*WithT
	*diary
	t     *testing.T
	api   *leaseapi.API
	links int64 // seeds of the electors' links
}

// inBubble runs f with a fixture.
func inBubble(t *testing.T, f func(x *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		x := &fixture{WithT: NewWithT(t), diary: &diary{}, t: t, api: leaseapi.New(t)}
		f(x)
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

// campaign runs e until stop is called. The diary tells when it leads.
func (x *fixture) campaign(e *leader.Elector, name string) (stop func()) {
	x.t.Helper()
	return x.run(func(ctx context.Context) error { return e.Run(ctx, untilDone(x.diary, name)) })
}

// elector returns one with a link of its own.
func (x *fixture) elector(identity string) *leader.Elector {
	x.t.Helper()
	x.links++
	return newElector(x.t, leaseOf(x.api.Link(x.links), identity), nil)
}

// released wants the lease to have no holder, and returns it.
func (x *fixture) released(name string) *coordinationv1.Lease {
	x.t.Helper()
	l, err := x.api.Get(name)
	x.Expect(err).NotTo(HaveOccurred())
	x.Expect(l.Spec.HolderIdentity).To(BeNil())
	return l
}

// diary is what happened, in order.
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

func leaseOf(l *leaseapi.Link, identity string) leader.Lease {
	return leader.Lease{Client: l, Namespace: "default", Name: "test", Identity: identity}
}

func newElector(t *testing.T, l leader.Lease, o *leader.Options) *leader.Elector {
	t.Helper()
	e, err := leader.New(l, o)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return e
}

// causeOf names the sentinel in a cause.
func causeOf(ctx context.Context) string {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, leader.ErrLost):
		return "lost"
	case errors.Is(cause, leader.ErrStopping):
		return "stopping"
	case errors.Is(cause, leader.ErrFenced):
		return "fenced"
	default:
		return fmt.Sprint(cause)
	}
}

// background runs f and returns a function that waits for its error.
func background(f func() error) (wait func() error) {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return func() error { return <-done }
}

func untilDone(d *diary, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		d.add("%s leads", name)
		<-ctx.Done()
		d.add("%s ends: %s", name, causeOf(ctx))
		return nil
	}
}

// pass lets virtual time go by.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// wrongClock is off by an offset and runs at another speed than the bubble's.
type wrongClock struct {
	clock.RealClock
	start  time.Time
	offset time.Duration
	speed  float64
}

func (c wrongClock) Now() time.Time {
	return c.start.Add(c.offset + time.Duration(float64(time.Since(c.start))*c.speed))
}

func (c wrongClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

func (c wrongClock) NewTimer(d time.Duration) clock.Timer {
	return c.RealClock.NewTimer(time.Duration(float64(d)/c.speed) + time.Nanosecond) // never early
}

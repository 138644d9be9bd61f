package leader_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/utils/clock"

	"github.com/homeostat/homeostat/internal/test/leaseapi"
	"github.com/homeostat/homeostat/leader"
)

// fixture is what all tests of Leases share, with electors.
type fixture struct {
	*leaseapi.Fixture
	links int64 // seeds of the electors' links
}

// inBubble runs f with a fixture.
func inBubble(t *testing.T, f func(x *fixture)) {
	t.Helper()
	leaseapi.InBubble(t, func(x *leaseapi.Fixture) { f(&fixture{Fixture: x}) })
}

type (
	diary     = leaseapi.Diary
	transport = leaseapi.Transport
)

var (
	pass       = leaseapi.Pass
	background = leaseapi.Background
	leaseOf    = leaseapi.LeaseOf
	through    = leaseapi.SendFenced
	reply      = leaseapi.Reply
	deaf       = leaseapi.Deaf

	serializing = leaseapi.Serializing
)

// campaign runs e until stop is called. The diary tells when it leads.
func (x *fixture) campaign(e *leader.Elector, name string) (stop func()) {
	x.T.Helper()
	return x.Run(func(ctx context.Context) error { return e.Run(ctx, untilDone(x.Diary, name)) })
}

// elector returns an elector with its own link to the API.
func (x *fixture) elector(identity string) *leader.Elector {
	x.T.Helper()
	x.links++
	return newElector(x.T, leaseOf(x.API.Link(x.links), identity), nil)
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

func untilDone(d *diary, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		d.Add("%s leads", name)
		<-ctx.Done()
		d.Add("%s ends: %s", name, causeOf(ctx))
		return nil
	}
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

package reconcile

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
)

// A goroutine that a reconciler has left behind, or what Options.Around
// returned, may ask for the first time when the deadline has passed.
func TestAContextThatIsAskedLateSaysWhatEndedTheCall(t *testing.T) {
	lost := errors.New("leadership is lost")
	for name, c := range map[string]struct {
		abandoned, returned time.Duration // after the start; the deadline is after a minute
		err, cause          error
	}{
		"it has returned in time":               {0, time.Second, context.Canceled, context.Canceled},
		"it has returned late":                  {0, 2 * time.Minute, context.DeadlineExceeded, ErrReconcileTimeout},
		"it was cancelled":                      {time.Second, 2 * time.Second, context.Canceled, lost},
		"it ignored that":                       {time.Second, 2 * time.Minute, context.Canceled, lost},
		"in time, and its slot has moved since": {3 * time.Minute, time.Second, context.Canceled, context.Canceled},
		"late, and its slot has moved since": {
			3 * time.Minute, 2 * time.Minute, context.DeadlineExceeded, ErrReconcileTimeout,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				parent, abandon := context.WithCancelCause(t.Context())
				call := beginCall(parent, time.Minute)
				start := time.Now()
				if c.abandoned > 0 {
					time.AfterFunc(c.abandoned, func() { abandon(lost) })
				}
				<-time.After(c.returned)
				call.end()
				<-time.After(time.Hour - time.Since(start))
				g.Expect(context.Cause(call)).To(Equal(c.cause))
				g.Expect(call.Err()).To(Equal(c.err))
				g.Expect(context.Cause(call)).To(Equal(c.cause), "asked again")
				abandon(nil)
			})
		})
	}
}

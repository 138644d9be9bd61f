package reconcile_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/reconcile"
)

// denied is the refusal of an admission webhook, whose details the API server
// passes on as they are.
func denied(reason metav1.StatusReason, seconds int32) error {
	return fmt.Errorf("creating it: %w", &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: 403, Reason: reason, Message: `admission webhook "w" denied the request: later`,
		Details: &metav1.StatusDetails{RetryAfterSeconds: seconds},
	}})
}

// A delay that another program has invented neither stops a key for years nor
// makes its retries a busy loop.
func TestADelayThatTheServerAsksForIsBounded(t *testing.T) {
	for name, trial := range map[string]struct {
		err         error
		least, most int // attempts in 20 minutes
	}{
		"ten seconds": {denied(metav1.StatusReasonForbidden, 10), 120, 121},
		"a day":       {denied(metav1.StatusReasonForbidden, 86400), 5, 5},
		"68 years":    {denied(metav1.StatusReasonForbidden, math.MaxInt32), 5, 5},
		"in the past": {denied(metav1.StatusReasonForbidden, -5), 10, 60},
		"at once":     {denied(metav1.StatusReasonServerTimeout, 0), 10, 60},
		"earlier":     {denied(metav1.StatusReasonServerTimeout, -5), 10, 60},
	} {
		t.Run(name, func(t *testing.T) {
			inFixture(t, func(w *fixture) {
				attempts := 0
				w.create("a")
				stop := w.start(nil, func(context.Context, request) (reconcile.Result, error) {
					attempts++
					if attempts > 10_000 {
						return nothing, nil // a busy loop, in which no time passes
					}
					return nothing, trial.err
				})
				pass(20*time.Minute + time.Second)
				w.Expect(attempts).To(And(BeNumerically(">=", trial.least), BeNumerically("<=", trial.most)))
				w.Expect(stop()).To(Succeed())
			})
		})
	}
}

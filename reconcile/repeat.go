package reconcile

import (
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/internal/absent"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

const (
	// firstPause is the pause before a reconcile is repeated for the first time
	// after a conflict of a stale cache, or after an [After] of less than
	// firstPause. The pause doubles with each repetition.
	firstPause = 50 * time.Millisecond
	// quickRepeats is how many times in a row a reconcile is repeated quickly,
	// and logged only at verbosity 1, after conflicts of a stale cache or such
	// results of [After]. After that, the key backs off as after a failure.
	quickRepeats = 3
)

// repeat ends the item of an attempt that has not failed, but must be repeated.
// The first repetitions follow quickly. The later ones back off like the
// retries of a failure.
func (t *reconcileContext) repeat(v verdict, repeats int) inspect.Outcome {
	logger := klog.FromContext(t)
	if repeats <= quickRepeats {
		logger.V(1).Info("repeating the reconcile soon", "repeats", repeats, "conflict", v.stale, "reason", v.reason(repeats))
		t.item.RetryAfter(firstPause << (repeats - 1))
		if v.stale {
			return inspect.Conflicted
		}
		return v.outcome
	}
	if doubled(repeats) {
		if v.stale {
			logger.Error(v.err, "writes still conflict, retrying", "repeats", repeats)
		} else {
			logger.Info("reconciler keeps asking for After(0), slowing the key down", "repeats", repeats)
		}
	}
	t.item.Retry()
	return v.outcome
}

// isStale reports whether err consists only of conflicts that a newer cache
// resolves. A conflict with another field manager is not such a conflict, and
// neither is the page of a proxy, or the refusal of an admission webhook, with
// status 409.
func isStale(err error) bool {
	switch e := err.(type) { //nolint:errorlint // it walks the tree itself
	case *apierrors.StatusError:
		_, owned := apierrors.StatusCause(e, metav1.CauseTypeFieldManagerConflict)
		return apierrors.IsConflict(e) && !owned && absent.IsConflict(e)
	case interface{ Unwrap() []error }:
		errs := e.Unwrap()
		return len(errs) > 0 && !slices.ContainsFunc(errs, func(wrapped error) bool { return !isStale(wrapped) })
	case interface{ Unwrap() error }:
		return isStale(e.Unwrap())
	}
	return apierrors.ReasonForError(err) == metav1.StatusReasonConflict
}

package podruntime

import (
	"iter"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// For tests.
var Parse = parse

// Settle is for tests.
func Settle(l Ledger, pods iter.Seq[*corev1.Pod], now time.Time, tolerance time.Duration) Ledger {
	return l.advance(pods, now, tolerance)
}

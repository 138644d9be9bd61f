package live

import (
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/report"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/rules"
)

// outcome is everything that is known of one trial.
type outcome struct {
	finding  *report.Finding
	lines    []string // the trace
	calls    int
	writes   int
	rules    rules.Set
	restedAt []int // the length of the trace at each rest
}

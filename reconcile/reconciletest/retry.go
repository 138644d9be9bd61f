package reconciletest

import (
	"fmt"
	"strings"
	"time"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/report"
)

// putOff notes a request that gets 429 with Retry-After, and finds one that comes again before its time, from the same
// boot. Two requests for a generated name may well be the same, and none of them a retry.
func (r *run) putOff(a apisim.Action, f apisim.Fault) {
	if a.Kind != apisim.Release || r.tail || strings.HasSuffix(a.Call.Name, "*") {
		return
	}
	request, now := a.Request(), time.Now()
	if until := r.later[request]; now.Before(until) {
		since := now.Sub(until.Add(-apisim.RetryAfter))
		r.find(report.Retry, fmt.Sprintf("it does not wait as it is told (429, Retry-After: %v): %v later comes again: %s",
			apisim.RetryAfter, since, strings.TrimSpace(strings.TrimPrefix(plainly(a), "call"))))
	}
	if delete(r.later, request); f == apisim.Throttled {
		r.later[request] = now.Add(apisim.RetryAfter)
	}
}

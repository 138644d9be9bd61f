package reconciletest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/report"
)

// retryWithin is how late a retry may arrive after the time that the server has
// named.
const retryWithin = 5 * time.Second

// retries finds requests that the program repeats too early after a 429 with
// Retry-After, without a restart in between.
//
// Two parts of a program may send the same request within that time. Then the
// second request is not a retry, and the part that got the 429 sends its own
// retry later. Therefore an early repetition is a finding only if no other
// repetition follows at the right time.
type retries struct {
	*core
	fleet    *fleet
	retryAt  map[string]time.Time // by request: when the server told the program to retry it
	tooEarly []earlyRetry
}

// earlyRetry is a request that was repeated too early.
type earlyRetry struct {
	request  string
	earliest time.Time // the earliest time for a retry
	found    report.Finding
	replica  *replica
	boot     int // the number of the boot of the replica that repeated the request
}

// record records a request that is about to be served. It ignores creates with
// a generated name, because two such creates may be equal although neither is a
// retry.
func (r *retries) record(a apisim.Action, f apisim.Fault) {
	if a.Kind != apisim.Release || strings.HasSuffix(a.Call.Name, "*") {
		return
	}
	request, now := a.Request(), time.Now()
	earliest, putOff := r.retryAt[request]
	switch {
	case !putOff:
	case now.Before(earliest):
		r.suspect(a, earliest)
	default:
		delete(r.retryAt, request)
		r.tooEarly = slices.DeleteFunc(r.tooEarly, func(e earlyRetry) bool { return e.request == request })
	}
	if f == apisim.Throttled {
		r.retryAt[request] = now.Add(apisim.RetryAfter)
	}
}

// suspect records a request that was repeated too early, unless an earlier
// repetition of the same request is already recorded.
func (r *retries) suspect(a apisim.Action, earliest time.Time) {
	p := r.fleet.replicaOf(a.Call.Client)
	if p == nil || slices.ContainsFunc(r.tooEarly, func(e earlyRetry) bool { return e.request == a.Request() }) {
		return
	}
	elapsed := time.Since(earliest.Add(-apisim.RetryAfter))
	r.tooEarly = append(r.tooEarly, earlyRetry{
		request: a.Request(), earliest: earliest, replica: p, boot: p.boots,
		found: report.Finding{Oracle: report.Retry, Reason: report.Impatient, UpTo: len(r.out.lines), Text: fmt.Sprintf(
			"it does not wait as it is told (429, Retry-After: %v): after %v it repeats: %s",
			apisim.RetryAfter, elapsed, strings.TrimSpace(strings.TrimPrefix(describe(a), "call")))},
	})
}

// judge records a finding for the first early request that no other repetition
// has followed in time. It forgets requests of replicas that were stopped or
// cannot reach the server, because these may have been unable to repeat the
// request. A request in enabled counts as a repetition, although it has not
// been served yet.
func (r *retries) judge(enabled []apisim.Action) {
	r.tooEarly = slices.DeleteFunc(r.tooEarly, func(e earlyRetry) bool {
		p := e.replica
		return p.boots != e.boot || p.halted || p.crashed || !p.bootsAt.IsZero() || !p.apartUntil.IsZero()
	})
	for _, e := range r.tooEarly {
		repeated := slices.ContainsFunc(enabled, func(a apisim.Action) bool { return a.Request() == e.request })
		if !repeated && r.out.finding == nil && !time.Now().Before(e.earliest.Add(retryWithin)) {
			r.out.finding = &e.found
		}
	}
}

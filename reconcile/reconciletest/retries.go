package reconciletest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/report"
)

// retryWithin is how long after its time the retry of a request that was put
// off may come.
const retryWithin = 5 * time.Second

// retries finds a request that got 429 with Retry-After and is repeated too
// early by the same boot.
//
// Two parts of a program may send the same request within that time, and then
// the second one is not a retry: the part that got the 429 waits, and sends its
// request again later. So an early repetition is judged only if no other
// follows in time.
type retries struct {
	*core
	fleet   *fleet
	retryAt map[string]time.Time // by request: when the server told the program to retry it
	early   []early
}

// early is a request that has come before its time.
type early struct {
	request string
	until   time.Time // when it might have come
	found   report.Finding
	replica *replica
	boot    int // of the replica
}

// see notes a request that is about to be served. Two requests for a generated
// name may be equal without being retries.
func (r *retries) see(a apisim.Action, f apisim.Fault) {
	if a.Kind != apisim.Release || strings.HasSuffix(a.Call.Name, "*") {
		return
	}
	request, now := a.Request(), time.Now()
	until, putOff := r.retryAt[request]
	switch {
	case !putOff:
	case now.Before(until):
		r.suspect(a, until)
	default:
		delete(r.retryAt, request)
		r.early = slices.DeleteFunc(r.early, func(e early) bool { return e.request == request })
	}
	if f == apisim.Throttled {
		r.retryAt[request] = now.Add(apisim.RetryAfter)
	}
}

// suspect keeps the first request of its kind that comes too early.
func (r *retries) suspect(a apisim.Action, until time.Time) {
	p := r.fleet.of(a.Call.Client)
	if p == nil || slices.ContainsFunc(r.early, func(e early) bool { return e.request == a.Request() }) {
		return
	}
	since := time.Since(until.Add(-apisim.RetryAfter))
	r.early = append(r.early, early{
		request: a.Request(), until: until, replica: p, boot: p.boots,
		found: report.Finding{Oracle: report.Retry, Reason: report.Impatient, UpTo: len(r.out.lines), Text: fmt.Sprintf(
			"it does not wait as it is told (429, Retry-After: %v): %v later comes again: %s",
			apisim.RetryAfter, since, strings.TrimSpace(strings.TrimPrefix(describe(a), "call")))},
	})
}

// judge finds the first early request that no other one followed in time. If
// the program was stopped, or does not reach the server, that is not known. A
// request that waits to be served has come.
func (r *retries) judge(enabled []apisim.Action) {
	r.early = slices.DeleteFunc(r.early, func(e early) bool {
		p := e.replica
		return p.boots != e.boot || p.halted || p.crashed || !p.down.IsZero() || !p.apart.IsZero()
	})
	for _, e := range r.early {
		came := slices.ContainsFunc(enabled, func(a apisim.Action) bool { return a.Request() == e.request })
		if !came && r.out.finding == nil && !time.Now().Before(e.until.Add(retryWithin)) {
			r.out.finding = &e.found
		}
	}
}

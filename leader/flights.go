package leader

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"
)

// flights are the requests that a term has let through and that may still arrive at the API server. One without an
// answer may do so until the Lease would have expired if the last renewal before it had been the last of all.
type flights struct {
	mu   sync.Mutex // guards what follows
	open map[*flight]bool
	cut  time.Time // until when one that ended without an answer may arrive
}

// flight is one request under way.
type flight struct {
	until    time.Time // it cannot arrive later
	wanted   atomic.Int32
	occupied atomic.Int32
}

// begin notes a request that may arrive until then. The context lets the transport say whether it was sent at all.
func (f *flights) begin(ctx context.Context, until time.Time) (context.Context, *flight) {
	one := &flight{until: until}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open == nil {
		f.open = map[*flight]bool{}
	}
	f.open[one] = true
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { one.wanted.Add(1) },
		GotConn: func(httptrace.GotConnInfo) { one.occupied.Add(1) },
	}), one
}

// drop forgets a request that was not sent.
func (f *flights) drop(one *flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.open, one)
}

// end notes what became of a request. An answer of 500 and above may be that of a proxy, or of a server that has given
// up waiting for its own work, so that it settles nothing.
func (f *flights) end(one *flight, res *http.Response) {
	answered := res != nil && res.StatusCode < http.StatusInternalServerError
	unsent := one.wanted.Load() > 0 && one.occupied.Load() == 0 // it waited for a connection and got none
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.open, one)
	if !answered && !unsent && one.until.After(f.cut) {
		f.cut = one.until
	}
}

// cutUntil is until when a request that was cut off may still arrive.
func (f *flights) cutUntil() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cut
}

// until is until when any request may still arrive, those under way included.
func (f *flights) until() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	last := f.cut
	for one := range f.open {
		if one.until.After(last) {
			last = one.until
		}
	}
	return last
}

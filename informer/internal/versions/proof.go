package versions

import (
	"context"
	"sync"
	"time"
)

// Proof records how new the cache of a watch is known to be.
type Proof struct {
	mu       sync.Mutex    // guards the fields below
	calls    int           // number of calls in this burst
	lastCall time.Time     // time of the last call
	asking   chan struct{} // closed when the request in flight has ended; nil if there is no such request
	asked    time.Time     // when the cache was last known to be as new as the server; zero if it never was
	pause    time.Time     // no request is sent before this time
}

// Holds reports whether the cache is known to be at least as new as the server
// was 100 ms before the call. After many calls in quick succession, Holds calls
// prove to find that out: prove asks the server, and reports whether the cache
// is as new.
func (p *Proof) Holds(ctx context.Context, prove func(context.Context) bool) bool {
	called := time.Now()
	p.mu.Lock()
	if called.Sub(p.lastCall) > maxAge {
		p.calls = 0
	}
	p.lastCall = called
	p.calls++
	isBurst := p.calls >= burst
	for {
		now := time.Now()
		switch {
		case !p.asked.IsZero() && (now.Sub(p.asked) <= maxAge || !p.asked.Before(called)):
			p.mu.Unlock()
			return true
		case !isBurst || now.Before(p.pause):
			p.mu.Unlock()
			return false
		case p.asking == nil:
			p.asking = make(chan struct{})
			p.mu.Unlock()
			return p.ask(ctx, now, prove)
		}
		asking := p.asking
		p.mu.Unlock()
		select {
		case <-asking:
		case <-ctx.Done():
			return false
		}
		p.mu.Lock()
	}
}

// ask calls prove, and returns its result. If it is true, ask records that the
// cache was as new as the server at the time now. If it is false, and ctx has
// not ended, no request is sent for the time Pause.
func (p *Proof) ask(ctx context.Context, now time.Time, prove func(context.Context) bool) (proven bool) {
	defer func() { // also if prove panics
		p.mu.Lock()
		defer p.mu.Unlock()
		switch {
		case proven:
			p.asked = now
		case ctx.Err() == nil:
			p.pause = time.Now().Add(Pause)
		}
		close(p.asking)
		p.asking = nil
	}()
	return prove(ctx)
}

const (
	// maxAge is the age at which a proof expires. Holds returns true
	// without asking the server if the cache was as new as the server at
	// most maxAge ago. A burst ends when no call follows within maxAge.
	maxAge = 100 * time.Millisecond
	// burst is the number of calls in quick succession at which Holds begins to
	// ask the server for its resourceVersion. For fewer calls it is cheaper if
	// each caller reads its object from the server.
	burst = 8
	// Pause is the least time between a call of prove that has returned false
	// and the next call of prove.
	Pause = time.Second
)

package versions

import (
	"context"
	"sync"
	"time"
)

// Proof records how new the cache of a watch is known to be.
type Proof struct {
	mu     sync.Mutex    // guards the following
	calls  int           // in this burst
	last   time.Time     // the last call
	asking chan struct{} // closed when the request in flight has ended; nil without one
	asked  time.Time     // when the cache was last as new as the server
	pause  time.Time     // no request is sent before
}

// Holds reports whether the cache is at least as new as the server was at the
// call or maxAge ago. It calls prove to ask the server.
func (p *Proof) Holds(ctx context.Context, prove func(context.Context) bool) bool {
	called := time.Now()
	p.mu.Lock()
	if called.Sub(p.last) > maxAge {
		p.calls = 0
	}
	p.last = called
	p.calls++
	enough := p.calls >= burst
	for {
		now := time.Now()
		switch {
		case !p.asked.IsZero() && (now.Sub(p.asked) <= maxAge || !p.asked.Before(called)):
			p.mu.Unlock()
			return true
		case !enough || now.Before(p.pause):
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

// ask calls prove, and records the result for now.
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
	// maxAge is how far the cache may be behind the server for IsDeleted.
	maxAge = 100 * time.Millisecond
	// burst is the number of calls of IsDeleted in quick succession from which
	// on the server is asked. For fewer calls, a GET of each object is cheaper.
	burst = 8
	// Pause is the time without further attempts after an attempt that has
	// proven nothing.
	Pause = time.Second
)

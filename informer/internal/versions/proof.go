package versions

import (
	"context"
	"sync"
	"time"
)

// Proof is how new the cache of a watch is known to be.
type Proof struct {
	mu     sync.Mutex    // guards the following
	calls  int           // of this burst
	last   time.Time     // call
	asking chan struct{} // closed when the request under way has ended; nil if none is
	asked  time.Time     // when the cache was not older than the server
	pause  time.Time     // nothing is asked before
}

// Holds reports whether the cache is not older than the server was at the call or
// maxAge ago. prove asks the server.
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

// ask records whether prove, called now, has proven the cache.
func (p *Proof) ask(ctx context.Context, now time.Time, prove func(context.Context) bool) (proven bool) {
	defer func() { // also after a panic
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
	// burst is the number of calls of IsDeleted, each soon after the one
	// before, from which on the server is asked: a GET of the object is cheaper
	// for a few.
	burst = 8
	// Pause follows an attempt that has proven nothing.
	Pause = time.Second
)

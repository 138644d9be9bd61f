package informer

import (
	"context"
	"sync"
	"time"
)

// proof is how new the cache of a watch is known to be.
type proof struct {
	mu     sync.Mutex    // guards the following
	calls  int           // of this burst
	last   time.Time     // call
	asking chan struct{} // closed when the request under way has ended; nil if none is
	asked  time.Time     // when the cache was not older than the server
	pause  time.Time     // nothing is asked before
}

// holds reports whether the cache is not older than the server was at the call or
// maxProofAge ago. prove asks the server.
func (p *proof) holds(ctx context.Context, prove func(context.Context) bool) bool {
	called := time.Now()
	p.mu.Lock()
	if called.Sub(p.last) > maxProofAge {
		p.calls = 0
	}
	p.last = called
	p.calls++
	enough := p.calls >= burst
	for {
		now := time.Now()
		switch {
		case !p.asked.IsZero() && (now.Sub(p.asked) <= maxProofAge || !p.asked.Before(called)):
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
func (p *proof) ask(ctx context.Context, now time.Time, prove func(context.Context) bool) (proven bool) {
	defer func() { // also after a panic
		p.mu.Lock()
		defer p.mu.Unlock()
		switch {
		case proven:
			p.asked = now
		case ctx.Err() == nil:
			p.pause = time.Now().Add(proofPause)
		}
		close(p.asking)
		p.asking = nil
	}()
	return prove(ctx)
}

const (
	// maxProofAge is how far the cache may be behind the server for IsDeleted.
	maxProofAge = 100 * time.Millisecond
	// burst is the number of calls of IsDeleted, each soon after the one before, from
	// which on the server is asked: a GET of the object is cheaper for a few.
	burst = 8
	// proofPage is how many objects are listed to compare them with the cache. Of more
	// only the resourceVersion of the server is asked for.
	proofPage = 100
	// proofWait is how long the watch may take to come as far as the server was.
	proofWait = 200 * time.Millisecond
	// proofPause follows an attempt that has proven nothing.
	proofPause = time.Second
)

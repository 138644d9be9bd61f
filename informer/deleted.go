package informer

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

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

// IsDeleted reports whether the server has no object of key, if that is known
// without asking for it: the cache has none, has all objects of that namespace, and
// is at most 100 ms behind the server or as new as it was at the call. false means
// that it is not known: ask the server, for example with names.Live.
//
// A cache that is merely empty or late proves nothing. Calls that come one by one
// are answered with false; when many come, one request for all of them, at most
// every 100 ms, tells how new the server is, and the answer is true once the watch
// has come as far. So a mass deletion is confirmed by a few requests instead of one
// for each object.
//
// A caller that then deletes what belonged to the object is as safe as one that has
// sent a GET and whose DELETE took 100 ms longer on its way: no client can rule out
// that the object is created again meanwhile, and the cache will show it if it is.
//
// It waits for that request, and then for 200 ms at most. It is false for caches with
// selectors, of wrapped informers and of fakes.
func (i *Informer[T]) IsDeleted(ctx context.Context, key types.NamespacedName) bool {
	if _, cached := i.Get(key); cached {
		return false
	}
	r := i.feed.completeFor(key)
	if r == nil || !r.proof.holds(ctx, r.prove) {
		return false
	}
	_, cached := i.Get(key)
	// The end of the watch, or of the namespace's place in the scope, empties the cache.
	return !cached && i.feed.completeFor(key) == r
}

// completeFor returns the watch that delivers all objects of key's namespace; nil if
// none does.
func (f *feed[T]) completeFor(key types.NamespacedName) *reflectorStore[T] {
	if f.options.LabelSelector != "" || f.options.FieldSelector != "" || !f.hasSynced() {
		return nil
	}
	if !f.store.shards.has(key.Namespace) {
		return nil
	}
	watches, _ := f.current()
	for _, r := range watches {
		of := r.source.namespace
		if of != metav1.NamespaceAll && of != key.Namespace {
			continue
		}
		if r.source.fake || r.source.follows != nil {
			return nil
		}
		return r
	}
	return nil
}

// prove reports whether the watch has come as far as the server was at the call.
func (r *reflectorStore[T]) prove(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, proofPause)
	defer cancel()
	limit := int64(1)
	if r.feed.store.snapshot().Len() <= proofPage {
		limit = proofPage
	}
	b := newBacklog(r, limit, nil)
	before := b.mark()
	more, err := b.addPage(ctx)
	if err != nil {
		return false
	}
	if order, err := resourceversion.CompareResourceVersion(before, b.rv); err != nil || order > 0 {
		return false // it cannot be compared, or the server was restored to an earlier state
	}
	ctx, cancel = context.WithTimeout(ctx, proofWait)
	defer cancel()
	if !more {
		b.addMissing()
		return b.wait(ctx, b.empty) == nil
	}
	return waitFor(ctx, func(f func()) func() {
		return r.feed.marks.on(&waiter{namespace: r.source.namespace, rv: b.rv, call: f})
	})
}

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

package informer

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// IsDeleted reports whether the server is known to have no object of key, without
// asking for the object: the cache has no such object, has all objects of that
// namespace, and is at most 100 ms behind the server or as new as the server was at
// the call. false means that it is not known: ask the server, for example with
// names.Live.
//
// A cache that is merely empty or late proves nothing. Isolated calls return false;
// if there are many, one request for all of them, at most every 100 ms, finds out the
// server's resourceVersion, and calls return true once the watch has caught up with
// it. So a mass deletion is confirmed by a few requests instead of one for each
// object.
//
// A caller that then deletes what belonged to the object is as safe as one that has
// sent a GET and whose DELETE took 100 ms longer to arrive: no client can rule out
// that the object is recreated in between, and the cache will show it if it is.
//
// It waits for that request, and then for at most 200 ms. It is false for an object that
// is unreadable (see [Informer.Unreadable]), and always for
// caches with selectors, wrapped informers and fakes, and for namespaced kinds if the
// client does not show what it reads: one written by hand, or one that embeds another.
// Make the informer with [ForNamespaces] then.
func (i *Informer[T]) IsDeleted(ctx context.Context, key types.NamespacedName) bool {
	if i.mayExist(key) || !i.scope.admits(key) {
		return false
	}
	r := i.feed.completeFor(key)
	if r == nil || !r.proof.holds(ctx, r.prove) {
		return false
	}
	// The end of the watch, or of the namespace's place in the scope, empties the cache.
	return !i.mayExist(key) && i.feed.completeFor(key) == r
}

// mayExist reports whether the object of key is cached, or unreadable.
func (i *Informer[T]) mayExist(key types.NamespacedName) bool {
	unreadable := i.Unreadable(key) != nil // before: it may become readable in between
	_, cached := i.Get(key)
	return unreadable || cached || i.Unreadable(key) != nil
}

// completeFor returns the watch that delivers all objects of key's namespace; nil if
// none does.
func (f *feed[T]) completeFor(key types.NamespacedName) *reflectorStore[T] {
	if f.options.LabelSelector != "" || f.options.FieldSelector != "" || !f.syncedIn(key.Namespace) {
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
		if r.source.fake || r.source.follows != nil || r.source.reach.certainty != certain {
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
	if r.sink.store.snapshot().Len() <= proofPage {
		limit = proofPage
	}
	b := newBacklog(r, limit, nil)
	more, err := b.addPage(ctx)
	if err != nil {
		return false
	}
	if order, err := resourceversion.CompareResourceVersion(b.before, b.rv); err != nil || order > 0 {
		return false // it cannot be compared
	}
	ctx, cancel = context.WithTimeout(ctx, proofWait)
	defer cancel()
	if !more {
		b.addMissing()
		return b.wait(ctx, nil, b.empty) == nil && (!b.reached() || b.verdict() == nil)
	}
	return waitFor(ctx, func(f func()) func() {
		return r.sink.marks.on(&waiter{namespace: r.source.namespace, rv: b.rv, call: f})
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

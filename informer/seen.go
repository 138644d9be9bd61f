package informer

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// seen is how far a cache has come: the newest resourceVersion of which
// everything has been stored and handed on, per watch.
type seen struct {
	mu      sync.Mutex // guards what follows
	marks   map[string]string
	synced  bool
	lowest  string
	waiting map[*waiter]struct{}
	waiters uint64 // so far
}

type waiter struct {
	number     uint64 // the first to wait is called first
	namespace  string // whose watch counts, if it has one of its own
	version    string
	anyVersion bool // the first list is all that counts
	call       func()
}

func (s *seen) init() {
	s.marks, s.waiting = map[string]string{}, map[*waiter]struct{}{}
}

// LastResourceVersion is the newest resourceVersion of which the cache has
// stored and handed on everything, from events and bookmarks. It is empty
// before the first list. With several namespaces it is the oldest of their
// watches'.
func (i *Informer[T]) LastResourceVersion() string {
	i.seen.mu.Lock()
	defer i.seen.mu.Unlock()
	return i.seen.lowest
}

// OnSeen calls f once, when everything up to version of a namespace ("" for all)
// has been stored and handed on: at once, on the caller's goroutine, if that is
// so already, else on the watch's, first those who came first. f must not block.
// After cancel, f is not called any more, unless its call has begun.
//
// A namespace that has a watch of its own (ForNamespaces) is not held up by
// those of others, which may be silent for a minute. A version that cannot be
// compared, as with fakes, counts as seen as soon as the cache has synced.
func (i *Informer[T]) OnSeen(namespace, version string, f func()) (cancel func()) {
	return i.seen.on(&waiter{namespace: namespace, version: version, call: f})
}

// WaitFor returns when everything up to version, of all namespaces, has been
// stored and handed on, see OnSeen, and otherwise says how far the cache was when ctx ended.
func (i *Informer[T]) WaitFor(ctx context.Context, version string) error {
	done := make(chan struct{})
	defer i.OnSeen("", version, func() { close(done) })()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for the cache of %s to see version %q (it has seen %q): %w",
			i.Name(), version, i.LastResourceVersion(), context.Cause(ctx))
	}
}

// advance notes that the watch of namespace has come to version. A watch only
// goes forward; a new list may go back.
func (s *seen) advance(namespace, version string, list bool) {
	s.mu.Lock()
	if !list {
		// A mark that is no number, as fakes have, is left at the first number.
		_, unknown := resourceversion.CompareResourceVersion(s.marks[namespace], "1")
		c, err := resourceversion.CompareResourceVersion(version, s.marks[namespace])
		_, bad := resourceversion.CompareResourceVersion(version, "1")
		if bad != nil || unknown == nil && (err != nil || c <= 0) {
			s.mu.Unlock()
			return
		}
	}
	s.marks[namespace] = version
	s.settle()
}

// setSynced notes whether all watches have stored and handed on their first
// list.
func (s *seen) setSynced(synced bool) {
	s.mu.Lock()
	s.synced = synced
	s.settle()
}

// forget drops the mark of a watch that has ended.
func (s *seen) forget(namespace string) {
	s.mu.Lock()
	delete(s.marks, namespace)
	s.settle()
}

// reset notes that no watch is left.
func (s *seen) reset() {
	s.mu.Lock()
	s.synced = false
	clear(s.marks)
	s.settle()
}

// settle computes the lowest mark and calls, without the lock that its caller
// has taken, who has waited for it.
func (s *seen) settle() {
	s.lowest = ""
	first := true
	for _, mark := range s.marks {
		if c, err := resourceversion.CompareResourceVersion(mark, s.lowest); first || err == nil && c < 0 {
			s.lowest, first = mark, false
		}
	}
	var due []*waiter
	for w := range s.waiting {
		if s.has(w) {
			due = append(due, w)
			delete(s.waiting, w)
		}
	}
	s.mu.Unlock()
	slices.SortFunc(due, func(a, b *waiter) int { return cmp.Compare(a.number, b.number) })
	for _, w := range due {
		w.call()
	}
}

// onSynced calls f once all watches have stored and handed on their first list.
func (s *seen) onSynced(f func()) (cancel func()) {
	return s.on(&waiter{call: f, anyVersion: true})
}

func (s *seen) on(w *waiter) (cancel func()) {
	s.mu.Lock()
	if s.has(w) {
		s.mu.Unlock()
		w.call()
		return func() {}
	}
	s.waiters++
	w.number = s.waiters
	s.waiting[w] = struct{}{}
	s.mu.Unlock()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.waiting, w)
	}
}

func (s *seen) has(w *waiter) bool {
	if !s.synced || w.anyVersion {
		return s.synced
	}
	mark, own := s.marks[w.namespace]
	if !own {
		mark = s.lowest
	}
	c, err := resourceversion.CompareResourceVersion(mark, w.version)
	return err != nil || c >= 0
}

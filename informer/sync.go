package informer

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// HasSynced tells whether the informer is running and its first list has been
// stored and handed on to every handler.
func (i *Informer[T]) HasSynced() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.isSynced()
}

// isSynced is HasSynced for callers that hold mu.
func (i *Informer[T]) isSynced() bool {
	return i.session != nil && !i.session.stopping &&
		!slices.ContainsFunc(i.session.watches, func(r *reflection[T]) bool { return !r.synced.Load() })
}

// WaitForSync returns when HasSynced is true. If ctx ends first, its error says
// what is missing and why, for example that the server forbids the list.
func (i *Informer[T]) WaitForSync(ctx context.Context) error {
	if i.fault != nil {
		return fmt.Errorf("waiting for the first list of %s: %w", i.Name(), i.fault)
	}
	done := make(chan struct{})
	defer i.seen.onSynced(func() { close(done) })()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for the first list of %s: %s: %w", i.Name(), i.reason(), context.Cause(ctx))
	}
}

// watches returns the watches of the session, if there is one.
func (i *Informer[T]) watches() (watches []*reflection[T], running bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.session == nil {
		return nil, false
	}
	return i.session.watches, true
}

// reason says why HasSynced is false.
func (i *Informer[T]) reason() string {
	watches, running := i.watches()
	if !running {
		return "nobody runs the informer"
	}
	var reasons []string
	for _, r := range watches {
		if reason := r.reason(); reason != "" {
			reasons = append(reasons, reason)
		}
	}
	return strings.Join(reasons, "; ")
}

package names

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// find returns the orphans, in the order of their keys.
func (s *Sweep) find(ctx context.Context) ([]Orphan, error) {
	known, err := s.list(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing names: %w", err)
	}
	if err := s.sync(ctx); err != nil { // after the names, never before
		return nil, fmt.Errorf("waiting for the cache: %w", err)
	}
	known = sorted(known)
	inScope, outOfScope := 0, 0
	var orphans []Orphan
	for len(known) > 0 {
		same := 1
		for same < len(known) && known[same].Key == known[0].Key {
			same++
		}
		group := known[:same]
		known = known[same:]
		if !s.inScope(group[0]) {
			outOfScope++
			continue
		}
		inScope++
		if orphan, ok := s.judge(group); ok {
			orphans = append(orphans, orphan)
		}
	}
	s.mu.Lock()
	s.stats.Known, s.stats.OutOfScope = inScope, outOfScope
	s.mu.Unlock()
	return orphans, s.brake(orphans, inScope)
}

// sorted returns names in the order of their keys. It sorts pointers, for which a
// program has the code anyway.
func sorted(names []Name) []Name {
	order := make([]*Name, len(names))
	for i := range names {
		order[i] = &names[i]
	}
	slices.SortFunc(order, compareNames)
	result := make([]Name, len(names))
	for i, name := range order {
		result[i] = *name
	}
	return result
}

func compareNames(a, b *Name) int {
	if c := strings.Compare(a.Key.Namespace, b.Key.Namespace); c != 0 {
		return c
	}
	return strings.Compare(a.Key.Name, b.Key.Name)
}

func (s *Sweep) list(ctx context.Context) ([]Name, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.options.Timeout, s.timeout("the lister"))
	defer cancel()
	s.setListing(time.Now())
	defer s.setListing(time.Time{})
	known, err := list(ctx, s.lister)
	if ctx.Err() != nil {
		err = errors.Join(context.Cause(ctx), err) // even without err: nobody knows whether those are all
	}
	return slices.Clone(known), err // the lister's own slice is not ours to sort
}

func (s *Sweep) sync(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.options.Timeout, s.timeout("the cache"))
	defer cancel()
	return s.target.Sync(ctx)
}

func (s *Sweep) timeout(who string) error {
	return fmt.Errorf("%s took longer than Options.Timeout (%v)", who, s.options.Timeout)
}

func (s *Sweep) setListing(since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listing = since
}

func (s *Sweep) inScope(name Name) bool {
	if len(s.options.Namespaces) > 0 && !slices.Contains(s.options.Namespaces, name.Key.Namespace) {
		return false
	}
	return s.options.Scope == nil || s.options.Scope(name)
}

// judge looks at what is known under one key. If any of it may be about the
// object that is there, it is no orphan.
func (s *Sweep) judge(group []Name) (Orphan, bool) {
	live, found := s.target.Find(group[0].Key)
	if !found {
		return Orphan{Name: group[0]}, true
	}
	for _, name := range group {
		if name.UID == "" || name.UID == live || live == "" {
			return Orphan{}, false
		}
	}
	return Orphan{Name: group[0], Replaced: true}, true
}

// brake refuses what is implausible, unless it was confirmed. A confirmation is
// about what somebody has just seen, so it ends with the sweep that it met; one
// without any name in scope is none.
func (s *Sweep) brake(orphans []Orphan, known int) error {
	if known == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	confirmed := s.confirmed
	s.confirmed = 0
	n := len(orphans)
	if n <= s.options.MaxCount || float64(n) <= s.options.MaxShare*float64(known) || n <= confirmed {
		return nil
	}
	return &RefusedError{
		Orphans: n, Known: known, Example: orphans[0].Name, MaxCount: s.options.MaxCount, MaxShare: s.options.MaxShare,
	}
}

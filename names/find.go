package names

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// A RefusedError is the answer of the safety limit: too many names look orphaned
// that a mistake is more likely.
type RefusedError struct {
	// Orphans of Known names would have been enqueued.
	Orphans, Known int
	// Example is one of the orphans.
	Example Name
	// MaxCount and MaxShare are the limits; both were exceeded.
	MaxCount int
	MaxShare float64
	// Advice is the way out. [Options].Refused may set it to the words of
	// the program's own flags. Defaults to the ways of this package.
	Advice string
}

// Error names the numbers and the ways to let the sweep pass.
func (e *RefusedError) Error() string {
	advice := e.Advice
	if advice == "" {
		advice = fmt.Sprintf("if they are deleted indeed, let one sweep pass with Confirm(%d) or names.Options.Confirmed, "+
			"or raise names.Options.MaxCount or MaxShare", e.Orphans)
	}
	return fmt.Sprintf("safety limit: %d of %d known names are orphans (such as %s), more than %d "+
		"and more than %g %%: nothing is cleaned; %s",
		e.Orphans, e.Known, e.Example.Key, e.MaxCount, math.Round(1e4*e.MaxShare)/100, advice)
}

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
	return orphans, s.checkLimit(orphans, inScope)
}

// sorted returns a copy of names in the order of their keys. It sorts pointers,
// for which a program has the code anyway.
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
		err = errors.Join(context.Cause(ctx), err) // even without err: those may not be all
	}
	return known, err
}

func (s *Sweep) sync(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.options.Timeout, s.timeout("the cache"))
	defer cancel()
	return s.target.Sync(ctx)
}

func (s *Sweep) timeout(subject string) error {
	return fmt.Errorf("%s took longer than names.Options.Timeout (%v)", subject, s.options.Timeout)
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

// judge decides about the names of one key. If any of them may be that of the
// cached object, there is no orphan.
func (s *Sweep) judge(group []Name) (Orphan, bool) {
	cached, found := s.target.Find(group[0].Key)
	if !found {
		return Orphan{Name: group[0]}, true
	}
	for _, name := range group {
		if name.UID == "" || name.UID == cached || cached == "" {
			return Orphan{}, false
		}
	}
	return Orphan{Name: group[0], Replaced: true}, true
}

// checkLimit refuses what is implausible, unless it was confirmed. A confirmation
// applies to the next sweep that lists at least one name in scope, then expires.
func (s *Sweep) checkLimit(orphans []Orphan, known int) error {
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

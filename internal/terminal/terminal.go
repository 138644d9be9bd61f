// Package terminal marks errors that no retry can cure, so that packages beside
// reconcile can return one.
package terminal

import "slices"

type marked struct{ error }

func (m marked) Unwrap() error { return m.error }

// Mark returns err as one that no retry can cure, and nil for nil.
func Mark(err error) error {
	if err == nil {
		return nil
	}
	return marked{err}
}

// Unmark returns what Mark was called with if err is its result, and else err.
func Unmark(err error) error {
	if m, ok := err.(marked); ok { //nolint:errorlint // itself, not what it wraps
		return m.error
	}
	return err
}

// Is reports whether err, or an error that it wraps, is marked. Of several errors in one,
// as errors.Join makes it, all must be: a retry may cure the others.
func Is(err error) bool {
	switch e := err.(type) { //nolint:errorlint // it walks the tree itself
	case nil:
		return false
	case marked:
		return true
	case interface{ Unwrap() []error }:
		errs := e.Unwrap()
		return len(errs) > 0 && !slices.ContainsFunc(errs, func(err error) bool { return err != nil && !Is(err) })
	case interface{ Unwrap() error }:
		return Is(e.Unwrap())
	}
	return false
}

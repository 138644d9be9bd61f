// Package terminal marks errors that no retry can cure, so that packages beside
// reconcile can return one.
package terminal

import "errors"

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

// Is reports whether err, or an error that it wraps, is marked.
func Is(err error) bool {
	_, ok := errors.AsType[marked](err)
	return ok
}

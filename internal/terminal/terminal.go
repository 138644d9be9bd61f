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

// Is reports whether err, or an error that it wraps, is marked.
func Is(err error) bool {
	_, ok := errors.AsType[marked](err)
	return ok
}

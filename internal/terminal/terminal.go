// Package terminal marks errors that a retry cannot cure, for packages other
// than reconcile to return.
package terminal

import "slices"

type marked struct{ error }

func (m marked) Unwrap() error { return m.error }

// Mark returns err, marked as an error that a retry cannot cure. It returns nil
// for nil.
func Mark(err error) error {
	if err == nil {
		return nil
	}
	return marked{err}
}

// Unmark undoes Mark: if err is a result of Mark, it returns the error that was
// passed to Mark. Otherwise it returns err.
func Unmark(err error) error {
	if m, ok := err.(marked); ok { //nolint:errorlint // itself, not what it wraps
		return m.error
	}
	return err
}

// Is reports whether err, or an error that it wraps, is marked. If an error
// wraps several errors, as the result of errors.Join does, all of them must be
// marked, since a retry may cure the others.
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

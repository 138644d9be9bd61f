// Package option gives every error about an option the same form: package,
// type, field, value, and how to correct it. For example:
//
//	queue.Options.MinInterval is -1s: must not be negative
package option

import (
	"errors"
	"fmt"
	"reflect"
)

// Word is a value that an error shows without quotes. It is for values that
// have no text of their own, such as functions.
type Word string

// Set stands for the value of a field that is not nil.
const Set Word = "set"

// Negative is the advice for a number that must not be below zero.
const Negative = "must not be negative"

// Check collects the errors about the fields of one value.
type Check struct {
	typ  string
	errs []error
}

// Of returns a Check for a value of type typ. typ includes the package, as in
// "queue.Options".
func Of(typ string) *Check { return &Check{typ: typ} }

// That records an error about a field unless ok is true. It may allocate in
// either case.
func (c *Check) That(ok bool, field string, value any, advice string, args ...any) {
	if !ok {
		c.Wrong(field, value, advice, args...)
	}
}

// Wrong records that a field has a wrong value. advice says how to correct it.
func (c *Check) Wrong(field string, value any, advice string, args ...any) {
	c.errs = append(c.errs, Wrong(c.typ+"."+field, value, advice, args...))
}

// Err returns the joined errors, or nil if no error was recorded.
func (c *Check) Err() error { return errors.Join(c.errs...) }

// Wrong returns the error about one wrong field. field includes the package and
// the type, such as "patch.Options.Subresource".
func Wrong(field string, value any, advice string, args ...any) error {
	return fmt.Errorf("%s is %s: %w", field, text(value), fmt.Errorf(advice, args...))
}

func text(value any) string {
	switch v := reflect.ValueOf(value); {
	case !v.IsValid():
		return "nil"
	case v.Kind() == reflect.String && v.Type() != reflect.TypeFor[Word]():
		return fmt.Sprintf("%q", value)
	default:
		return fmt.Sprintf("%v", value)
	}
}

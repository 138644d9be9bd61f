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

// Check collects the faults of the fields of one value.
type Check struct {
	typ  string
	errs []error
}

// Of returns a Check of a type. typ is its name with the package, for example
// "queue.Options".
func Of(typ string) *Check { return &Check{typ: typ} }

// That records the fault of a field unless ok. It allocates even if ok.
func (c *Check) That(ok bool, field string, value any, advice string, args ...any) {
	if !ok {
		c.Wrong(field, value, advice, args...)
	}
}

// Wrong records that a field has a wrong value. advice says how to correct it.
func (c *Check) Wrong(field string, value any, advice string, args ...any) {
	c.errs = append(c.errs, Wrong(c.typ+"."+field, value, advice, args...))
}

// Err returns all faults, joined, or nil if there are no faults.
func (c *Check) Err() error { return errors.Join(c.errs...) }

// Wrong returns the error of one wrong field. field is its name with package
// and type, for example "patch.Options.Subresource".
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

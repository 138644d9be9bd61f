// Package option gives every error about an option the same form: package, type, field, value, way out.
//
//	queue.Options.MinInterval is -1s: must not be negative
package option

import (
	"errors"
	"fmt"
	"reflect"
)

// Word is a value that stands in an error as it is, such as one for a value that has no text of its own.
type Word string

// Set is the value of a field that is not nil.
const Set Word = "set"

// Negative is the way out for a number that has no meaning below zero.
const Negative = "must not be negative"

// Check collects what is wrong with the fields of one value.
type Check struct {
	of   string
	errs []error
}

// Of returns a Check of a type, such as "queue.Options".
func Of(typ string) *Check { return &Check{of: typ} }

// That is Wrong unless ok. It allocates even then.
func (c *Check) That(ok bool, field string, value any, wayOut string, args ...any) {
	if !ok {
		c.Wrong(field, value, wayOut, args...)
	}
}

// Wrong records that a field has a wrong value, and the way out.
func (c *Check) Wrong(field string, value any, wayOut string, args ...any) {
	c.errs = append(c.errs, Wrong(c.of+"."+field, value, wayOut, args...))
}

// Err returns everything that is wrong, joined; nil if nothing is.
func (c *Check) Err() error { return errors.Join(c.errs...) }

// Wrong is the error of one wrong field, such as "patch.Options.Subresource".
func Wrong(field string, value any, wayOut string, args ...any) error {
	return fmt.Errorf("%s is %s: %w", field, text(value), fmt.Errorf(wayOut, args...))
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

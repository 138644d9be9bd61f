package patch

import (
	"context"
	"reflect"

	"github.com/homeostat/homeostat/internal/diff"
)

// Status is [Merge] on the status subresource. On custom kinds with a Go type,
// whose status is their controller's, it also sets status.observedGeneration, if the kind has it,
// to the generation of cached; an edit need not do so.
func Status[T Object](ctx context.Context, c Client[T], cached T, o *Options, edit func(T)) (T, error) {
	var none T
	if isNil(c) || isNil(cached) || edit == nil {
		return none, errNilArgument
	}
	var opts Options
	if o != nil {
		opts = *o
	}
	opts.Subresource = status
	return Merge(ctx, c, cached, &opts, func(obj T) {
		edit(obj)
		if diff.StyleOf(obj) == diff.JSON {
			observe(obj)
		}
	})
}

// observe notes the generation that obj's status is about.
func observe(obj Object) {
	v := reflect.ValueOf(obj).Elem()
	if v.Kind() != reflect.Struct || obj.GetGeneration() == 0 {
		return
	}
	s := v.FieldByName("Status")
	if s.Kind() != reflect.Struct {
		return
	}
	if f := s.FieldByName("ObservedGeneration"); f.Kind() == reflect.Int64 && f.CanSet() {
		f.SetInt(obj.GetGeneration())
	}
}

package patch

import (
	"context"
	"reflect"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/diff"
)

// Status is [Merge] on the status subresource. On custom kinds with a Go type,
// whose status is their controller's, it also sets status.observedGeneration, if the kind has it,
// to the generation of cached; an edit need not do so.
//
// The status of custom kinds is always locked by resourceVersion: servers ignore
// the UID there, and could write to a recreated object.
func Status[C Client[T], T informer.Object](
	ctx context.Context, of func(namespace string) C, cached T, o *Options, edit func(T),
) (T, error) {
	var none T
	if of == nil || isNil(cached) || edit == nil {
		return none, errNilArgument
	}
	var opts Options
	if o != nil {
		opts = *o
	}
	opts.Subresource = status
	return Merge(ctx, of, cached, &opts, func(obj T) {
		edit(obj)
		if diff.StyleOf(obj) == diff.JSON {
			observe(obj)
		}
	})
}

// observe notes the generation that obj's status is about.
func observe(obj informer.Object) {
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

package patch

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/homeostat/homeostat/internal/turn"
)

// A CreateClient creates, reads and patches objects of one kind. Generated,
// gentype and fake clients are one; [Dynamic] makes one of a dynamic client.
type CreateClient[T Object] interface {
	Client[T]
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
	Create(ctx context.Context, obj T, opts metav1.CreateOptions) (T, error)
}

// Ensure returns the object with edit applied, as the server has it: created if
// it was not there, patched if it was, untouched if it was right already.
//
// base is the cached object, or, if the cache has none, a new one with its name
// and namespace: an object without UID is created.
//
// Shape: base is not written to. One request or none. If the cache was wrong and
// the object exists, two more: it is read and patched, with UID and
// resourceVersion locked. The edit is called once per object it is tried on.
//
// Errors: as [Merge]. An object that has gone since it was read satisfies
// [IsStale] as well.
func Ensure[T Object](ctx context.Context, c CreateClient[T], base T, o *Options, edit func(T)) (T, error) {
	var none T
	if isNil(c) || isNil(base) || edit == nil {
		return none, errNilArgument
	}
	if base.GetUID() != "" {
		got, err := Merge(ctx, c, base, o.lockUID(), edit)
		if apierrors.IsNotFound(err) {
			err = fmt.Errorf("it has gone since it was read: %w",
				apierrors.NewConflict(schema.GroupResource{Resource: kindOf(base)}, base.GetName(), err))
		}
		return got, err
	}
	got, err := create(ctx, c, base, o, edit)
	if !apierrors.IsAlreadyExists(err) || base.GetName() == "" {
		return got, err
	}
	live, err := c.Get(ctx, base.GetName(), metav1.GetOptions{})
	if err != nil {
		return none, describe("reading", base, err)
	}
	return Merge(ctx, c, live, o.lockAll(live), edit)
}

func create[T Object](ctx context.Context, c CreateClient[T], base T, o *Options, edit func(T)) (T, error) {
	var none T
	opts := o.withDefaults(ctx)
	if err := opts.validate(); err != nil {
		return none, describe("creating", base, err)
	}
	if opts.Subresource != "" {
		return none, describe("creating", base, errCreateSubresource)
	}
	obj, ok := base.DeepCopyObject().(T)
	if !ok {
		return none, describe("creating", base, errOtherCopy)
	}
	edit(obj)
	if err := checkIdentity(base, obj); err != nil {
		return none, describe("creating", base, err)
	}
	if obj.GetName() == "" && obj.GetGenerateName() == "" {
		return none, describe("creating", base, errors.New("it has no name"))
	}
	obj.SetResourceVersion("")
	got, err := c.Create(ctx, obj, metav1.CreateOptions{FieldManager: opts.FieldManager, DryRun: opts.dryRun()})
	if err != nil {
		return none, describe("creating", base, err)
	}
	if !opts.DryRun {
		turn.Wrote(ctx, got)
	}
	return got, nil
}

var (
	errOtherCopy         = errors.New("its DeepCopyObject returns another type")
	errCreateSubresource = errors.New("field Subresource: an object is created as a whole: leave it empty")
)

// lockUID is o that writes to no namesake.
func (o *Options) lockUID() *Options {
	var out Options
	if o != nil {
		out = *o
	}
	out.Lock.UID = true
	return &out
}

// lockAll is o with all that obj, as a fake may have answered it, can be locked on.
func (o *Options) lockAll(obj Object) *Options {
	out := o.lockUID()
	out.Lock = Lock{ResourceVersion: obj.GetResourceVersion() != "", UID: obj.GetUID() != ""}
	return out
}

package patch

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/absent"
	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/internal/option"
	"github.com/homeostat/homeostat/internal/ownwrites"
)

// Ensure returns the object with edit applied, as the server has it: created if it
// did not exist, patched if it did, untouched if it was already right.
//
// base is the cached object or, if the cache has none, a new one with its name and
// namespace: an object without a UID is created. of returns the client of a
// namespace, see [Client].
//
// base is not written to. Sends at most one request. If the cache was wrong and the
// object exists, it sends two more: it reads the object and patches it, locked by
// its resourceVersion. The edit is called once per object it is tried on, and may
// retain that object. If a controlled object needs a patch, that includes a copy without
// owner references, which shows whose the edit makes it.
//
// Errors: as for [Merge]. An object that was deleted since it was read satisfies
// [IsStale] as well. An object that another owner controls is neither adopted nor
// written, but a [ForeignError]: the edit must make that owner the controller itself.
// [Options].Adopt lifts this.
func Ensure[C CreateClient[T], T informer.Object](
	ctx context.Context, of func(namespace string) C, base T, o *Options, edit func(T),
) (T, error) {
	var none T
	if of == nil || bound.IsNil(base) || edit == nil {
		return none, errNilArgument
	}
	if base.GetUID() != "" {
		got, err := merge(ctx, of, base, o, edit, checkController(o, edit))
		if absent.Object(err, base) {
			err = fmt.Errorf("it was deleted since it was read: %w",
				apierrors.NewConflict(schema.GroupResource{Resource: kindOf(base)}, base.GetName(), err))
		}
		return got, err
	}
	got, err := create(ctx, of, base, o, edit)
	if err == nil {
		return got, nil
	}
	if !apierrors.IsAlreadyExists(err) || base.GetName() == "" {
		return none, describe("creating", base, err)
	}
	live, err := read(ctx, of, base)
	if err != nil {
		return none, describe("reading", base, err)
	}
	locked := lockIf(ptr.Deref(o, Options{}), live, true)
	return merge(ctx, of, live, &locked, edit, checkController(o, edit))
}

// create creates a copy of base as edit has changed it, with one request. The caller
// describes its errors.
func create[C CreateClient[T], T informer.Object](
	ctx context.Context, of func(namespace string) C, base T, o *Options, edit func(T),
) (T, error) {
	var none T
	opts := o.withDefaults(ctx)
	if err := opts.validate(); err != nil {
		return none, err
	}
	if opts.Subresource != "" {
		return none, option.Wrong("patch.Options.Subresource", opts.Subresource,
			"must be empty, an object is created as a whole")
	}
	obj, ok := base.DeepCopyObject().(T)
	if !ok {
		return none, errOtherCopy
	}
	obj.SetResourceVersion("")
	edit(obj)
	if err := checkIdentity(base, obj, ""); err != nil {
		return none, err
	}
	if obj.GetName() == "" && obj.GetGenerateName() == "" {
		return none, errors.New("it has no name")
	}
	c, err := bound.ClientFor(of, base)
	if err != nil {
		return none, err
	}
	got, err := c.Create(ctx, obj, metav1.CreateOptions{FieldManager: opts.FieldManager, DryRun: opts.dryRun()})
	if err != nil {
		return none, err
	}
	if err := checkAnswer(base, got); err != nil {
		return none, err
	}
	if !opts.DryRun {
		ownwrites.Wrote(ctx, got)
	}
	return got, nil
}

// read returns the object of the name of base.
func read[C CreateClient[T], T informer.Object](ctx context.Context, of func(namespace string) C, base T) (T, error) {
	var none T
	c, err := bound.ClientFor(of, base)
	if err != nil {
		return none, err
	}
	live, err := c.Get(ctx, base.GetName(), metav1.GetOptions{})
	if err == nil {
		err = checkAnswer(base, live)
	}
	return live, err
}

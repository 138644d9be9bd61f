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

// Ensure makes an object look as edit says, and returns it as the server then
// has it. It creates the object if it does not exist, patches it if it differs,
// and sends no request if it is already right:
//
//	cm, err := patch.Ensure(ctx, clientset.CoreV1().ConfigMaps, base, nil, func(edit *corev1.ConfigMap) {
//		edit.Data = map[string]string{"greeting": "hello"}
//	})
//
// base is the cached object. If the cache has none, it is a new object with the
// name and the namespace: an object without a UID is created. of returns the
// client of a namespace; see [Client]. Ensure does not write to base.
//
// Ensure sends at most one request. If the cache was wrong and the object
// exists, it sends two more: it reads the object and patches it, locked by its
// resourceVersion. It calls edit once for each object on which it tries it, and
// edit may retain that object. For an object that has a controller and needs a
// patch, one more such object is a copy without owner references, which shows
// which owner the edit makes the controller.
//
// Errors: as for [Merge]. An object that was deleted since it was read
// satisfies [IsStale] as well. An object that another owner controls is not
// written and not adopted: the error is a [ForeignError], unless
// [Options].Adopt is set. An edit that makes that owner the controller itself
// may write the object.
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

// create sends the request that creates base as edit has changed it. It does
// not wrap errors; its callers do.
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

// read reads the object with the name of base from the server.
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

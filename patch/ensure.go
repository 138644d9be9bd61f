package patch

import (
	"cmp"
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

// Ensure applies edit to an object, and returns the object as the server then
// has it. It creates the object if it does not exist, patches it if the edit
// changes it, and sends no request if there is nothing to change:
//
//	cm, err := patch.Ensure(ctx, clientset.CoreV1().ConfigMaps, base, nil, func(edit *corev1.ConfigMap) {
//		edit.Data = map[string]string{"greeting": "hello"}
//	})
//
// base is the cached object. If the object is not cached, base is a new object
// with its name and namespace. If base has no UID, Ensure creates the object.
// Ensure does not modify base. clients returns the client of a namespace; see
// [Client].
//
// Ensure usually sends one request, or none. A patch may need more requests;
// see [Merge]. If the cache was wrong and the object exists, Ensure also reads
// the object and then patches it, locked by its resourceVersion, if the edit
// changes it. Each call of edit gets a new copy of the object, and may retain
// it. If the object has a controller and needs a patch, edit is called once
// more with a copy without owner references. That call shows which controller
// the edit itself sets.
//
// Ensure returns the errors of [Merge]. The error also satisfies [IsStale] if
// the object was deleted since it was read. An object that another owner
// controls is not written and not adopted, and the error is a [ForeignError].
// It is written if [Options].Adopt is set, or if the edit itself makes that
// owner the controller.
func Ensure[C CreateClient[T], T informer.Object](
	ctx context.Context, clients func(namespace string) C, base T, o *Options, edit func(T),
) (T, error) {
	var zero T
	if clients == nil || bound.IsNil(base) || edit == nil {
		return zero, errNilArgument
	}
	if base.GetUID() != "" {
		got, err := merge(ctx, clients, base, o, edit, checkController(o, edit))
		if c, refusal := bound.ClientFor(clients, base); refusal == nil && absent.From(c, err, base) {
			err = fmt.Errorf("the object was deleted since it was read: %w",
				apierrors.NewConflict(schema.GroupResource{Resource: kindOf(base)}, base.GetName(), err))
		}
		return got, err
	}
	got, err := create(ctx, clients, base, o, edit)
	if err == nil {
		return got, nil
	}
	if !apierrors.IsAlreadyExists(err) || base.GetName() == "" {
		return zero, describe("creating", base, err)
	}
	live, err := read(ctx, clients, base)
	if err != nil {
		return zero, describe("reading", base, err)
	}
	locked := lockIf(ptr.Deref(o, Options{}), live, true)
	return merge(ctx, clients, live, &locked, edit, checkController(o, edit))
}

// create applies edit to a copy of base and sends the request that creates the
// result. It does not wrap errors; its callers do.
func create[C CreateClient[T], T informer.Object](
	ctx context.Context, clients func(namespace string) C, base T, o *Options, edit func(T),
) (T, error) {
	var zero T
	opts := o.withDefaults(ctx)
	if err := opts.validate(); err != nil {
		return zero, err
	}
	if opts.Subresource != "" {
		return zero, option.Wrong("patch.Options.Subresource", opts.Subresource,
			"must be empty, because an object is created as a whole")
	}
	obj, err := copyOf(base)
	if err != nil {
		return zero, err
	}
	obj.SetResourceVersion("")
	edit(obj)
	if err := checkIdentity(base, obj, ""); err != nil {
		return zero, err
	}
	if obj.GetName() == "" && obj.GetGenerateName() == "" {
		return zero, errors.New("the object has no name")
	}
	c, err := bound.ClientFor(clients, base)
	if err != nil {
		return zero, err
	}
	watched, witness := witnessOf(ctx, c)
	got, err := c.Create(watched, obj, metav1.CreateOptions{FieldManager: opts.FieldManager, DryRun: opts.dryRun()})
	if err == nil {
		err = cmp.Or(witness.Redirect(), checkAnswer(base, got))
	}
	if err == nil {
		err = checkCreated(obj, got)
	}
	if err != nil {
		return zero, err
	}
	if !opts.DryRun {
		ownwrites.Wrote(ctx, got)
	}
	return got, nil
}

// read reads the object with the name of base from the server.
func read[C CreateClient[T], T informer.Object](
	ctx context.Context, clients func(namespace string) C, base T,
) (T, error) {
	var zero T
	c, err := bound.ClientFor(clients, base)
	if err != nil {
		return zero, err
	}
	live, err := c.Get(ctx, base.GetName(), metav1.GetOptions{})
	if err == nil {
		err = checkAnswer(base, live)
	}
	return live, err
}

package children

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/absent"
	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/internal/terminal"
	"github.com/homeostat/homeostat/patch"
)

// A Child is one object that an owner wants.
type Child[T informer.Object] struct {
	// Namespace defaults to that of the owner.
	Namespace string
	// Name must be the same in each reconcile. There is no generateName, since it would
	// create a second object after a crash.
	Name string
	// Edit turns the object into the wanted one. It is given a copy of the existing
	// object, or a new one that has only its name, and may retain either. It need not set
	// the owner reference and the mark, and must not set a different controller.
	Edit func(T)
}

// A Set manages the children of one kind for all owners of one kind. It is safe for
// concurrent use, with at most one call of [Set.Ensure] per owner at a time, as in
// reconciles.
type Set[T informer.Object] struct {
	kind    schema.GroupVersionKind // of the owners
	reader  func(owner metav1.Object) (func(ctx context.Context) (metav1.Object, error), error)
	in      *informer.Informer[T]
	byOwner *informer.Index[T, types.UID]
	of      func(namespace string) client[T]
	options Options
	err     error // of the arguments of New

	mu sync.Mutex // guards the field below
	// refused has how many children those owners had for which the safety limit has refused
	// to delete: what was created since makes no share of them smaller.
	refused map[types.UID]int
}

// client reads and writes children.
type client[T informer.Object] interface {
	patch.CreateClient[T]
	Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
}

// New returns the Set of children that in caches and of writes, for owners of the
// given kind, which owners reads:
//
//	in := informer.For(clientset.AppsV1().Deployments(""), nil)
//	kind := v1.GroupVersion.WithKind("Website")
//	deployments := children.New(kind, websites.In, in, clientset.AppsV1().Deployments, nil)
//
// owners and of return the client of a namespace, see [patch.Client]. New adds an
// index to in, and sends nothing. Wrong arguments and options are reported by
// [Set.Ensure].
func New[K interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (O, error)
}, O informer.Object, C interface {
	patch.CreateClient[T]
	Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
}, T informer.Object](
	kind schema.GroupVersionKind, owners func(namespace string) K, in *informer.Informer[T],
	of func(namespace string) C, o *Options,
) *Set[T] {
	s := &Set[T]{kind: kind, in: in, options: o.withDefaults(), refused: map[types.UID]int{}}
	if owners == nil || in == nil || of == nil {
		s.err = errors.New("the owners, their informer and their client must not be nil")
		return s
	}
	s.reader = func(owner metav1.Object) (func(ctx context.Context) (metav1.Object, error), error) {
		client, err := bound.ClientFor(owners, owner)
		return func(ctx context.Context) (metav1.Object, error) {
			return client.Get(ctx, owner.GetName(), metav1.GetOptions{})
		}, err
	}
	s.of = func(namespace string) client[T] { return of(namespace) }
	s.byOwner = informer.NewIndex(in, func(child T) []types.UID {
		if controller := metav1.GetControllerOfNoCopy(child); controller != nil {
			return []types.UID{controller.UID}
		}
		return nil
	})
	s.err = s.options.validate()
	return s
}

// Ensure makes wanted the complete set of owner's children: it creates what is
// missing, patches what differs, and then deletes the others, unless a wanted one is
// being deleted. It returns the wanted children as the server has them, in the given
// order.
//
// Sends, one after the other, at most one request for each child that is created or
// patched, or three if the cache was wrong about it; one for each that is deleted; and
// one to confirm the owner if any is deleted or adopted. owner is not written to. The
// result is shared; do not modify it.
//
// Errors: those of [patch.Ensure] and [patch.Delete]. An error that satisfies
// [patch.IsStale] means that the owner or a child has changed since it was read.
// [ErrLimit], which is terminal, and errors of deletions are returned together with
// the children. Terminal errors are wrong arguments of New, an owner that is nil,
// being deleted or without a client, and children without a name, without an Edit,
// given twice, or where owner cannot own them, see [Own].
func (s *Set[T]) Ensure(ctx context.Context, owner metav1.Object, wanted ...Child[T]) ([]T, error) {
	if bound.IsNil(owner) {
		return nil, terminal.Mark(fmt.Errorf("keeping the children of a %s: the owner is nil", s.kind.Kind))
	}
	c := call[T]{Set: s, owner: owner, wanted: make(map[types.NamespacedName]bool, len(wanted))}
	if err := c.validate(wanted); err != nil {
		return nil, terminal.Mark(c.describe(err))
	}
	c.before = c.children()
	all := make([]T, 0, len(wanted))
	var errs []error
	for _, w := range wanted {
		if ctx.Err() != nil {
			errs = append(errs, fmt.Errorf("stopping before %q: %w", c.keyOf(w), ctx.Err()))
			break
		}
		child, err := c.ensure(ctx, w)
		all, errs = append(all, child), append(errs, err)
	}
	if err := merged(errs); err != nil {
		return nil, c.describe(err)
	}
	if slices.ContainsFunc(all, func(child T) bool { return child.GetDeletionTimestamp() != nil }) {
		return all, nil // once it is deleted it is created again, and then the others are deleted
	}
	if err := c.deleteOthers(ctx); err != nil {
		return all, c.describe(err)
	}
	return all, nil
}

// call is one call of Ensure.
type call[T informer.Object] struct {
	*Set[T]
	owner     metav1.Object
	wanted    map[types.NamespacedName]bool
	readOwner func(ctx context.Context) (metav1.Object, error)
	confirmed bool // the owner, by the server
	before    int  // how many children there were before the call
	recreated int  // how many children were deleted to be created again
}

func (c *call[T]) describe(err error) error {
	return fmt.Errorf("keeping the children of %s: %w", nameOf(c.owner, c.kind), err)
}

// validate returns the errors of the arguments, and notes the names.
func (c *call[T]) validate(wanted []Child[T]) error {
	if err := errors.Join(c.err, mayOwn(c.owner, c.kind, c.owner.GetNamespace())); err != nil {
		return err
	}
	var errs []error
	var err error
	if c.readOwner, err = c.reader(c.owner); err != nil {
		errs = append(errs, fmt.Errorf("reading the owner: %w", err))
	}
	if c.owner.GetDeletionTimestamp() != nil {
		errs = append(errs, errors.New("it is being deleted: return before, or guard it with a patch.Finalizer"))
	}
	for _, w := range wanted {
		key := c.keyOf(w)
		if err := mayOwn(c.owner, c.kind, key.Namespace); err != nil {
			errs = append(errs, fmt.Errorf("owning %q: %w", key, err))
		}
		if w.Name == "" || w.Edit == nil || c.wanted[key] {
			errs = append(errs, fmt.Errorf("child %q must have a name and an Edit, and be wanted once", key))
		}
		c.wanted[key] = true
	}
	return errors.Join(errs...)
}

func (c *call[T]) keyOf(w Child[T]) types.NamespacedName {
	if w.Namespace == "" {
		w.Namespace = c.owner.GetNamespace()
	}
	return types.NamespacedName{Namespace: w.Namespace, Name: w.Name}
}

// ensure returns a wanted child as the server has it.
func (c *call[T]) ensure(ctx context.Context, w Child[T]) (T, error) {
	base, ok := c.in.Get(c.keyOf(w))
	if !ok {
		var err error
		if base, err = c.blank(c.keyOf(w)); err != nil {
			return base, err
		}
	}
	got, err := c.write(ctx, w, base, nil)
	if fields := immutableFields(err); len(fields) > 0 && base.GetUID() != "" {
		return c.afterImmutable(ctx, w, base, fields, err)
	}
	return got, err
}

// write writes a wanted child, but leaves those fields as they are.
func (c *call[T]) write(ctx context.Context, w Child[T], base T, except []string) (T, error) {
	// A replica that adopts an orphan must not miss its new owner.
	locked := metav1.GetControllerOfNoCopy(base) == nil && base.GetResourceVersion() != ""
	var refusal error
	got, err := patch.Ensure(ctx, c.of, base, &patch.Options{Lock: locked}, func(obj T) {
		if refusal = c.mayWrite(ctx, obj); refusal != nil {
			return
		}
		var before runtime.Object
		if len(except) > 0 {
			before = obj.DeepCopyObject()
		}
		w.Edit(obj)
		if refusal = c.own(obj); refusal == nil && before != nil {
			refusal = withoutChanges(before, obj, except)
		}
	})
	if refusal != nil {
		return got, fmt.Errorf("writing %q: %w", c.keyOf(w), refusal)
	}
	return got, err
}

// blank returns a new object.
func (c *call[T]) blank(key types.NamespacedName) (T, error) {
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Pointer {
		var none T
		return none, fmt.Errorf("type %v is not a pointer: no object can be made", t)
	}
	obj := reflect.New(t.Elem()).Interface().(T) //nolint:forcetypeassert // it is T
	obj.SetNamespace(key.Namespace)
	obj.SetName(key.Name)
	if u, ok := any(obj).(runtime.Unstructured); ok {
		mapping, err := c.in.Mapping()
		if err != nil || mapping.GroupVersionKind.Kind == "" || mapping.GroupVersionKind.Version == "" {
			return obj, errors.Join(err, fmt.Errorf("the kind of %q is unknown: set informer.Options.Kind", key))
		}
		u.GetObjectKind().SetGroupVersionKind(mapping.GroupVersionKind)
	}
	return obj, nil
}

// mayWrite returns why obj, which may be new, must not be written.
func (c *call[T]) mayWrite(ctx context.Context, obj T) error {
	if metav1.GetControllerOfNoCopy(obj) != nil {
		return free(c.owner, c.kind, obj)
	}
	switch isNew := obj.GetUID() == ""; {
	case isNew:
		return nil
	case len(c.options.Mark) == 0 || !labels.SelectorFromSet(c.options.Mark).Matches(labels.Set(obj.GetLabels())):
		return errOrphan
	default: // by a dead owner it would be deleted
		return c.confirm(ctx)
	}
}

// own makes obj a child, whatever an edit has done to its labels and controllers.
func (c *call[T]) own(obj T) error {
	obj.SetLabels(labels.Merge(obj.GetLabels(), c.options.Mark))
	uid := c.owner.GetUID()
	refs := slices.Clone(obj.GetOwnerReferences())
	obj.SetOwnerReferences(slices.DeleteFunc(refs, func(r metav1.OwnerReference) bool {
		return r.Controller != nil && *r.Controller && r.UID != uid
	}))
	return Own(c.owner, c.kind, obj)
}

// deleteOthers deletes the cached children that are not wanted. All that are wanted
// are there.
func (c *call[T]) deleteOthers(ctx context.Context) error {
	var others []T
	for child := range c.byOwner.Get(c.owner.GetUID()) {
		if !c.wanted[bound.KeyOf(child)] && child.GetDeletionTimestamp() == nil {
			others = append(others, child)
		}
	}
	if len(others) == 0 {
		c.noteRefused(false)
		return nil
	}
	if err := c.checkLimit(len(others), bound.KeyOf(others[0])); err != nil {
		return terminal.Mark(err)
	}
	if err := c.confirm(ctx); err != nil {
		return err
	}
	var errs []error
	for _, child := range others {
		if ctx.Err() != nil {
			errs = append(errs, fmt.Errorf("stopping before %q: %w", bound.KeyOf(child), ctx.Err()))
			break
		}
		locked := child.GetResourceVersion() != "" // fakes have none
		errs = append(errs, patch.Delete(ctx, c.of, child, &patch.Options{Lock: locked}))
	}
	return merged(errs)
}

// children counts the cached children that are not being deleted.
func (c *call[T]) children() (n int) {
	for child := range c.byOwner.Get(c.owner.GetUID()) {
		if child.GetDeletionTimestamp() == nil {
			n++
		}
	}
	return n
}

// checkLimit refuses to delete too many children, such as example: too many of those that
// were there before the call, or before the first call that was refused. Children that were
// created instead of them do not count.
func (c *call[T]) checkLimit(n int, example fmt.Stringer) error {
	c.mu.Lock()
	if was, ok := c.refused[c.owner.GetUID()]; ok {
		c.before = min(c.before, was)
	}
	c.mu.Unlock()
	all := max(c.before, n)
	refuse := n > c.options.MaxCount && float64(n) > c.options.MaxShare*float64(all)
	c.noteRefused(refuse)
	if !refuse {
		return nil
	}
	return fmt.Errorf("%w: %d of %d children are no longer wanted (such as %s), more than %d and more than %g %%: "+
		"none is deleted; let the owner want fewer step by step, or raise children.Options.MaxCount or MaxShare",
		ErrLimit, n, all, example, c.options.MaxCount, 100*c.options.MaxShare)
}

// noteRefused notes whether the safety limit has refused to delete children of the owner.
func (c *call[T]) noteRefused(refused bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if refused {
		c.refused[c.owner.GetUID()] = c.before
	} else {
		delete(c.refused, c.owner.GetUID())
	}
}

// confirm returns nil if the server has the owner as it was read, which it is asked
// once in a call.
func (c *call[T]) confirm(ctx context.Context) error {
	if c.confirmed {
		return nil
	}
	live, err := c.readOwner(ctx)
	switch {
	case absent.Object(err, c.owner):
		return c.changed("it was deleted since it was read")
	case err != nil:
		return fmt.Errorf("confirming that it is as it was read: %w", err)
	case live.GetUID() != c.owner.GetUID():
		return c.changed(fmt.Sprintf("it was recreated since it was read: its UID was %q and is %q",
			c.owner.GetUID(), live.GetUID()))
	case live.GetResourceVersion() != c.owner.GetResourceVersion() || live.GetDeletionTimestamp() != nil:
		return c.changed(fmt.Sprintf("it was changed since it was read: its resourceVersion was %q and is %q",
			c.owner.GetResourceVersion(), live.GetResourceVersion()))
	}
	c.confirmed = true
	return nil
}

// changed is a refusal that satisfies patch.IsStale.
func (c *call[T]) changed(how string) error {
	return apierrors.NewConflict(schema.GroupResource{Group: c.kind.Group, Resource: c.kind.Kind}, c.owner.GetName(),
		errors.New(how))
}

// merged returns the errors in one. Refusals of stale objects, which the next
// reconcile cures, are left out beside others: the whole would pass for one.
func merged(errs []error) error {
	var failures []error
	for _, err := range errs {
		if err != nil && !patch.IsStale(err) {
			failures = append(failures, err)
		}
	}
	if failures == nil {
		return errors.Join(errs...)
	}
	return errors.Join(failures...)
}

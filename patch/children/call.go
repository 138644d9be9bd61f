package children

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/internal/mark"
	"github.com/homeostat/homeostat/internal/suspect"
	"github.com/homeostat/homeostat/patch"
)

// call is one call of Ensure, for one owner.
type call[T informer.Object] struct {
	*Set[T]
	owner  metav1.Object
	mark   mark.Owner // the mark on the children, with ByLabel
	scope  meta.RESTScopeName
	wanted map[types.NamespacedName]bool
	// confirm asks the server, once in a call, whether the owner has changed
	// since it was read. It returns nil if the owner has not changed.
	confirm     func() error
	countBefore int // number of children before the call; checkLimit may lower it
	recreated   atomic.Int64
	editing     sync.Mutex // held during an edit; it guards no field
}

// begin returns a call for owner. It returns the call even with an error: the
// caller adds the owner to the error with describe.
func (s *Set[T]) begin(ctx context.Context, owner metav1.Object) (*call[T], error) {
	c := &call[T]{Set: s, owner: owner, wanted: map[types.NamespacedName]bool{}}
	c.mark = markOf(s.kind, bound.KeyOf(owner), owner.GetUID())
	c.mark.Origin = s.options.Origin
	if s.err != nil {
		return c, s.err
	}
	read, err := s.reader(owner)
	if err != nil {
		return c, fmt.Errorf("reading the owner: %w", err)
	}
	c.confirm = sync.OnceValue(func() error { return c.confirmOwner(ctx, read) })
	mapping, err := s.cache.Parts().Mapping()
	if mapping.Scope != nil {
		c.scope = mapping.Scope.Name()
	}
	return c, err
}

func (c *call[T]) describe(err error) error {
	return fmt.Errorf("ensuring the children of %s: %w", nameOf(c.owner, c.kind), err)
}

// validate returns the mistakes in the arguments of Ensure, joined, and records
// the keys of the wanted children.
func (c *call[T]) validate(wanted []Child[T]) error {
	if err := cmp.Or(c.mayOwn(c.owner.GetNamespace()), c.checkServers(c.owner)); err != nil {
		return err
	}
	var errs []error
	if c.owner.GetDeletionTimestamp() != nil {
		errs = append(errs, errors.New("the owner is being deleted: return earlier, or guard it with a patch.Finalizer"))
	}
	divided := c.cache.Status().Divided
	for _, w := range wanted {
		key := c.keyOf(w)
		if err := c.mayBeIn(w, key.Namespace, divided); err != nil {
			errs = append(errs, fmt.Errorf("setting the owner of %q: %w", key, err))
		}
		if w.Name == "" || w.Edit == nil || c.wanted[key] {
			errs = append(errs, fmt.Errorf("child %q must have a name and an Edit, and must not be passed twice", key))
		}
		c.wanted[key] = true
	}
	return sumErrors(errs...)
}

// mayBeIn returns why the owner cannot have the child w in a namespace, or nil.
// divided is true if the cache keeps only the objects of some shards.
func (c *call[T]) mayBeIn(w Child[T], namespace string, divided bool) error {
	switch {
	case c.scope == meta.RESTScopeNameNamespace && namespace == "":
		return errors.New("the child and its owner have no namespace: set children.Child.Namespace")
	case c.scope == meta.RESTScopeNameRoot && w.Namespace != "":
		return errors.New("the child's kind has no namespaces: leave children.Child.Namespace empty")
	case divided && namespace != c.owner.GetNamespace():
		return errors.New("the child is not in its owner's namespace, and the informer keeps the objects of this replica's " +
			"shards only: set informer.Options.Whole")
	}
	return c.mayOwn(namespace)
}

// mayOwn returns why the owner cannot own a child in a namespace, or nil.
func (c *call[T]) mayOwn(namespace string) error {
	if !c.options.ByLabel {
		return mayOwn(c.owner, c.kind, namespace)
	}
	for _, problem := range c.mark.Errors() {
		return fmt.Errorf("the owner's kind %q and UID %q must be valid label values: %s",
			c.kind.Kind, c.owner.GetUID(), problem)
	}
	return mayOwn(c.owner, c.kind, c.owner.GetNamespace())
}

// keyOf returns the key of a wanted child. Its namespace defaults to the
// owner's.
func (c *call[T]) keyOf(w Child[T]) types.NamespacedName {
	if w.Namespace == "" && c.scope != meta.RESTScopeNameRoot {
		w.Namespace = c.owner.GetNamespace()
	}
	return types.NamespacedName{Namespace: w.Namespace, Name: w.Name}
}

// ensure creates or patches a wanted child, and returns it as the server then
// has it.
func (c *call[T]) ensure(ctx context.Context, w Child[T]) (T, error) {
	base, ok := c.cache.Get(c.keyOf(w))
	if !ok {
		var err error
		if base, err = c.blank(c.keyOf(w)); err != nil {
			return base, err
		}
	}
	got, err := c.write(ctx, w, base, nil)
	if fields := immutableFields(err); len(fields) > 0 && base.GetUID() != "" {
		return c.handleImmutable(ctx, w, base, fields, err)
	}
	if err == nil && base.GetUID() != "" {
		c.forgetDeletion(c.keyOf(w))
	}
	return got, err
}

// write creates or patches a wanted child, but does not change the fields in
// immutable.
func (c *call[T]) write(ctx context.Context, w Child[T], base T, immutable []keptField) (T, error) {
	// The lock prevents a replica from adopting an orphan that has been given
	// an owner in the meantime. mayWrite decides who owns it.
	o := &patch.Options{Lock: c.relationOf(base) != ownChild && base.GetResourceVersion() != "", Adopt: true}
	var refusal error
	got, err := patch.Ensure(ctx, c.clients, base, o, func(obj T) {
		if refusal = c.mayWrite(obj); refusal != nil {
			return
		}
		var original runtime.Object
		if len(immutable) > 0 {
			original = obj.DeepCopyObject()
		}
		c.edit(w, obj)
		if refusal = c.makeChild(obj); refusal == nil && original != nil {
			refusal = revertFields(original, obj, immutable)
		}
	})
	switch {
	case errors.Is(refusal, ErrForeign): // it names the object
		return got, fmt.Errorf("writing a child: %w", refusal)
	case refusal != nil:
		return got, fmt.Errorf("writing %q: %w", c.keyOf(w), refusal)
	case err == nil && got.GetUID() == "" && !c.cache.Parts().Simulated():
		return got, suspect.Answerf("writing %q: the answer has no UID, so it is not known whether the child exists",
			c.keyOf(w))
	case err == nil && c.relationOf(got) != ownChild:
		return got, fmt.Errorf("writing %q: the answer is not about a child of this owner: %s, "+
			"or a webhook has changed the owner", c.keyOf(w), suspect.Guess)
	}
	return got, err
}

// edit calls the edit of a child. In one call of Ensure, the edits are called
// one after the other.
func (c *call[T]) edit(w Child[T], obj T) {
	c.editing.Lock()
	defer c.editing.Unlock()
	w.Edit(obj)
}

// blank returns a new object that has only its key and, if it is unstructured,
// its kind.
func (c *call[T]) blank(key types.NamespacedName) (T, error) {
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Pointer {
		var zero T
		return zero, fmt.Errorf("type %v is not a pointer, so no object of it can be created", t)
	}
	obj := reflect.New(t.Elem()).Interface().(T) //nolint:forcetypeassert // it is T
	obj.SetNamespace(key.Namespace)
	obj.SetName(key.Name)
	if u, ok := any(obj).(runtime.Unstructured); ok {
		mapping, err := c.cache.Parts().Mapping()
		if err != nil || mapping.GroupVersionKind.Kind == "" || mapping.GroupVersionKind.Version == "" {
			return obj, errors.Join(err, fmt.Errorf("the kind of %q is unknown: set informer.Options.Kind", key))
		}
		u.GetObjectKind().SetGroupVersionKind(mapping.GroupVersionKind)
	}
	return obj, nil
}

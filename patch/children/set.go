package children

import (
	"context"
	"errors"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	// Namespace defaults to the owner's namespace. Children of a cluster-scoped owner need
	// one, and cluster-scoped children have none.
	Namespace string
	// Name must be the same in each reconcile. There is no generateName, since it would
	// create a second object after a crash.
	Name string
	// Edit turns the object into the wanted one. It is given a copy of the existing
	// object, or a new one that has only its name, and may retain either. It need not set
	// what makes the object a child, nor the labels of Options.Mark, and must not set a
	// different controller.
	Edit func(T)
}

// A Set manages the children of one kind for all owners of one kind. It is safe for
// concurrent use, with at most one call of [Set.Ensure] per owner at a time, as in
// reconciles.
type Set[T informer.Object] struct {
	kind    schema.GroupVersionKind // of the owners
	reader  func(owner types.NamespacedName) (readOwner, error)
	absent  func(err error, owner types.NamespacedName) bool
	in      *informer.Informer[T]
	byOwner *informer.Index[T, string] // by the values of ownersIn
	of      func(namespace string) client[T]
	options Options
	err     error // of the arguments of New

	mu    sync.Mutex // guards the fields below
	notes map[types.UID]note
	kept  int // how many there were after those of deleted owners were dropped
}

// readOwner reads an owner from the server.
type readOwner func(ctx context.Context) (metav1.Object, error)

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
	s := &Set[T]{kind: kind, in: in, options: o.withDefaults(), notes: map[types.UID]note{}}
	if owners == nil || in == nil || of == nil {
		s.err = errors.New("the owners, their informer and their client must not be nil")
		return s
	}
	s.reader = func(owner types.NamespacedName) (readOwner, error) {
		client, err := bound.ClientFor(owners, &metav1.ObjectMeta{Namespace: owner.Namespace, Name: owner.Name})
		return func(ctx context.Context) (metav1.Object, error) {
			return client.Get(ctx, owner.Name, metav1.GetOptions{})
		}, err
	}
	s.absent = func(err error, owner types.NamespacedName) bool {
		named := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: owner.Namespace, Name: owner.Name}}
		named.SetGroupVersionKind(kind)
		return absent.OfType[O](err, owner.Name) && absent.Object(err, named)
	}
	s.of = func(namespace string) client[T] { return of(namespace) }
	s.byOwner = informer.NewIndex(in, ownersIn[T])
	s.err = s.options.validate()
	return s
}

// Ensure makes wanted the complete set of owner's children: it creates what is
// missing, patches what differs, and then deletes the others. In a namespace in which a
// wanted child failed, or is being deleted, nothing is deleted. It returns the wanted
// children as the server has them, in the given order.
//
// Sends, Options.Parallel side by side, at most one request for each child that is
// created or patched, or three if the cache was wrong about it; one for each that is
// deleted; and one to confirm the owner if any is deleted or adopted. owner is not
// written to. The result is shared; do not modify it.
//
// Errors: those of [patch.Ensure] and [patch.Delete], of which the text has the first
// ten and a count. [ErrForeign] is the error of a child whose name is taken. An error
// that satisfies [patch.IsStale] means that the owner or a child has changed since it
// was read. [ErrLimit], which is terminal, and errors of deletions are returned together
// with the children. Terminal errors are wrong arguments of New, an owner that is nil,
// being deleted or without a client, and children without a name, a namespace or an
// Edit, given twice, or where owner cannot own them, see [Own].
func (s *Set[T]) Ensure(ctx context.Context, owner metav1.Object, wanted ...Child[T]) ([]T, error) {
	if bound.IsNil(owner) {
		return nil, terminal.Mark(fmt.Errorf("keeping the children of a %s: the owner is nil", s.kind.Kind))
	}
	c, err := s.begin(ctx, owner)
	if err == nil {
		err = c.validate(wanted)
	}
	if err != nil {
		return nil, terminal.Mark(c.describe(err))
	}
	c.before = len(c.children())
	all := make([]T, len(wanted))
	errs, done := sideBySide(ctx, len(wanted), s.options.Parallel, func(i int) (err error) {
		all[i], err = c.ensure(ctx, wanted[i])
		return err
	})
	if !done {
		return nil, c.describe(summed(append(errs, stopped(ctx, "written"))...))
	}
	failure := summed(errs...)
	limit, others := c.deleteOthers(ctx, c.unfit(wanted, all, errs))
	switch {
	case failure != nil:
		return nil, c.describe(summed(failure, limit, others))
	case limit != nil:
		return all, terminal.Mark(c.describe(limit))
	case others != nil:
		return all, c.describe(others)
	}
	return all, nil
}

// unfit returns the namespaces in which a wanted child is not there, or will not stay:
// once it is deleted it is created again, and then the others are deleted.
func (c *call[T]) unfit(wanted []Child[T], all []T, errs []error) map[string]bool {
	namespaces := map[string]bool{}
	for i, w := range wanted {
		if errs[i] != nil || all[i].GetDeletionTimestamp() != nil {
			namespaces[c.keyOf(w).Namespace] = true
		}
	}
	return namespaces
}

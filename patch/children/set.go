package children

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/absent"
	"github.com/homeostat/homeostat/internal/bound"
	internalclients "github.com/homeostat/homeostat/internal/clients"
	"github.com/homeostat/homeostat/internal/terminal"
	"github.com/homeostat/homeostat/patch"
)

// A Child is one object that an owner wants to exist.
type Child[T informer.Object] struct {
	// Namespace defaults to the owner's namespace. Set it for children of a
	// cluster-scoped owner, and leave it empty for cluster-scoped children.
	Namespace string
	// Name must be the same in each reconcile. There is no generateName,
	// because it would create a second object after a crash.
	Name string
	// Edit turns the object into the wanted one. It gets a copy of the existing
	// object, or a new one that has only its name, and may retain either. It
	// need not set the owner reference or the labels that make the object a
	// child, or the labels of Options.Mark. It must not set a different
	// controller.
	Edit func(T)
}

// A Set manages the children of one kind for all owners of one kind. It is safe
// for concurrent use, with at most one call of [Set.Ensure] per owner at a
// time, as in reconciles.
type Set[T informer.Object] struct {
	kind    schema.GroupVersionKind // the kind of the owners
	reader  func(owner metav1.Object) (readOwner, error)
	absent  func(err error, owner types.NamespacedName) bool
	server  func(owner metav1.Object) string // the URL of the API server of the owners, or "" if it is not known
	cache   *informer.Informer[T]
	byOwner *informer.Index[T, string] // the children, by the values of ownersIn
	clients func(namespace string) client[T]
	options Options
	err     error // the mistakes in the arguments of New

	together atomic.Bool // the owners and the children are known to be on the same server

	mu    sync.Mutex // guards the fields below
	notes map[types.UID]note
	kept  int // number of notes that were left when the notes of deleted owners were last dropped
	// deletions has the children that were deleted to be created again.
	deletions     map[types.NamespacedName]deletion
	deletionsKept int // number of deletions that were left when some were last dropped
}

// readOwner reads an owner from the server.
type readOwner func(ctx context.Context) (metav1.Object, error)

// client reads and writes children.
type client[T informer.Object] interface {
	patch.CreateClient[T]
	Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
}

// New returns a Set of children. They are read from cache and written through
// clients. Their owners have the given kind and are read through owners:
//
//	cache := informer.For(clientset.AppsV1().Deployments(""), nil)
//	kind := v1.GroupVersion.WithKind("Website")
//	deployments := children.New(kind, websites.In, cache, clientset.AppsV1().Deployments, nil)
//
// owners and clients return the client of a namespace; see [patch.Client]. An
// informer whose label selector selects Options.Mark caches only the children.
// If another object has the name of a wanted child, but not the label, the
// server refuses to create the child, and the object is then read. New adds an
// index to cache, and sends no request. [Set.Ensure] reports invalid arguments
// and options.
func New[K interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (O, error)
}, O informer.Object, C interface {
	patch.CreateClient[T]
	Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
}, T informer.Object](
	kind schema.GroupVersionKind, owners func(namespace string) K, cache *informer.Informer[T],
	clients func(namespace string) C, o *Options,
) *Set[T] {
	s := &Set[T]{kind: kind, cache: cache, options: o.withDefaults(), notes: map[types.UID]note{}}
	s.deletions = map[types.NamespacedName]deletion{}
	if owners == nil || cache == nil || clients == nil {
		s.err = errors.New("owners, cache and clients must not be nil")
		return s
	}
	s.reader = func(owner metav1.Object) (readOwner, error) {
		client, err := bound.ClientFor(owners, owner)
		return func(ctx context.Context) (metav1.Object, error) {
			live, err := client.Get(ctx, owner.GetName(), metav1.GetOptions{})
			if err == nil {
				err = absent.Answer(live, owner)
			}
			return live, err
		}, err
	}
	s.absent = func(err error, owner types.NamespacedName) bool {
		named := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: owner.Namespace, Name: owner.Name}}
		named.SetGroupVersionKind(kind)
		client, refusal := bound.ClientFor(owners, named)
		return refusal == nil && absent.OfType[O](err, owner.Name) && absent.From(client, err, named)
	}
	s.server = func(owner metav1.Object) string {
		client, err := bound.ClientFor(owners, owner)
		if err != nil {
			return ""
		}
		return internalclients.ServerOf(client)
	}
	s.clients = func(namespace string) client[T] { return clients(namespace) }
	s.byOwner = informer.NewIndex(cache, ownersIn[T])
	s.err = s.options.validate()
	return s
}

// Ensure makes wanted the complete set of owner's children. It creates children
// that do not exist, patches children that differ, and then deletes the others.
// In a namespace in which a wanted child could not be written or is being
// deleted, it deletes no children. It returns the wanted children as the server
// then has them, in the given order.
//
// Ensure usually sends one request for each child that is created or patched,
// and at least three if the cache was wrong about the child. A patch may need
// more requests; see [patch.Merge]. Ensure also sends one request for each
// child that is deleted, and one to confirm the owner if any child is deleted
// or adopted. Up to Options.Parallel requests are under way at a time. Ensure
// does not write to owner. The result is shared; do not modify it.
//
// Ensure returns the errors of [patch.Ensure] and [patch.Delete]. The text of
// the error has the first ten errors and the number of the others. [ErrForeign]
// is the error of a child whose name is taken. An error that satisfies
// [patch.IsStale] means that the owner or a child has changed since it was
// read. If all wanted children were written, [ErrLimit] and errors of deletions
// are returned together with the children, and [ErrLimit] is terminal. Ensure
// returns a terminal error for invalid arguments of New, for an owner that is
// nil, is being deleted or has no client, and for an owner in another cluster
// without [Options].Origin. It does so as well for children that have no name,
// no namespace or no Edit, that are given twice, or that owner cannot own (see
// [Own]).
func (s *Set[T]) Ensure(ctx context.Context, owner metav1.Object, wanted ...Child[T]) ([]T, error) {
	if bound.IsNil(owner) {
		return nil, terminal.Mark(fmt.Errorf("ensuring the children of a %s: the owner is nil", s.kind.Kind))
	}
	c, err := s.begin(ctx, owner)
	if err == nil {
		err = c.validate(wanted)
	}
	if err != nil {
		return nil, terminal.Mark(c.describe(err))
	}
	c.countBefore = len(c.children())
	c.countDeleted()
	written := make([]T, len(wanted))
	errs, done := callAll(ctx, len(wanted), s.options.Parallel, func(i int) (err error) {
		written[i], err = c.ensure(ctx, wanted[i])
		return err
	})
	if !done {
		return nil, c.describe(sumErrors(append(errs, stopError(ctx, "written"))...))
	}
	failure := sumErrors(errs...)
	limit, failed := c.deleteUnwanted(ctx, c.unfit(wanted, written, errs))
	switch {
	case failure != nil:
		return nil, c.describe(sumErrors(failure, limit, failed))
	case limit != nil:
		return written, terminal.Mark(c.describe(limit))
	case failed != nil:
		return written, c.describe(failed)
	}
	return written, nil
}

// unfit returns the namespaces in which a wanted child could not be written, or
// is being deleted. Ensure deletes no children there, because an old child must
// stay until its replacement exists.
func (c *call[T]) unfit(wanted []Child[T], written []T, errs []error) map[string]bool {
	namespaces := map[string]bool{}
	for i, w := range wanted {
		if errs[i] != nil || written[i].GetDeletionTimestamp() != nil {
			namespaces[c.keyOf(w).Namespace] = true
		}
	}
	return namespaces
}

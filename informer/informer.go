package informer

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/informer/internal/dropin"
	"github.com/homeostat/homeostat/informer/internal/partial"
	"github.com/homeostat/homeostat/informer/internal/versions"
	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/internal/calls"
	"github.com/homeostat/homeostat/internal/clients"
	"github.com/homeostat/homeostat/internal/option"
	"github.com/homeostat/homeostat/internal/simhook"
)

// Informer keeps a read-only copy of the objects of one kind, and delivers
// their changes to handlers.
//
// It is safe for concurrent use. Reads never wait for writes, and writes never
// wait for reads. The objects it returns are shared; do not modify them.
type Informer[T Object] struct {
	options Options
	// err joins the errors of the options and of the client.
	err      error
	scope    scope
	identity *identity
	counted  *counters
	store    *store[T]
	feed     *feed[T]
}

// For returns an informer for the objects that c reads:
//
//	nodes := informer.For(clientset.CoreV1().Nodes(), nil)
//
// It does not start the informer; see [Informer.Run]. A nil o means the
// defaults. If an option is wrong or c is nil, Run, WaitForSync and
// reconcile.New return an error.
func For[T Object, L runtime.Object](c Client[T, L], o *Options) *Informer[T] {
	return newInformer[T]([]source{sourceOf(c)}, o)
}

// ForNamespaces returns an informer that lists and watches each of
// Options.Namespaces separately. So permissions in these namespaces are enough:
//
//	pods := informer.ForNamespaces(clientset.CoreV1().Pods, &informer.Options{Namespaces: []string{"a", "b"}})
//
// It does not start the informer. clientOf is called for each namespace before
// ForNamespaces returns, and later by [Informer.SetNamespaces] for new
// namespaces. If Options.Namespaces is empty, it is called with "" for all
// namespaces.
func ForNamespaces[C Client[T, L], T Object, L runtime.Object](
	clientOf func(namespace string) C, o *Options,
) *Informer[T] {
	connect := func(namespace string) source {
		if clientOf == nil {
			return source{namespace: namespace, err: errNoClients}
		}
		s := sourceOf[T, L](clientOf(namespace))
		if s.err != nil {
			s.err = fmt.Errorf("informer.ForNamespaces: the client of namespace %q is nil", namespace)
		}
		if shown := s.reach; s.err == nil && shown.Namespace != "" && shown.Namespace != namespace {
			s.err = fmt.Errorf("informer.ForNamespaces: the client of namespace %q reads namespace %q",
				namespace, shown.Namespace)
		}
		s.namespace, s.reach = namespace, clients.Reach{Namespace: namespace, Certainty: clients.Certain}
		return s
	}
	var sources []source
	for _, namespace := range namespacesOf(o.withDefaults().Namespaces) {
		sources = append(sources, connect(namespace))
	}
	i := newInformer[T](sources, o)
	i.feed.connect = connect
	return i
}

func newInformer[T Object](sources []source, o *Options) *Informer[T] {
	i := &Informer[T]{options: o.withDefaults(), counted: &counters{}}
	i.err = i.options.validate()
	for _, s := range sources {
		i.err = errors.Join(i.err, s.err)
	}
	i.err = errors.Join(i.err, checkScope(&i.options, sources[0]))
	i.scope = newScope(&i.options)
	i.scope.clusterScoped = scopeOf[T](&i.options, sources[0].scope, false) == meta.RESTScopeNameRoot
	if i.scope.clusterScoped {
		for n := range sources {
			sources[n].reach = clients.Reach{Certainty: clients.Certain} // there are no namespaces
		}
	}
	i.identity = newIdentity[T](&i.options)
	i.store = newStore[T](&i.options, i.identity)
	i.feed = &feed[T]{
		sink: sink[T]{
			options: &i.options, identity: i.identity, counted: i.counted, store: i.store,
			selector: i.scope.labels, seenNamespaces: &sync.Map{},
		},
		sources: sources, adding: make(chan struct{}, 1),
	}
	if client, ok := sources[0].dropin.(*dropin.Client[T]); ok {
		i.store.keeps, client.Store = true, direct[T]{i.store}
	}
	i.feed.complete = i.feed.hasSynced
	i.store.delivery.counted, i.store.delivery.log = i.counted, i.feed.log
	i.store.calls.Report = func(c calls.Call) {
		i.feed.log().Error(nil, "a function has not returned, blocking the informer",
			"function", c.Function, "namespace", c.Key.Namespace, "name", c.Key.Name, "since", c.Since)
	}
	return i
}

// Kind returns the kind of the objects, such as "Node". It is Options.Kind if
// that is set. For unstructured and metadata-only objects without Options.Kind
// it is empty until the first object has been received.
func (i *Informer[T]) Kind() string { return i.identity.Kind() }

// Name returns the name of the informer in logs, errors and metrics, such as
// "nodes".
func (i *Informer[T]) Name() string { return i.identity.Name() }

// Run lists and watches until ctx ends, then returns nil. It returns an error
// at once if an option is wrong. All other errors are logged and retried. If
// cached objects were modified in place, the last call to end returns a
// [MutationError] for each of them, at most 100; see Options.MutationCheck.
//
// Calls may overlap. The first call starts the watch, with the values of its
// context. The last call to end stops the watch, and returns after every
// goroutine has ended. After that the informer can be run again. The cache is
// cleared when no Run is active and no handler is registered.
//
// A call takes a moment to join the other calls. Until then HasSynced and
// WaitForSync answer only for the other calls. This makes a difference if one
// of the other calls keeps only the objects of some shards, as a controller
// with ranges.New does. In this case set Options.Whole if another user needs
// all objects, or let package reconcile run the informer, because it waits
// until the call has joined.
func (i *Informer[T]) Run(ctx context.Context) error { return run(ctx, i, nil, nil) }

func run[T Object](ctx context.Context, i *Informer[T], shards partial.Cache[T], joined func()) error {
	err := i.err
	if err == nil {
		err = i.feed.run(ctx, shards, joined)
	}
	if err != nil {
		return fmt.Errorf("running the informer of %s: %w", i.Name(), err)
	}
	return nil
}

// HasSynced reports whether the informer is running and its first list has been
// stored and delivered to every handler. An informer with several namespaces
// needs the first list of each of them.
func (i *Informer[T]) HasSynced() bool { return i.feed.hasSynced() }

// WaitForSync returns when HasSynced is true. With Options.Independent it waits
// for all namespaces, and one of them may never sync.
//
// WaitForSync returns an error at once if an option is wrong. If ctx ends
// first, it returns the error of ctx with the reason why the first list is
// missing, for example that the server forbids the list.
func (i *Informer[T]) WaitForSync(ctx context.Context) error {
	err := i.err
	if err == nil {
		err = i.feed.waitForSync(ctx)
	}
	if err != nil {
		return fmt.Errorf("waiting for the first list of %s: %w", i.Name(), err)
	}
	return nil
}

// Get returns the newest object of key, and whether it is cached. ok may also
// be false because the cache has not synced, or because the object is not in
// scope. The object is shared; do not modify it. Get allocates no memory.
func (i *Informer[T]) Get(key types.NamespacedName) (object T, ok bool) {
	if item := i.store.table.Get(key); item != nil {
		return item.Object, true
	}
	return object, false
}

// Snapshot returns the content of the cache, without copying it or allocating
// memory. It is empty before the first list. With several namespaces, some may
// be missing until HasSynced.
func (i *Informer[T]) Snapshot() Snapshot[T] { return i.store.snapshot() }

// Handle calls h for every change after it has been stored, until remove is
// called. Before Handle returns, it replays the objects that are cached
// already, as Added.
//
// Calls do not overlap, and are made in the order of the changes. h must not
// block, because the watch waits for it. A call that has begun may still be
// running when remove returns. If h panics, the panic is logged and counted,
// and h misses the event.
//
// Handlers stay registered when Run ends, and keep the cache from being
// cleared. When the informer runs again, they receive the changes that happened
// in the meantime. remove may be called repeatedly.
func (i *Informer[T]) Handle(h func(Event[T])) (remove func()) {
	added := i.store.delivery.add(h, i.store.snapshot)
	return func() {
		i.store.delivery.remove(added)
		i.feed.clearIfUnused()
	}
}

// SetNamespaces makes an informer of [ForNamespaces] watch these namespaces, or
// all namespaces if there are no arguments. Watches of namespaces that remain
// continue. Handlers receive the objects of removed namespaces as Deleted,
// although the objects may exist. They usually receive them before
// SetNamespaces returns. If the informer is delivering other changes at that
// moment, they receive them after these changes. Matches is false for such
// objects, and a controller does not reconcile them. HasSynced is false until
// the new namespaces have been listed. A handler must not call SetNamespaces.
//
// SetNamespaces returns an error if a name is not valid, if the client of a new
// namespace is nil or reads a different namespace, or if the informer was not
// made with ForNamespaces. After an error, the namespaces are the same as
// before.
func (i *Informer[T]) SetNamespaces(namespaces ...string) error {
	err := (&Options{Namespaces: namespaces}).validate()
	if err == nil {
		err = i.feed.setNamespaces(namespacesOf(namespaces))
	}
	if err != nil {
		return fmt.Errorf("changing the namespaces of the informer of %s: %w", i.Name(), err)
	}
	return nil
}

// LastResourceVersion returns the resourceVersion up to which the cache has
// stored and delivered all changes, according to events and bookmarks. It is
// empty before the first list, and while the informer does not run. With
// several namespaces, it is the oldest resourceVersion that one of their
// watches has reached.
func (i *Informer[T]) LastResourceVersion() string { return i.feed.marks.Oldest() }

func (i *Informer[T]) onSeen(namespace, resourceVersion string, f func()) (cancel func()) {
	return i.feed.marks.On(&versions.Waiter{Namespace: namespace, RV: resourceVersion, Call: f})
}

// WaitFor returns when all changes up to a resourceVersion have been stored and
// delivered, in all namespaces. A resourceVersion that cannot be compared, as
// with fakes, counts as reached when the cache has synced.
//
// If ctx ends first, WaitFor returns the error of ctx with the resourceVersion
// that the cache has reached.
func (i *Informer[T]) WaitFor(ctx context.Context, resourceVersion string) error {
	if versions.WaitFor(ctx, func(f func()) func() { return i.onSeen("", resourceVersion, f) }) {
		return nil
	}
	return fmt.Errorf("waiting for the cache of %s to see resourceVersion %q (it has seen %q): %w",
		i.Name(), resourceVersion, i.LastResourceVersion(), context.Cause(ctx))
}

// WaitForLatest returns when the cache is at least as new as the server was at
// the time of the call. The watch alone does not show this, because it is
// silent for a minute if no object changes. With Options.Independent,
// WaitForLatest leaves out the namespaces that have not been listed yet.
//
// It lists the objects page by page, but retains only their resourceVersions.
// It stops listing when the watch has caught up.
//
// Lists of some aggregated API servers have an older resourceVersion than an
// object in them, so it is not known how new such a list is. WaitForLatest then
// compares each cached object with the list. It does not wait for the deletion
// of an object that was created, and deleted again, shortly before the call.
//
// WaitForLatest retries failed requests. If ctx ends first, it returns the
// error of ctx with the reason why the cache is not as new. A wrapped informer
// returns an error as soon as it has synced.
func (i *Informer[T]) WaitForLatest(ctx context.Context) error { return i.waitForLatest(ctx, nil) }

// WaitForObject returns when the cached object of key is at least as new as the
// server's object was at the time of the call. If the server had no such object
// in the informer's scope, WaitForObject waits until the cache has dropped the
// deleted object. It does not wait for the deletion of an object that was
// created under that name after the call.
//
// It first waits for the first list, and then sends one request, which it
// repeats if it fails. It sends no request if key is outside the informer's
// namespaces.
//
// WaitForObject returns the same errors as [Informer.WaitForLatest].
func (i *Informer[T]) WaitForObject(ctx context.Context, key types.NamespacedName) error {
	return i.waitForLatest(ctx, &key)
}

func (i *Informer[T]) waitForLatest(ctx context.Context, target *types.NamespacedName) error {
	err := i.err
	if err == nil {
		err = i.feed.waitForLatest(ctx, target)
	}
	if err != nil {
		return fmt.Errorf("waiting until the cache of %s is as new as the server: %w", i.Name(), err)
	}
	return nil
}

// CheckMutations compares cached objects with copies that were made when the
// server sent them. It checks the objects of keys or, without keys, all
// objects. It returns a joined [MutationError] for each object that was
// modified in place since the last check, and nil if Options.MutationCheck
// turns the check off.
//
// Controllers call it after each reconcile, to find the reconcile that modified
// an object. Run also returns the mutations that CheckMutations has found.
func (i *Informer[T]) CheckMutations(keys ...types.NamespacedName) error {
	return i.store.checkMutations(keys...)
}

// MutationError reports that a cached object was modified in place. Run and
// [Informer.CheckMutations] may return several, joined: errors.AsType finds the
// first.
type MutationError struct {
	// Kind and Key identify the modified object. The check cannot tell which
	// code modified the object.
	Kind string
	Key  types.NamespacedName
	// Fields are paths such as "metadata.labels.app", at most ten. If the JSON
	// of the object has not changed, it is the text "unknown fields".
	Fields []string
}

// Error returns a message that names the object and the fields, and that says
// what to do instead.
func (e *MutationError) Error() string {
	return fmt.Sprintf("the cached %s %q was modified in place (%s): modify a DeepCopy, or use package patch",
		e.Kind, strings.TrimPrefix(e.Key.String(), "/"), strings.Join(e.Fields, ", "))
}

// Is lets package reconciletest find the error with errors.Is. That package
// does not import this one.
func (e *MutationError) Is(target error) bool { return target == simhook.ErrModified }

// inScope reports whether an object of key could be in the cache.
func (i *Informer[T]) inScope(key types.NamespacedName) bool {
	return i.feed.watchesNamespace(key.Namespace) && i.admits(key)
}

// admits does what [scope.admits] does. If neither the options nor the client
// nor the Go type shows whether the kind has namespaces, the cached objects
// show it.
func (i *Informer[T]) admits(key types.NamespacedName) bool {
	if key.Namespace != "" {
		for range i.Snapshot().Namespace("") {
			return i.namespaced() && i.scope.admits(key)
		}
	}
	return i.scope.admits(key)
}

// Matches reports whether obj is in the informer's scope, and whether this is
// known. The scope consists of the namespaces, the shards, the label selector
// and the field selector. Matches does not look at the cache. obj is an object
// as the server returns it. For example, a Pod that has not been created yet
// lacks the server's defaults, by which the server may select.
//
// A server does not always select by the value in the object. For example, the
// field status.successful of a Job is its status.succeeded, and
// spec.hostNetwork of a Pod without this field is "false". Matches knows these
// rules for the kinds of Kubernetes 1.36. For other kinds it uses the value in
// the object. It does not know the value of an object with metadata only, of a
// Go type that may lack the field, or of a field that newer servers have added.
// It also does not know the namespaces of some clients, such as a client that
// is embedded in a struct. For these it knows only the namespaces of the objects
// that the client has returned.
func (i *Informer[T]) Matches(obj metav1.Object) (matches, known bool) {
	if bound.IsNil(obj) {
		return false, false
	}
	if !i.feed.keeps(obj.GetNamespace()) || !i.scope.labels.Matches(labels.Set(obj.GetLabels())) {
		return false, true
	}
	if reads, known := i.feed.reads(obj.GetNamespace()); !reads {
		return false, known
	}
	return i.scope.matchesFields(obj, i.Resource())
}

// Resource returns the group and the plural name of the resource that the
// informer watches, such as deployments.apps. A part that neither the client
// nor the Go type shows is empty. Resource sends no request.
func (i *Informer[T]) Resource() schema.GroupResource {
	return resourceFor[T](i.feed.currentSources()[0]).GroupResource()
}

// mapping returns the kind, the resource and the scope of the objects, as far
// as they are known. It returns an error if Options.Kind is not the kind that
// the client reads.
func (i *Informer[T]) mapping() (meta.RESTMapping, error) {
	first := i.feed.currentSources()[0]
	m := meta.RESTMapping{Resource: resourceFor[T](first)}
	m.GroupVersionKind = m.Resource.GroupVersion().WithKind(i.Kind())
	switch scopeOf[T](&i.options, first.scope, i.feed.connect != nil || first.reach.Namespace != "") {
	case meta.RESTScopeNameRoot:
		m.Scope = meta.RESTScopeRoot
	case meta.RESTScopeNameNamespace:
		m.Scope = meta.RESTScopeNamespace
	}
	return m, i.checkKind(first.resource.Resource)
}

// checkKind returns an error if Options.Kind contradicts the client's resource
// or the Go type.
func (i *Informer[T]) checkKind(resource string) error {
	kind, t := i.options.Kind, reflect.TypeFor[T]()
	if kind == "" || t.Kind() == reflect.Pointer && t.Elem().Name() == kind {
		return nil
	}
	switch {
	case clients.IsPlural(resource, kind) && kind[:1] == strings.ToUpper(kind[:1]):
		return nil
	case resource != "":
		return option.Wrong("informer.Options.Kind", kind, "the client reads %q", resource)
	case t.Kind() == reflect.Pointer && !clients.IsGeneric(t.Elem()):
		return option.Wrong("informer.Options.Kind", kind, "the Go type is %s", t)
	}
	return nil
}

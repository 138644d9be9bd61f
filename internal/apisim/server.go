package apisim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Server is one simulated API server with all objects that it stores. It starts
// no goroutine.
//
// All methods may be called from any goroutine.
type Server struct {
	store

	clients   map[string]*client
	forbidden []func(Call) error
	answered  func(Call, Answer) // set by OnAnswer; may be nil
	reply     func(Call) *Reply  // set by ReplyWith; may be nil
}

// store holds the objects of all resources, their watches, and the hooks that
// are called after each write.
type store struct {
	opts Options

	mu         sync.Mutex // guards the fields of Server and the fields below, except for ordered and served
	tables     map[schema.GroupVersionResource]*table
	ordered    []*table // the tables, sorted by name; never changes
	served     []Resource
	version    int64 // the resourceVersion of the last write
	identities identities
	allocated  allocator
	frozen     map[string]int64 // resourceVersions that cached reads show, by client
	watches    []*watcher
	watchIDs   int
	gate       *Scheduler
	hooks      hooks
	mutate     func(Call, map[string]any) // set by MutateWith; may be nil
}

// New returns a server without objects. With [Options.Lifecycle] it has the
// usual namespaces.
func New(o *Options) (*Server, error) {
	opts := o.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, fmt.Errorf("making a simulated API server: %w", err)
	}
	s := &Server{clients: map[string]*client{}, store: store{
		opts:       opts,
		tables:     map[schema.GroupVersionResource]*table{},
		version:    firstVersion,
		identities: identities{seed: opts.Seed, counts: map[string]uint64{}},
		frozen:     map[string]int64{},
	}}
	for _, r := range append(Builtin(), opts.Resources...) {
		s.tables[r.GVR()] = newTable(r)
	}
	s.ordered = slices.SortedFunc(maps.Values(s.tables), func(a, b *table) int {
		return strings.Compare(a.name, b.name)
	})
	for _, t := range s.ordered {
		s.served = append(s.served, t.res)
	}
	if opts.Lifecycle {
		for _, name := range []string{"default", "kube-system", "kube-public", "kube-node-lease"} {
			if err := s.Load(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

// OnCommit adds a hook that is called after every committed write, in the order
// of the resourceVersions. It is called before the writer gets its answer,
// unless the hooks are still running for an earlier write. The hook may call
// the server.
func (s *store) OnCommit(hook func(Event)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hooks.funcs = append(s.hooks.funcs, hook)
}

// Deny adds a function that is called before the server serves a call. If it
// returns an error, the server answers the call with that error, and does not
// call functions that were added later. It must be an error of package
// apierrors. The server also calls the function to answer a
// SelfSubjectAccessReview, with the call that the review asks about. It is not
// called for the admin's calls. It is called while the server's lock is held,
// so it must not call the server.
func (s *Server) Deny(deny func(Call) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forbidden = append(s.forbidden, deny)
}

// MutateWith sets a function that changes objects in place, as a mutating
// webhook does, before they are validated and stored. It is not called for the
// admin's calls or for calls on a subresource. It runs in the goroutine of the
// caller, or for a late call in the scheduler's, while the server's lock is
// held. So it must not call the server.
func (s *Server) MutateWith(mutate func(Call, map[string]any)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mutate = mutate
}

// mutated calls the function of MutateWith with the object of a call. It does
// not call it for calls of the admin or on a subresource.
func (x *exchange) mutated(obj object) {
	if x.s.mutate != nil && x.r.Client != admin && x.r.Subresource == "" {
		x.s.mutate(x.r.Call, obj)
	}
}

// Version returns the resourceVersion of the last write.
func (s *store) Version() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// Objects returns the objects of a resource, sorted by namespace and name. They
// are shared; do not modify them.
func (s *store) Objects(resource schema.GroupVersionResource) []*unstructured.Unstructured {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tables[resource]
	if t == nil {
		return nil
	}
	var objects []*unstructured.Unstructured
	for _, o := range t.objectsAt(s.version) {
		objects = append(objects, &unstructured.Unstructured{Object: o.obj})
	}
	return objects
}

// ByAge returns the objects of a resource in the order of their creation. They
// are shared; do not modify them.
func (s *store) ByAge(resource schema.GroupVersionResource) []*unstructured.Unstructured {
	objects := s.Objects(resource)
	if len(objects) == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	born := s.tables[resource].born
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int {
		return cmp.Compare(born[keyOf(a)], born[keyOf(b)])
	})
	return objects
}

func keyOf(o *unstructured.Unstructured) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// Resources returns the served resources, sorted by name. The slice is shared;
// do not modify it.
func (s *store) Resources() []Resource { return s.served }

// now returns the present time of the server's clock.
func (s *store) now() string { return s.timeAfter(0) }

// timeAfter returns the time that the server's clock will show after the given
// delay.
func (s *store) timeAfter(delay time.Duration) string {
	return time.Now().Add(delay).UTC().Format(time.RFC3339)
}

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

// Server is one simulated API server with everything that it stores. It starts no goroutine.
//
// Concurrency: all methods may be called from any goroutine.
type Server struct {
	store

	clients   map[string]*client
	forbidden []func(Call) error
}

// store holds the objects of all resources, their watches, and the hooks that hear of each write.
type store struct {
	opts Options

	mu        sync.Mutex // guards all below, and the clients and rules of the server
	tables    map[schema.GroupVersionResource]*table
	ordered   []*table // by name
	served    []Resource
	version   int64 // the resourceVersion of the last write
	made      identities
	allocated allocator
	frozen    map[string]int64 // by client: the resourceVersion that its cached reads show
	watches   []*watcher
	watchIDs  int
	gate      *Scheduler
	hooks     hooks
}

// New returns a server that holds nothing but, with [Options.Lifecycle], the usual namespaces.
func New(o *Options) (*Server, error) {
	opts := o.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, fmt.Errorf("making a simulated API server: %w", err)
	}
	s := &Server{clients: map[string]*client{}, store: store{
		opts:    opts,
		tables:  map[schema.GroupVersionResource]*table{},
		version: firstVersion,
		made:    identities{seed: opts.Seed, counts: map[string]uint64{}},
		frozen:  map[string]int64{},
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

// OnCommit calls hook after every committed write, before the writer has its answer, in the order of the
// resourceVersions. The hook may call the server.
func (s *store) OnCommit(hook func(Event)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hooks.funcs = append(s.hooks.funcs, hook)
}

// Deny asks may before every gated call; its error (an apierrors one) is the answer. Admin calls are not asked.
func (s *Server) Deny(may func(Call) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forbidden = append(s.forbidden, may)
}

// Version is the resourceVersion of the last write.
func (s *store) Version() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// Objects returns the objects of a resource, by namespace and name. They are shared; do not modify them.
func (s *store) Objects(resource schema.GroupVersionResource) []*unstructured.Unstructured {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tables[resource]
	if t == nil {
		return nil
	}
	var all []*unstructured.Unstructured
	for _, o := range t.at(s.version) {
		all = append(all, &unstructured.Unstructured{Object: o.obj})
	}
	return all
}

// ByAge returns the objects of a resource in the order of their creation. They are shared; do not modify them.
func (s *store) ByAge(resource schema.GroupVersionResource) []*unstructured.Unstructured {
	all := s.Objects(resource)
	if len(all) == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	born := s.tables[resource].born
	slices.SortStableFunc(all, func(a, b *unstructured.Unstructured) int {
		return cmp.Compare(born[keyOf(a)], born[keyOf(b)])
	})
	return all
}

func keyOf(o *unstructured.Unstructured) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// Resources lists what the server serves, in order. The slice is shared; do not modify it.
func (s *store) Resources() []Resource { return s.served }

func now() string { return time.Now().UTC().Format(time.RFC3339) }

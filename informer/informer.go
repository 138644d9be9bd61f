package informer

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/internal/intern"
)

// An Informer keeps a copy of all objects of one kind, as far as they are in
// its scope, and tells its handlers what changes.
//
// It is safe for concurrent use. Its reads never wait for its writes, nor the
// other way round.
type Informer[T Object] struct {
	options Options
	fault   error // what is wrong with the options
	scope   scope
	kind    atomic.Pointer[string]

	latest atomic.Pointer[version[T]] // never nil; stored under mu
	newest table[T]                   // the objects of the newest state, by key
	seen   seen

	counted  counters
	sharer   *intern.Sharer // nil if off
	detector *detector[T]   // nil if off

	writing sync.Mutex // held by who computes and stores the next state

	mu         sync.Mutex // guards what follows
	handlers   []*handler[T]
	batches    []batch[T] // handed on in this order, by one goroutine at a time
	delivering bool
	handing    time.Time // when the changes came that are being handed on
	session    *session[T]
	sources    []source

	of       func(namespace string) source // nil if the namespaces are fixed
	settling sync.Mutex                    // held while the namespaces change
}

// For returns an informer of the objects that c reads:
//
//	nodes := informer.For(clientset.CoreV1().Nodes(), nil)
//
// It starts nothing, see Run. Wrong options are reported by Validate, Run
// and WaitForSync, and by reconcile.New.
func For[T Object, L runtime.Object](c Client[T, L], o *Options) *Informer[T] {
	return newInformer[T]([]source{sourceOf(c)}, o)
}

func newInformer[T Object](sources []source, o *Options) *Informer[T] {
	i := &Informer[T]{options: o.withDefaults(), sources: sources}
	i.fault = i.options.validate()
	for _, s := range sources {
		i.fault = errors.Join(i.fault, s.fault)
	}
	i.scope = newScope(&i.options)
	i.latest.Store(versionOf(i.empty()))
	i.seen.init()
	if !i.options.NoSharing {
		i.sharer = intern.New()
	}
	if i.options.checksMutations() {
		i.detector = &detector[T]{copies: map[*item[T]]T{}}
	}
	kind := i.options.Kind
	if t := reflect.TypeFor[T](); kind == "" && t.Kind() == reflect.Pointer && !isGeneric(t.Elem()) {
		kind = t.Elem().Name()
	}
	if kind != "" {
		i.kind.Store(&kind)
	}
	return i
}

// Get returns the newest object of key. It allocates nothing.
//
// Shape: the object is shared with every reader, so read only.
func (i *Informer[T]) Get(key types.NamespacedName) (object T, ok bool) {
	if it := i.newest.get(key); it != nil {
		return it.object, true
	}
	return object, false
}

// Snapshot returns what the cache holds now, at once and without copying. It
// allocates nothing.
func (i *Informer[T]) Snapshot() Snapshot[T] { return Snapshot[T]{i.state()} }

// empty returns a state without objects, with the indexes of the current one.
func (i *Informer[T]) empty() *state[T] {
	s := &state[T]{indexed: i.options.IndexLabels}
	if len(i.options.IndexLabels) > 0 {
		s.labels = newPostings(labelsOf[T](i.options.IndexLabels))
	}
	if i.latest.Load() != nil {
		for _, x := range i.state().indexes {
			s.indexes = append(s.indexes, x.empty())
		}
	}
	return s
}

// Validate returns what is wrong with the options and the client, joined: nil if
// nothing is. [Informer.Run] and [Informer.WaitForSync] return the same.
func (i *Informer[T]) Validate() error {
	if i.fault == nil {
		return nil
	}
	return fmt.Errorf("informer of %s: %w", i.Name(), i.fault)
}

// Kind of the objects, such as "Node". It is empty for unstructured and
// metadata-only objects until one has been seen, unless Options.Kind tells.
func (i *Informer[T]) Kind() string {
	if kind := i.kind.Load(); kind != nil {
		return *kind
	}
	return ""
}

// Name in logs, errors and metrics, such as "nodes".
func (i *Informer[T]) Name() string {
	if i.options.Name != "" {
		return i.options.Name
	}
	kind := i.Kind()
	if kind == "" {
		return "objects"
	}
	plural, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Kind: kind})
	return plural.Resource
}

// shares makes what object has in common with its earlier state, or with the
// other objects, one.
func (i *Informer[T]) shares(object T) {
	switch it := i.newest.get(keyOf(object)); {
	case i.sharer == nil:
	case it != nil:
		i.sharer.Update(object, it.object)
	default:
		i.sharer.Object(object)
	}
}

// learnKind remembers the kind that an object of a generic type carries.
func (i *Informer[T]) learnKind(object T) {
	if i.kind.Load() == nil {
		if kind := object.GetObjectKind().GroupVersionKind().Kind; kind != "" {
			i.kind.Store(&kind)
		}
	}
}

// isGeneric tells whether one Go type stands for many kinds.
func isGeneric(t reflect.Type) bool {
	return t.Name() == "Unstructured" || strings.HasPrefix(t.Name(), "PartialObjectMetadata")
}

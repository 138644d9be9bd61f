package state

import (
	"fmt"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
)

// Originals holds copies of the objects that one process has cached, and finds
// objects that the process has modified since.
//
// Concurrency: its methods may be called from any goroutine.
type Originals struct {
	mu     sync.Mutex // guards the fields below
	copies []original
	seen   map[runtime.Object]bool
}

type original struct{ cached, copied runtime.Object }

// Add adds an object that is about to be cached. It ignores an object that it
// has already, and values that are not objects, such as the
// DeletedFinalStateUnknown of client-go.
func (o *Originals) Add(obj any) {
	cached, isObject := obj.(runtime.Object)
	if !isObject || reflect.TypeOf(obj).Kind() != reflect.Pointer {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.seen[cached] {
		return
	}
	if o.seen == nil {
		o.seen = map[runtime.Object]bool{}
	}
	o.seen[cached] = true
	o.copies = append(o.copies, original{cached, cached.DeepCopyObject()})
}

// Check returns an error that names the first modified object, or nil if no
// object was modified.
func (o *Originals) Check() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, entry := range o.copies {
		if equality.Semantic.DeepEqual(entry.cached, entry.copied) {
			continue
		}
		m, err := meta.Accessor(entry.copied)
		if err != nil {
			return fmt.Errorf("a cached %T was modified in place: %w", entry.copied, err)
		}
		return fmt.Errorf("the cached %T %s/%s was modified in place", entry.copied, m.GetNamespace(), m.GetName())
	}
	return nil
}

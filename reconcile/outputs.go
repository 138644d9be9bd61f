package reconcile

import (
	"maps"
	"reflect"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// maxOutputs bounds the kinds that are remembered: a controller of any kinds
// must not make them a leak.
const maxOutputs = 100

// outputs are the kinds that a controller has written.
type outputs struct {
	mu    sync.Mutex // guards kinds
	kinds map[string]struct{}
}

// add is called for each write, which has cost a request.
func (o *outputs) add(writes []write) {
	if len(writes) == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, w := range writes {
		kind := kindOf(w.object)
		if _, ok := o.kinds[kind]; ok || len(o.kinds) >= maxOutputs {
			continue
		}
		if o.kinds == nil {
			o.kinds = map[string]struct{}{}
		}
		o.kinds[kind] = struct{}{}
	}
}

func (o *outputs) list() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Sorted(maps.Keys(o.kinds))
}

// kindOf returns the kind that obj says it has, or else the name of its type.
func kindOf(obj metav1.Object) string {
	if object, ok := obj.(runtime.Object); ok {
		if kind := object.GetObjectKind().GroupVersionKind().Kind; kind != "" {
			return kind
		}
	}
	return reflect.Indirect(reflect.ValueOf(obj)).Type().Name()
}

package informer

import (
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Resource returns the group and the plural name of what the informer watches,
// such as deployments.apps, as far as the client or the Go type tells, and
// otherwise nothing.
func (i *Informer[T]) Resource() schema.GroupResource {
	i.mu.Lock()
	first := i.sources[0]
	i.mu.Unlock()
	return resourceFor[T](first).GroupResource()
}

// resourceFor returns what a source reads: what its client tells, or else what
// the Go type says.
func resourceFor[T Object](s source) schema.GroupVersionResource {
	if kind, _, ok := builtIn(reflect.TypeFor[T]()); ok && s.resource.Resource == "" {
		plural, _ := meta.UnsafeGuessKindToResource(kind)
		return plural
	}
	return s.resource
}

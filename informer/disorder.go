package informer

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/homeostat/homeostat/informer/internal/tree"
	"github.com/homeostat/homeostat/informer/internal/versions"
	"github.com/homeostat/homeostat/internal/bound"
)

// A list of the API server is at least as new as each of its objects, and so is
// its resourceVersion. Some aggregated API servers break this rule. For
// example, one of them compares resourceVersions as texts, and gives a list of
// objects with the resourceVersions 9 and 100 the resourceVersion 9. The
// resourceVersion of such a list says nothing about the time of the list.

// isOrdered reports whether the resourceVersions of lists can be compared with
// the resourceVersions of events and objects.
func (r *reflectorStore[T]) isOrdered() bool { return r.comparable() && !r.disordered.Load() }

// noteOrder records that the resourceVersions of lists are not ordered, if the
// list with the resourceVersion rv contains an object with the newer
// resourceVersion newest. It logs this once.
func (r *reflectorStore[T]) noteOrder(rv, newest string) {
	if rv == "" || !r.comparable() || !versions.Older(rv, newest) || !r.disordered.CompareAndSwap(false, true) {
		return
	}
	r.progress.log.Info("a list has an older resourceVersion than an object in it, so it is not known how new lists are, "+
		"and a server that is restored to an earlier state will not be noticed",
		"resourceVersion", rv, "newest", newest, "namespace", r.source.namespace, "server", r.source.server)
}

// newestListed returns the newest resourceVersion of the items, or "".
func newestListed[T Object](items []*tree.Item[T]) (newest string) {
	for _, item := range items {
		newest = newer(newest, item.Object.GetResourceVersion())
	}
	return newest
}

// newestOn returns the newest resourceVersion of the objects on a page, or "".
func newestOn[T Object](page runtime.Object) (newest string) {
	_ = meta.EachListItem(page, func(object runtime.Object) error { // the function returns no error
		if item, ok := object.(T); ok {
			newest = newer(newest, item.GetResourceVersion())
		}
		return nil
	})
	return newest
}

// newer returns the newer of two resourceVersions, or a if they cannot be
// compared.
func newer(a, b string) string {
	if versions.Older(a, b) {
		return b
	}
	return a
}

// atLeast returns the newest resourceVersion that a list without order has
// certainly reached. rv is the resourceVersion that the list names, and newest
// is the newest one of its objects. The list is at least as new as each of its
// objects, and as each state that the cache had before the request.
func (b *backlog[T]) atLeast(rv, newest string) string {
	rv = newer(newer(rv, newest), b.startRV)
	for object := range b.base.All() {
		if namespace := b.reflector.source.namespace; namespace == "" || namespace == bound.KeyOf(object).Namespace {
			rv = newer(rv, object.GetResourceVersion())
		}
	}
	return newer(rv, b.rv) // of the pages before
}

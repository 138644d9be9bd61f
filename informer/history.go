package informer

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/informer/internal/itemwise"
	"github.com/homeostat/homeostat/informer/internal/tree"
	"github.com/homeostat/homeostat/informer/internal/versions"
	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/internal/intern"
)

// history describes the writes of a server, as far as a cache shows them.
type history[T Object] struct {
	reflector *reflectorStore[T]
	cached    Snapshot[T]
	// cachedRV is the resourceVersion up to which the cache has every write.
	cachedRV string
	// contents is the number of objects whose contents may still be compared.
	contents int
}

func (r *reflectorStore[T]) historyOf(cached Snapshot[T], beforeRV string) *history[T] {
	return &history[T]{reflector: r, cached: cached, cachedRV: beforeRV}
}

// lacks reports whether item, an object on the server, cannot be part of the
// history. For example, item is older than the end of the history, but the
// cache does not have it or has a different state of it. The server then has
// another history, because it was restored or replaced by another server.
func (h *history[T]) lacks(item T) bool {
	listed, key := item.GetResourceVersion(), bound.KeyOf(item)
	if h.cachedRV == "" || listed == "" || versions.Older(h.cachedRV, listed) || !h.reflector.isOrdered() {
		return false
	}
	seenRV, uid, ok := h.reflector.newest(h.cached, key)
	if !ok || seenRV != listed || uid != item.GetUID() {
		return true
	}
	cached, ok := h.cached.Get(key)
	if !ok || h.contents == 0 || h.reflector.dropin != nil || intern.Alike(cached, item) {
		return false
	}
	h.contents--
	return hasOtherContent(cached, item)
}

// hasOtherContent reports whether two states of an object have the same
// resourceVersion but different contents, because the server was restored in
// between. It does not compare the types, because some answers leave them out.
func hasOtherContent[T Object](cached, listed T) bool {
	if cached.GetUID() != listed.GetUID() || cached.GetResourceVersion() != listed.GetResourceVersion() ||
		itemwise.RefusalOf(listed) != nil || intern.Alike(cached, listed) {
		return false
	}
	listed = listed.DeepCopyObject().(T)
	listed.GetObjectKind().SetGroupVersionKind(cached.GetObjectKind().GroupVersionKind())
	x, err := json.Marshal(cached)
	if err != nil {
		return false
	}
	y, err := json.Marshal(listed)
	return err == nil && !bytes.Equal(x, y)
}

// compare returns requests.ErrRestored if the server is older than the cache,
// or is known to have another history. It compares the first page of the
// server's objects with the cache. If there are more pages, it also compares
// the cached object that was changed last, because a restored server has lost
// the last changes. It returns the error of a request that fails.
func (r *reflectorStore[T]) compare(ctx context.Context) error {
	if !r.lists.Begin() {
		return context.Cause(ctx)
	}
	defer r.lists.End()
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	b := newBacklog(r, proofPage, nil)
	b.idle = true
	hasMore, err := b.addPage(ctx)
	if err != nil || !hasMore {
		return err
	}
	last, ok := b.lastChanged()
	if !ok {
		return nil
	}
	b = newBacklog(r, proofPage, &last)
	b.idle = true
	_, err = b.addPage(ctx)
	return err
}

// lastChanged returns the key of the cached object with the newest
// resourceVersion. It returns false if the cache has no object for which counts
// returns true.
func (b *backlog[T]) lastChanged() (key types.NamespacedName, ok bool) {
	r := b.reflector
	newest := ""
	for object := range b.base.All() {
		rv, k := object.GetResourceVersion(), bound.KeyOf(object)
		inSource := r.source.namespace == "" || r.source.namespace == k.Namespace
		if inSource && b.counts(k) && (newest == "" || versions.Older(newest, rv)) {
			newest, key = rv, k
		}
	}
	return key, newest != ""
}

// contradicts reports whether a list shows that the server's history differs
// from the history in the cache. seen is the resourceVersion that the cache has
// reached.
func (r *reflectorStore[T]) contradicts(items []*tree.Item[T], seen string) bool {
	if r.part != nil {
		return false // shards may have been added since
	}
	h := r.historyOf(r.sink.store.snapshot(), seen)
	h.contents = proofPage
	return slices.ContainsFunc(items, func(item *tree.Item[T]) bool { return h.lacks(item.Object) })
}

// isUnsure reports whether the server may have been restored.
func (r *reflectorStore[T]) isUnsure() bool {
	r.clockMu.Lock()
	defer r.clockMu.Unlock()
	return r.clock.unsure
}

package names

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
)

// A Target is a cache of objects and the queue of a controller that reconciles
// them.
type Target interface {
	// Sync returns nil once the cache holds its first list. A Target that can
	// make sure that the cache is no older than the call does so.
	Sync(ctx context.Context) error
	// Find returns the UID of the cached object of key; false if there is none.
	Find(key types.NamespacedName) (types.UID, bool)
	// Orphan enqueues the key behind live work. It must not block. If the
	// object was replaced, the turn sees it as gone, and the next one as new.
	Orphan(orphan Orphan)
}

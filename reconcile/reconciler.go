package reconcile

import (
	"context"

	"github.com/homeostat/homeostat/informer"
)

// A Reconciler keeps an invariant: it compares what is with what should be, and
// changes what differs.
//
// It is called for one key at a time per key, and for many keys at once. It
// must be idempotent: it runs again after every change of a watched object,
// after an error, after a restart, and sometimes for no reason at all.
//
// A returned error is retried with back-off, unless it is [Terminal]. A
// conflict (HTTP 409) of a cache that is behind is no failure at first: the
// reconcile is repeated soon, and becomes a failure if the conflict stays.
type Reconciler[T informer.Object] interface {
	Reconcile(ctx context.Context, request Request[T]) (Result, error)
}

// Func is a function that is a Reconciler.
type Func[T informer.Object] func(ctx context.Context, request Request[T]) (Result, error)

// Reconcile calls f.
func (f Func[T]) Reconcile(ctx context.Context, request Request[T]) (Result, error) {
	return f(ctx, request)
}

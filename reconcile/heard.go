package reconcile

import (
	"context"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/simhook"
)

// reportingReads returns r. In programs that package reconciletest runs, it
// returns a reconciler that also reports to which keys the object of each
// reconcile refers. With these reports reconciletest notices reads of other
// keys.
func reportingReads[T informer.Object](
	cache *informer.Informer[T], r Reconciler[T], references *referrers,
) Reconciler[T] {
	hooks := simhook.Current()
	if hooks == nil || hooks.Reads == nil {
		return r
	}
	return Func[T](func(ctx context.Context, req Request[T]) (Result, error) {
		n := &referredKeys{references: references, keys: map[namedKey]bool{}}
		if object, ok := req.Object(); ok {
			n.object = object
		}
		n.add()
		subject := cache.Kind() + " " + strings.TrimPrefix(req.Key.String(), "/")
		defer hooks.Reads.Begin(subject, n.refersTo)()
		return r.Reconcile(ctx, req)
	})
}

// referredKeys collects the keys to which the object of a reconcile refers. The
// functions of References are called again at each read, because the objects in
// a chain of references may change during the reconcile.
type referredKeys struct {
	references *referrers
	object     metav1.Object // nil if the object is not cached
	keys       map[namedKey]bool
	failed     bool // a function has panicked, so the references are not known
}

// namedKey is a key of a cache.
type namedKey struct{ cache, key any }

// refersTo reports whether the object refers to a key of a cache, or has done
// so since the reconcile began. The functions run in a goroutine of their own,
// so their reads are not judged.
func (n *referredKeys) refersTo(cache, key any) bool {
	n.add()
	return n.failed || n.keys[namedKey{cache, key}]
}

func (n *referredKeys) add() {
	if n.references == nil || n.object == nil {
		return
	}
	for _, f := range n.references.functions {
		keys, err := f.call(n.object)
		n.failed = n.failed || err != nil
		for _, key := range keys {
			n.keys[namedKey{f.referring.source().identity(), key}] = true
		}
	}
}

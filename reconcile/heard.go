package reconcile

import (
	"context"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/simhook"
)

// heard returns r. Under package reconciletest it returns a reconciler that
// reports to what the object of each reconcile refers, so that reads of other
// keys are noticed.
func heard[T informer.Object](in *informer.Informer[T], r Reconciler[T], references *referrers) Reconciler[T] {
	hooks := simhook.Current()
	if hooks == nil || hooks.Reads == nil {
		return r
	}
	return Func[T](func(ctx context.Context, req Request[T]) (Result, error) {
		n := &named{references: references, all: map[namedKey]bool{}}
		if object, ok := req.Object(); ok {
			n.object = object
		}
		n.add()
		what := in.Kind() + " " + strings.TrimPrefix(req.Key.String(), "/")
		defer hooks.Reads.Begin(what, n.has)()
		return r.Reconcile(ctx, req)
	})
}

// named is what the functions have said during a reconcile that its object
// refers to. What a chain leads to may change meanwhile, so they are asked at
// each read.
type named struct {
	references *referrers
	object     metav1.Object // nil if there is none
	all        map[namedKey]bool
	asking     bool
	failed     bool // a function has panicked, so nothing is known
}

// namedKey is a key of a cache.
type namedKey struct{ cache, key any }

// has reports whether the object refers to a key of a cache, or has done since the
// reconcile began. The reads of functions are judged by nobody.
func (n *named) has(cache, key any) bool {
	if n.asking {
		return true
	}
	n.add()
	return n.failed || n.all[namedKey{cache, key}]
}

func (n *named) add() {
	if n.references == nil || n.object == nil {
		return
	}
	n.asking = true
	defer func() { n.asking = false }()
	for _, f := range n.references.functions {
		keys, err := f.call(n.object)
		n.failed = n.failed || err != nil
		for _, key := range keys {
			n.all[namedKey{f.referring.source().identity(), key}] = true
		}
	}
}

package informer

import (
	"context"
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/internal/share"
	"github.com/homeostat/homeostat/internal/wire"
)

// Most updates of an object change its status and not its spec, which is the
// larger part and takes as long to decode. So the spec of an object is decoded
// only if its bytes are others than those of the state that the cache has. This
// needs the bytes of the watch, which the client must be passed by for.

// A stream opens a watch and returns the bytes that come.
type stream func(ctx context.Context, opts metav1.ListOptions) (io.ReadCloser, error)

// generated is where the typed clients of the built-in kinds are. What a program
// puts around one is somewhere else, and may do more than they do.
const generated = "k8s.io/client-go/kubernetes/typed/"

// streamOf returns how a client opens a watch, nil if it is not one of
// client-go's for a built-in kind. They keep what they ask for in fields of the
// same names as here. A client-go that calls them otherwise makes every spec
// be decoded, and a test fail.
func streamOf(client any) stream {
	v := reflect.ValueOf(client)
	c, ok := client.(interface {
		GetClient() rest.Interface
		GetNamespace() string
	})
	if !ok || v.Kind() != reflect.Pointer || !strings.HasPrefix(v.Type().Elem().PkgPath(), generated) {
		return nil
	}
	resource, protobuf := v.Elem().FieldByName("resource"), v.Elem().FieldByName("prefersProtobuf")
	if resource.Kind() != reflect.String || protobuf.Kind() != reflect.Bool {
		return nil
	}
	return func(ctx context.Context, opts metav1.ListOptions) (io.ReadCloser, error) {
		opts.Watch = true
		var timeout time.Duration
		if opts.TimeoutSeconds != nil {
			timeout = time.Duration(*opts.TimeoutSeconds) * time.Second
		}
		return c.GetClient().Get().
			UseProtobufAsDefaultIfPreferred(protobuf.Bool()).
			NamespaceIfScoped(c.GetNamespace(), c.GetNamespace() != "").
			Resource(resource.String()).
			SpecificallyVersionedParams(&opts, metav1.ParameterCodec, schema.GroupVersion{Version: "v1"}).
			Timeout(timeout).
			Throttle(nil). // as watches are not
			Stream(ctx)
	}
}

// open opens a watch.
func (r *reflection[T]) open(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	kind, ok := wire.KindOf(reflect.TypeFor[T]())
	o := &r.informer.options
	if !ok || r.source.stream == nil || o.NoSharing || o.Transform != nil { // which may edit a spec
		return r.source.watch(ctx, opts)
	}
	body, err := r.source.stream(ctx, opts)
	if err != nil {
		if net.IsProbableEOF(err) || net.IsTimeout(err) { // nothing to speak of, as client-go's watches do
			return watch.NewEmptyWatch(), nil
		}
		return nil, err
	}
	r.specs = &specs[T]{informer: r.informer, decoded: map[wire.Object]spec{}}
	reporter := apierrors.NewClientErrorReporter(http.StatusInternalServerError, http.MethodGet, "ClientWatchDecoding")
	return watch.NewStreamWatcherWithLogger(r.log, wire.NewDecoder(body, kind, r.specs), reporter), nil
}

// item returns object as it is stored.
func (r *reflection[T]) item(object T) *item[T] {
	it := itemOf(object)
	if it.spec = r.specs.take(object).sum; it.spec != 0 && share.Lazy(object) {
		it.spec = 0 // the next state must not have the same memory
	}
	return it
}

// unshared returns object, or a copy of it if its spec is the memory of a state
// that the cache has replaced since it was decoded: to share it with the new
// one would write to it, while others read.
func (r *reflection[T]) unshared(object T) T {
	s := r.specs.take(object)
	if it := r.informer.newest.get(keyOf(object)); s.of != nil && (it == nil || any(it.object) != any(s.of)) {
		object = object.DeepCopyObject().(T)
		s.of = nil
	}
	r.specs.put(object, s)
	return object
}

// A spec is where that of an object comes from, see wire.Cache.
type spec struct {
	sum wire.Fingerprint
	of  wire.Object
}

// specs are those of objects that one watch has decoded, until they are stored.
type specs[T Object] struct {
	informer *Informer[T]

	mu      sync.Mutex // guards what follows
	decoded map[wire.Object]spec
	grown   bool // by a list; a map keeps the room that it once took
}

// manySpecs is how many make a map grow that is not kept.
const manySpecs = 1000

// Known implements wire.Cache.
func (s *specs[T]) Known(o wire.Object) (wire.Object, wire.Fingerprint) {
	it := s.informer.newest.get(keyOf(o))
	if it == nil {
		return nil, 0
	}
	return any(it.object).(wire.Object), it.spec
}

// Decoded implements wire.Cache.
func (s *specs[T]) Decoded(o wire.Object, sum wire.Fingerprint, of wire.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.decoded[o] = spec{sum, of}
	s.grown = s.grown || len(s.decoded) > manySpecs
}

// put notes the spec of an object that has been taken.
func (s *specs[T]) put(object T, from spec) {
	if from.sum != 0 {
		s.Decoded(any(object).(wire.Object), from.sum, from.of)
	}
}

// take returns the spec of an object and forgets it: zero if it is not known.
func (s *specs[T]) take(object T) spec {
	o, ok := any(object).(wire.Object)
	if s == nil || !ok {
		return spec{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	from := s.decoded[o]
	delete(s.decoded, o)
	if s.grown && len(s.decoded) == 0 {
		s.decoded, s.grown = map[wire.Object]spec{}, false
	}
	return from
}

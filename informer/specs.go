package informer

import (
	"context"
	"fmt"
	"reflect"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/informer/internal/dropin"
	"github.com/homeostat/homeostat/informer/internal/partial"
	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/internal/wire"
)

// specReader opens the watches of a source. Most updates change the status of
// an object and not its spec. The spec is larger, and takes at least as long to
// decode. So package wire decodes the objects of client-go's watches without
// the specs that the cache already has.
type specReader[T Object] struct {
	source  source
	options *Options
	store   *store[T]
	part    partial.Cache[T] // nil if the cache is whole
	// transforms reports whether a shared informer transforms its objects.
	transforms bool

	// mu guards the fields below. Only the reflector's goroutine writes them.
	mu sync.Mutex
	// specs finds the specs that the current watch need not decode, because the
	// cache has them. If it is nil, the watch decodes all specs.
	specs  *wire.Specs
	reason string // why all specs are decoded, or empty
	// offer is the offer of the current streaming list. It is accepted when
	// the list is complete. It is nil for all other requests.
	offer *wire.Offer
}

// open opens a watch that does not decode known specs if that is possible, and
// otherwise the client's own watch.
func (s *specReader[T]) open(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	if client, ok := s.source.dropin.(*dropin.Client[T]); ok {
		return s.openOffered(ctx, opts, client)
	}
	specs, client, reason := s.connect()
	s.use(specs, reason)
	switch {
	case reason == "":
		return client.Watch(ctx, opts)
	case s.part != nil:
		return s.part.Watch(ctx, opts)
	default:
		return s.source.watch(ctx, opts)
	}
}

// openOffered opens a watch of a ListerWatcher, whose client is hidden. The
// watch does not decode known specs if the transport of that client finds the
// offer in the context, and the watch is client-go's own. The objects of a
// streaming list are whole: the cache has no specs yet, and marking the objects
// would cost time.
func (s *specReader[T]) openOffered(
	ctx context.Context, opts metav1.ListOptions, client *dropin.Client[T],
) (watch.Interface, error) {
	kind, ok := wire.KindOf(reflect.TypeOf(client.Example))
	switch {
	case s.transforms: // it may modify a spec
		s.use(nil, "the transform function")
		return s.source.watch(ctx, opts)
	case !ok:
		s.use(nil, fmt.Sprintf("%T is not a kind with a spec in protobuf", client.Example))
		return s.source.watch(ctx, opts)
	}
	specs := s.newSpecs(kind)
	s.use(specs, "")
	ctx, offer := wire.NewOffer(ctx, specs)
	w, err := s.source.watch(ctx, opts)
	switch {
	case err != nil:
	case offer.Examine(w) != nil:
	case opts.SendInitialEvents != nil && *opts.SendInitialEvents:
		s.mu.Lock()
		s.offer = offer
		s.mu.Unlock()
	default:
		offer.Accept()
	}
	return w, err
}

// listed begins the use of known specs after a streaming list.
func (s *specReader[T]) listed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.offer != nil {
		s.offer.Accept()
		s.offer = nil
	}
}

// use records the Specs of the next watch, or why it decodes all specs.
func (s *specReader[T]) use(specs *wire.Specs, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.specs, s.reason, s.offer = specs, reason, nil
}

// newSpecs returns the Specs of a watch. They find specs in the cache.
func (s *specReader[T]) newSpecs(kind wire.Kind) *wire.Specs {
	return wire.NewSpecs(kind, func(key types.NamespacedName) wire.State {
		if item := s.store.table.Get(key); item != nil && kind.Has(item.Object) {
			return wire.State{Object: any(item.Object).(wire.Object), Spec: item.Spec}
		}
		return wire.State{}
	})
}

// connect returns a client that is like the client of the source, but whose
// watches do not decode the specs that specs finds in the cache. If there can
// be no such client, connect returns only the reason.
func (s *specReader[T]) connect() (specs *wire.Specs, client *gentype.Client[T], reason string) {
	kind, ok := wire.KindOf(reflect.TypeFor[T]())
	switch {
	case s.options.NoSharing:
		return nil, nil, "Options.NoSharing"
	case s.options.Transform != nil: // it may modify a spec
		return nil, nil, "Options.Transform"
	case s.source.itemwise.IsOn():
		return nil, nil, "an object cannot be decoded"
	case !ok:
		return nil, nil, fmt.Sprintf("%s is not a kind with a spec in protobuf", reflect.TypeFor[T]())
	case s.source.rest == nil:
		return nil, nil, fmt.Sprintf("%s is not a client of client-go for a built-in kind", s.source.client)
	case s.source.resource.Resource == "":
		return nil, nil, fmt.Sprintf("%s does not show which resource it reads", s.source.client)
	}
	specs = s.newSpecs(kind)
	var keep wire.Keep
	if s.part != nil {
		keep = s.part.Keep()
	}
	restClient, reason := specs.Client(s.source.rest, keep)
	if reason != "" {
		return nil, nil, reason
	}
	return specs, clientOf[T](restClient, s.source.resource.Resource, s.source.namespace), ""
}

// clientOf returns a client like a generated client for a built-in kind, to
// open watches with.
func clientOf[T Object](c rest.Interface, resource, namespace string) *gentype.Client[T] {
	return gentype.NewClient[T](resource, c, metav1.ParameterCodec, namespace, nil, gentype.PrefersProtobuf[T]())
}

// fullDecode returns why unchanged specs are decoded, or the empty string if
// they are not.
func (s *specReader[T]) fullDecode() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.specs != nil {
		return s.specs.Reason()
	}
	return s.reason
}

// take returns the object that a placeholder stands for, and the fingerprint of
// its spec. It returns other objects unchanged.
//
// The spec may lie in memory of the object that was cached when the placeholder
// was made. Afterwards the store makes equal parts of the received and the
// cached object share memory. For this it writes to the received object, except
// to parts that the two share already. If the cache has a different object by
// now, the store would write to the spec of the former object, although other
// goroutines may be reading it. Therefore the received object gets the spec of
// the new object if the specs are equal, and is copied otherwise.
func (s *specReader[T]) take(received T) (object T, sum wire.Fingerprint, err error) {
	o, ok := any(received).(wire.Object)
	if !ok || s.specs == nil {
		return received, wire.Fingerprint{}, nil
	}
	taken, spec, err := s.specs.Take(o)
	if err != nil {
		return received, wire.Fingerprint{}, err
	}
	object = taken.(T)
	switch item := s.store.table.Get(bound.KeyOf(object)); {
	case spec.SharedWith == nil || item != nil && any(item.Object) == any(spec.SharedWith):
	case item != nil && item.Spec == spec.Fingerprint:
		s.specs.CopySpec(taken, any(item.Object).(wire.Object))
	default:
		object = object.DeepCopyObject().(T)
	}
	return object, spec.Fingerprint, nil
}

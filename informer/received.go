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
	"k8s.io/client-go/tools/cache"

	"github.com/homeostat/homeostat/informer/internal/partial"
	"github.com/homeostat/homeostat/informer/internal/tree"
	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/internal/intern"
	"github.com/homeostat/homeostat/internal/wire"
)

// specReader opens the watches of a source. Most updates change the status of
// an object and not its spec, which is larger and takes as long to decode. So
// package wire decodes the objects of client-go's watches without the specs
// that the cache already has.
type specReader[T Object] struct {
	source  source
	options *Options
	store   *store[T]
	part    partial.Cache[T] // nil if the cache is whole

	// mu guards the fields below, which the reflector's goroutine alone writes.
	mu sync.Mutex
	// specs contains the specs of the current watch. It is nil if all specs are
	// decoded.
	specs *wire.Specs
	why   string // why all specs are decoded, or empty
}

// open opens a watch that does not decode known specs if that is possible, and
// otherwise the client's own watch.
func (s *specReader[T]) open(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	specs, client, why := s.connect()
	s.mu.Lock()
	s.specs, s.why = specs, why
	s.mu.Unlock()
	switch {
	case why == "":
		return client.Watch(ctx, opts)
	case s.part != nil:
		return s.part.Watch(ctx, opts)
	default:
		return s.source.watch(ctx, opts)
	}
}

// connect returns a client like the source's whose watches do not decode known
// specs, or the reason why this is not possible.
func (s *specReader[T]) connect() (specs *wire.Specs, client *gentype.Client[T], why string) {
	kind, ok := wire.KindOf(reflect.TypeFor[T]())
	switch {
	case s.options.NoSharing:
		return nil, nil, "Options.NoSharing"
	case s.options.Transform != nil: // it may modify a spec
		return nil, nil, "Options.Transform"
	case s.source.itemwise.isOn():
		return nil, nil, "an object cannot be decoded"
	case !ok:
		return nil, nil, fmt.Sprintf("%s is not a kind with a spec in protobuf", reflect.TypeFor[T]())
	case s.source.rest == nil:
		return nil, nil, fmt.Sprintf("%s is not a client of client-go for a built-in kind", s.source.client)
	case s.source.resource.Resource == "":
		return nil, nil, fmt.Sprintf("%s does not show which resource it reads", s.source.client)
	}
	specs = wire.NewSpecs(kind, func(key types.NamespacedName) wire.State {
		if it := s.store.table.Get(key); it != nil {
			return wire.State{Object: any(it.Object).(wire.Object), Spec: it.Spec}
		}
		return wire.State{}
	})
	var keep wire.Keep
	if s.part != nil {
		keep = s.part.Keep()
	}
	through, why := specs.Through(s.source.rest, keep)
	if why != "" {
		return nil, nil, why
	}
	return specs, clientOf[T](through, s.source.resource.Resource, s.source.namespace), ""
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
		return s.specs.Why()
	}
	return s.why
}

// take returns the object that a placeholder stands for, and the fingerprint of
// its spec. It returns other objects unchanged.
//
// The spec may be memory of the object that was cached when the placeholder was
// made. Sharing writes to received objects, except to parts that they share
// with the cached object. So if the cache now has a different object, the
// received one gets that object's spec if it is equal, and is copied otherwise.
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
	switch it := s.store.table.Get(bound.KeyOf(object)); {
	case spec.SharedWith == nil || it != nil && any(it.Object) == any(spec.SharedWith):
	case it != nil && it.Spec == spec.Fingerprint:
		s.specs.CopySpec(taken, any(it.Object).(wire.Object))
	default:
		object = object.DeepCopyObject().(T)
	}
	return object, spec.Fingerprint, nil
}

// Transformer returns the function that the reflector calls for each received
// object of a streaming list.
func (r *reflectorStore[T]) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) {
		r.progress.received.Add(1)
		r.progress.markActive()
		it, err := r.prepare(obj)
		if err != nil {
			return nil, err
		}
		if it.Spec != (wire.Fingerprint{}) {
			r.streamed[it.Object] = it.Spec
		}
		return it.Object, nil
	}
}

// prepare returns an item for the store, whose object is transformed and shares
// equal parts with other objects.
func (r *reflectorStore[T]) prepare(obj any) (*tree.Item[T], error) {
	object, spec, err := r.typed(obj)
	if err != nil {
		return nil, err
	}
	it := itemOf(object)
	if whyStub(object) != nil {
		return it, nil
	}
	r.sink.store.share(object)
	if spec != (wire.Fingerprint{}) && !intern.Lazy(object) { // the next state must not have the same memory
		it.Spec = spec
	}
	return it, nil
}

// typed returns the transformed object, which no client shares, and the
// fingerprint of its spec if that is known.
func (r *reflectorStore[T]) typed(obj any) (object T, spec wire.Fingerprint, err error) {
	object, ok := obj.(T)
	if !ok {
		return object, spec, wrongType[T](obj)
	}
	if object, spec, err = r.specs.take(object); err != nil {
		return object, spec, err
	}
	if r.source.mayShare() {
		object = object.DeepCopyObject().(T)
	}
	object, err = r.transform(object)
	return object, spec, err
}

func wrongType[T Object](obj any) error {
	return fmt.Errorf("the server sent a %T, not a %s", obj, reflect.TypeFor[T]())
}

// transform applies the options to an object before its parts are shared, so
// that dropped parts use no memory. If Transform panics, it returns a stub.
func (r *reflectorStore[T]) transform(object T) (transformed T, err error) {
	if whyStub(object) != nil {
		return object, nil
	}
	if r.sink.options.DropManagedFields {
		object.SetManagedFields(nil)
	}
	if r.sink.options.Transform == nil && r.settings.Transform == nil {
		return object, nil
	}
	identity := identityOf(object)
	defer func() {
		if p := recover(); p != nil {
			why := panicked(causeTransform, "informer.Options.Transform", p)
			stub, ok := stubOf[T](identity, why)
			if transformed = stub; !ok {
				err = why
			}
		}
	}()
	if r.settings.Transform != nil {
		made, err := r.settings.Transform(object)
		if transformed, ok := made.(T); ok || err != nil {
			return transformed, err
		}
		return transformed, wrongType[T](made)
	}
	r.sink.options.Transform(object)
	return object, nil
}

// transformInPlace transforms an object of a list, and lets it share equal
// parts with other objects.
func (r *reflectorStore[T]) transformInPlace(object T) error {
	transformed, err := r.transform(object)
	if err != nil {
		return err
	}
	if any(transformed) != any(object) {
		reflect.ValueOf(object).Elem().Set(reflect.ValueOf(transformed).Elem())
		return nil
	}
	if whyStub(object) == nil {
		r.sink.store.share(object)
	}
	return nil
}

package informer

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/internal/wire"
)

// Most updates of an object change its status and not its spec, which is the
// larger part and takes as long to decode. So package wire decodes the objects of
// client-go's watch, but not the specs that the cache has.

// generated is where the typed clients of the built-in kinds are. What a program
// puts around one is somewhere else, and may do more than they do.
const generated = "k8s.io/client-go/kubernetes/typed/"

// generatedOf returns what a client sends its requests with: nil if it is not one
// of client-go's for a built-in kind.
func generatedOf(client any) rest.Interface {
	t := reflect.TypeOf(client)
	c, ok := client.(interface{ GetClient() rest.Interface })
	if !ok || t.Kind() != reflect.Pointer || !strings.HasPrefix(t.Elem().PkgPath(), generated) {
		return nil
	}
	return c.GetClient()
}

// open opens a watch: one whose known specs are not decoded if that is known to be
// safe, and otherwise the client's own.
func (r *reflection[T]) open(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	specs, client, why := r.sparing()
	r.read(specs, why)
	if why == "" {
		w, err := client.Watch(ctx, opts)
		r.misnamed = apierrors.IsNotFound(err) // in spite of what Kubernetes promises: the client knows
		return w, err
	}
	w, err := r.source.watch(ctx, opts)
	r.misnamed = r.misnamed && !apierrors.IsNotFound(err)
	return w, err
}

// sparing returns a client like the source's whose watches do not decode known
// specs, or says why there is none.
func (r *reflection[T]) sparing() (specs *wire.Specs, client *gentype.Client[T], why string) {
	kind, ok := wire.KindOf(reflect.TypeFor[T]())
	o := &r.informer.options
	switch {
	case o.NoSharing:
		return nil, nil, "Options.NoSharing"
	case o.Transform != nil: // which may edit a spec
		return nil, nil, "Options.Transform"
	case !ok:
		return nil, nil, fmt.Sprintf("%s is not a kind with a spec that comes in protobuf", reflect.TypeFor[T]())
	case r.source.rest == nil:
		return nil, nil, fmt.Sprintf("%s is not a client of client-go for a built-in kind", r.source.client)
	case r.misnamed:
		return nil, nil, "the server does not know " + r.resource().String()
	}
	specs = wire.NewSpecs(kind, func(key types.NamespacedName) wire.State {
		if it := r.informer.newest.get(key); it != nil {
			return wire.State{Object: any(it.object).(wire.Object), Spec: it.spec}
		}
		return wire.State{}
	})
	through, why := specs.Through(r.source.rest)
	if why != "" {
		return nil, nil, why
	}
	return specs, clientOf[T](through, r.resource().Resource, r.source.namespace), ""
}

// clientOf returns what a generated client of a built-in kind consists of.
func clientOf[T Object](c rest.Interface, resource, namespace string) *gentype.Client[T] {
	return gentype.NewClient(resource, c, metav1.ParameterCodec, namespace,
		func() T { return example[T]().(T) }, gentype.PrefersProtobuf[T]())
}

func (r *reflection[T]) resource() schema.GroupVersionResource {
	return namedAfter(reflect.TypeFor[T](), r.source.rest)
}

// namedAfter returns the resource of a built-in kind that c reads. Their names are
// part of the API and never change, and all of them follow from the kind: a test
// asks all generated clients.
func namedAfter(kind reflect.Type, c rest.Interface) schema.GroupVersionResource {
	plural, _ := meta.UnsafeGuessKindToResource(c.APIVersion().WithKind(kind.Elem().Name()))
	return plural
}

// read notes how the next watch is read: whole, and why, if there are no specs.
func (r *reflection[T]) read(specs *wire.Specs, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.specs, r.whole = specs, why
}

// fullDecode says why specs that have not changed are decoded: empty if they are not.
func (r *reflection[T]) fullDecode() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.specs != nil {
		return r.specs.Why()
	}
	return r.whole
}

// take returns the object that has come, if it is a placeholder for it that has,
// and the fingerprint of its spec.
//
// Its spec may be the memory of a state that readers have. Sharing writes to what
// comes, but not to what the state of the cache has in common with it: so if that
// is not the cache's any more, the object gets the spec of the state that is, if it
// is the same, and else is copied.
func (r *reflection[T]) take(came T) (object T, sum wire.Fingerprint, err error) {
	o, ok := any(came).(wire.Object)
	if !ok || r.specs == nil {
		return came, wire.Fingerprint{}, nil
	}
	taken, spec, err := r.specs.Take(o)
	if err != nil {
		return came, wire.Fingerprint{}, err
	}
	object = taken.(T)
	switch it := r.informer.newest.get(keyOf(object)); {
	case spec.Of == nil || it != nil && any(it.object) == any(spec.Of):
	case it != nil && it.spec == spec.Fingerprint:
		r.specs.CopySpec(taken, any(it.object).(wire.Object))
	default:
		object = object.DeepCopyObject().(T)
	}
	return object, spec.Fingerprint, nil
}

package controllerruntime

import (
	"context"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat/homeostat/informer"
)

// representation is the form in which objects of a kind are read.
type representation uint8

const (
	typed representation = iota
	dynamic
	metadataOnly
)

// representationOf returns the representation of an object or a list.
func representationOf(object runtime.Object) representation {
	switch object.(type) {
	case runtime.Unstructured:
		return dynamic
	case *metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList:
		return metadataOnly
	default:
		return typed
	}
}

// newList returns an empty list of a kind.
func newList(scheme *runtime.Scheme, kind schema.GroupVersionKind, form representation) (client.ObjectList, error) {
	kind.Kind += "List"
	switch form {
	case dynamic:
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		return list, nil
	case metadataOnly:
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind)
		return list, nil
	default:
		list, err := scheme.New(kind)
		if err != nil {
			return nil, err
		}
		return list.(client.ObjectList), nil //nolint:forcetypeassert // every list of a scheme is one
	}
}

// reader is the client that [informer.Referenced] uses for one kind in one
// namespace. Package informer reads the resource of the kind from the field
// named resource.
type reader struct {
	kind      *kind
	namespace string
	config    cache.Config
	resource  schema.GroupVersionResource
}

var _ informer.Client[informer.Object, runtime.Object] = (*reader)(nil)

// Scope returns the scope of the kind.
func (r *reader) Scope() meta.RESTScopeName { return r.kind.mapping.Scope.Name() }

// Get reads one object.
func (r *reader) Get(ctx context.Context, name string, o metav1.GetOptions) (informer.Object, error) {
	object := r.kind.newObject()
	key := client.ObjectKey{Namespace: r.namespace, Name: name}
	if err := r.kind.cache.live.Get(ctx, key, object, &client.GetOptions{Raw: &o}); err != nil {
		return nil, err
	}
	return r.prepare(object)
}

// List lists the objects that both o and the selectors of the config select.
func (r *reader) List(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	list, err := newList(r.kind.cache.options.Scheme, r.kind.gvk, r.kind.shape)
	if err != nil {
		return nil, err
	}
	if err := r.kind.cache.live.List(ctx, list, r.selecting(o)); err != nil {
		return nil, err
	}
	var items []runtime.Object
	err = meta.EachListItem(list, func(item runtime.Object) error {
		object, err := r.prepare(item)
		items = append(items, object)
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, meta.SetList(list, items)
}

// Watch watches the objects that both o and the selectors of the config select.
func (r *reader) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	list, err := newList(r.kind.cache.options.Scheme, r.kind.gvk, r.kind.shape)
	if err != nil {
		return nil, err
	}
	opened, err := r.kind.cache.live.Watch(ctx, list, r.selecting(o))
	if err != nil {
		return nil, err
	}
	if r.kind.shape != metadataOnly && r.config.Transform == nil {
		return opened, nil
	}
	prepared := &preparedWatch{source: opened, events: make(chan watch.Event), stopped: make(chan struct{})}
	prepared.stop = sync.OnceFunc(func() { close(prepared.stopped) })
	go prepared.run(r.prepare)
	return prepared, nil
}

// preparedWatch is a watch that changes its objects as reader.prepare does.
type preparedWatch struct {
	source  watch.Interface
	events  chan watch.Event
	stopped chan struct{}
	stop    func()
}

// ResultChan implements [watch.Interface].
func (w *preparedWatch) ResultChan() <-chan watch.Event { return w.events }

// Stop implements [watch.Interface].
func (w *preparedWatch) Stop() {
	w.stop()
	w.source.Stop()
}

// run passes on events until the watch ends or is stopped. An event whose
// object cannot be prepared becomes an error event.
func (w *preparedWatch) run(prepare func(runtime.Object) (informer.Object, error)) {
	defer close(w.events)
	for e := range w.source.ResultChan() {
		if e.Type != watch.Error && e.Type != watch.Bookmark {
			if object, err := prepare(e.Object); err != nil {
				e = watch.Event{Type: watch.Error, Object: &apierrors.NewInternalError(err).ErrStatus}
			} else {
				e.Object = object
			}
		}
		select {
		case w.events <- e:
		case <-w.stopped:
			return
		}
	}
}

// selecting returns o with the namespace of the reader and with the config's
// selectors added.
func (r *reader) selecting(o metav1.ListOptions) *client.ListOptions {
	options := &client.ListOptions{Namespace: r.namespace, Limit: o.Limit, Continue: o.Continue, Raw: &o}
	options.LabelSelector = r.config.LabelSelector
	if r.config.FieldSelector != nil {
		selected, err := fields.ParseSelector(o.FieldSelector)
		if err == nil {
			options.FieldSelector = fields.AndSelectors(slices.DeleteFunc(
				[]fields.Selector{r.config.FieldSelector, selected}, fields.Selector.Empty)...)
		}
	}
	return options
}

// prepare returns an object in the form in which it is cached, after the
// Transform of the config.
func (r *reader) prepare(object runtime.Object) (informer.Object, error) {
	if r.kind.shape == metadataOnly {
		object.GetObjectKind().SetGroupVersionKind(r.kind.gvk)
	}
	var prepared any = object
	if r.config.Transform != nil {
		var err error
		if prepared, err = r.config.Transform(object); err != nil {
			return nil, err
		}
	}
	return prepared.(informer.Object), nil //nolint:forcetypeassert // a Transform must return an object
}

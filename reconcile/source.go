package reconcile

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/answer"
	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/internal/clients"
	"github.com/homeostat/homeostat/internal/parts"
)

// source is an informer without its type parameter.
type source interface { //nolint:interfacebloat // it hides a type parameter, not an implementation
	// identity is equal for two sources of one informer.
	identity() any
	objectType() reflect.Type
	// Methods of [informer.Informer]:
	Name() string
	Kind() string
	Resource() schema.GroupResource
	WaitForSync(ctx context.Context) error
	WaitForLatest(ctx context.Context) error
	WaitForObject(ctx context.Context, key Key) error
	LastResourceVersion() string
	Status() informer.Status
	Parts() parts.Cache

	// matches reports whether w writes an object of the kind that the informer
	// watches, in a namespace that it watches or may watch.
	matches(w *write) bool
	// covers reports whether the object is in the informer's scope after w, and
	// whether that is known.
	covers(w *write) (covered, known bool)
	// cached returns the cached object of key, or nil.
	cached(key Key) metav1.Object
	// unreadable returns the UID of an object whose newest state cannot be
	// cached, and false for other keys.
	unreadable(key Key) (types.UID, bool)
	// keys returns the keys of all cached objects.
	keys() []Key
	// observe calls f after each event with the object before and after it,
	// either of which may be nil.
	observe(f func(oldObject, newObject metav1.Object)) (remove func())
}

// typed adapts an informer of T to the source interface.
type typed[T informer.Object] struct{ *informer.Informer[T] }

func (s typed[T]) identity() any { return s.Informer }

func (s typed[T]) objectType() reflect.Type { return reflect.TypeFor[T]() }

func (s typed[T]) matches(w *write) bool {
	if !isToKind[T](s, w) {
		return false
	}
	key := w.key()
	isCollection := key.Name == "" && w.resource.Resource != ""
	if isCollection && (key.Namespace == "" || s.Status().FieldSelector != "") || s.Parts().InScope(key) {
		return true
	}
	_, known := s.Parts().Reads(key.Namespace)
	return !known
}

// isOfKind reports whether obj, of any Go type, is of the informer's kind.
func (s typed[T]) isOfKind(obj metav1.Object) bool { return isOfKind[T](s, obj) }

// kindSource says which kind an informer watches.
type kindSource interface {
	Kind() string
	Resource() schema.GroupResource
}

// isToKind reports whether w writes an object of the kind that s, an informer
// of T, caches.
func isToKind[T informer.Object](s kindSource, w *write) bool {
	switch own := s.Resource(); {
	case w.resource.Resource == "":
		return isOfKind[T](s, w.object)
	case own.Resource != "":
		return own == w.resource
	default: // the kind is all that is known of a wrapped informer
		return clients.IsPlural(w.resource.Resource, s.Kind())
	}
}

// isOfKind reports whether obj, which may have any Go type, is of the kind that
// s, an informer of T, caches.
func isOfKind[T informer.Object](s kindSource, obj metav1.Object) bool {
	var kind schema.GroupVersionKind
	if object, ok := obj.(runtime.Object); ok {
		kind = object.GetObjectKind().GroupVersionKind()
	}
	_, isT := obj.(T)
	generic := isGeneric(reflect.TypeFor[T]())
	switch {
	case isT && (!generic || kind.Kind == ""):
		return true
	case !isT && !generic && !isGeneric(reflect.TypeOf(obj)):
		return false // two Go types are two kinds
	case kind.Kind == "":
		return kindOf(obj) == s.Kind()
	}
	own := s.Resource()
	return kind.Kind == s.Kind() && (own.Resource == "" || own.Group == kind.Group)
}

// isGeneric reports whether a Go type is used for many kinds.
func isGeneric(t reflect.Type) bool {
	return t.Implements(reflect.TypeFor[runtime.Unstructured]()) || t == reflect.TypeFor[*metav1.PartialObjectMetadata]()
}

// covers reports whether the object is in the informer's scope after w. known
// is false if that is not known, for example because the answer does not
// contain the labels that a selector needs. covers decodes an answer only if a
// field selector requires that, because the labels of most answers are decoded
// already.
func (s typed[T]) covers(w *write) (covered, known bool) {
	status := s.Status()
	if _, known := s.Parts().Reads(w.key().Namespace); !known && !status.Wrapped { // a wrapped informer can never tell
		return false, false
	}
	if status.LabelSelector == "" && status.FieldSelector == "" {
		return true, true
	}
	got, partial := w.object.(*answer.Object)
	switch {
	case !partial:
		return s.Matches(w.object)
	case got.Unlabelled:
		return false, false
	case status.FieldSelector == "":
		return s.Matches(got)
	}
	// Decode it without the Go type first, which may lack the field. Answers in
	// protobuf need the Go type.
	if u := (&unstructured.Unstructured{}); got.Into(u) == nil {
		return s.Matches(u)
	}
	whole := reflect.New(reflect.TypeFor[T]().Elem()).Interface()
	if got.Into(whole) != nil {
		return false, false
	}
	return s.Matches(whole.(T))
}

func (s typed[T]) cached(key Key) metav1.Object {
	if cached, ok := s.Get(key); ok {
		return cached
	}
	return nil
}

func (s typed[T]) unreadable(key Key) (types.UID, bool) {
	e, ok := errors.AsType[*informer.UnreadableError](s.Unreadable(key))
	if !ok {
		return "", false
	}
	return e.UID, true
}

func (s typed[T]) keys() []Key {
	cached := s.Snapshot()
	keys := make([]Key, 0, cached.Len())
	for object := range cached.All() {
		keys = append(keys, bound.KeyOf(object))
	}
	return keys
}

func (s typed[T]) observe(f func(oldObject, newObject metav1.Object)) (remove func()) {
	return s.Handle(observing[T](f))
}

// cachedBefore returns the object of w from a cache that has the object with
// another resourceVersion than w, usually because the cache has not seen w yet.
// It returns nil if there is no such cache.
func (informers sources) cachedBefore(w *write) metav1.Object {
	for _, s := range informers {
		if !s.matches(w) {
			continue
		}
		oldObject := s.cached(w.key())
		if oldObject != nil && oldObject.GetUID() == w.object.GetUID() &&
			oldObject.GetResourceVersion() != w.object.GetResourceVersion() {
			return oldObject
		}
	}
	return nil
}

// kindOfResource returns the kind of a resource that one of the informers
// watches, or "".
func (informers sources) kindOfResource(resource schema.GroupResource) string {
	for _, s := range informers {
		if s.Resource() == resource {
			return s.Kind()
		}
	}
	return ""
}

// sources are the informers of a controller.
type sources []source

// indexOf returns the index of an informer, or -1 if the controller does not
// use it.
func (informers sources) indexOf(s source) int {
	return slices.IndexFunc(informers, func(candidate source) bool { return candidate.identity() == s.identity() })
}

func isNil(s source) bool { return reflect.ValueOf(s.identity()).IsNil() }

// waitForLatest waits until all caches are as new as the server was at the
// call. It leaves out the namespaces in apart, unless a cache needs all of its
// namespaces.
func (informers sources) waitForLatest(ctx context.Context, apart map[string]bool) error {
	errs := make([]error, len(informers))
	var waiting sync.WaitGroup
	for i, s := range informers {
		waiting.Go(func() {
			wait := s.WaitForLatest
			if s.Parts().Independent() && len(apart) > 0 {
				wait = func(ctx context.Context) error { return s.Parts().WaitForLatestElsewhere(ctx, apart) }
			}
			if err := wait(ctx); err != nil {
				errs[i] = fmt.Errorf("updating the informer of %s: %w", s.Name(), err)
			}
		})
	}
	waiting.Wait()
	return errors.Join(errs...)
}

// renewReferences makes all references unknown until their caches are as new as
// the server is now.
func (informers sources) renewReferences() {
	for _, s := range informers {
		if r := referencesOf(s); r != nil {
			r.Renew()
		}
	}
}

package informer

import (
	"cmp"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/homeostat/homeostat/informer/internal/itemwise"
	"github.com/homeostat/homeostat/informer/internal/tree"
	"github.com/homeostat/homeostat/informer/internal/versions"
	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/internal/rvorder"
	"github.com/homeostat/homeostat/internal/suspect"
)

// admits returns an error if obj must not be stored, because the API server
// cannot have sent it for this source. For example, a proxy may have answered a
// request for another namespace or kind. It also returns an error if obj shows
// that the kind has another scope than the program declares.
func (r *reflectorStore[T]) admits(obj any) error {
	object, ok := obj.(T)
	if !ok {
		return wrongType[T](obj)
	}
	if r.source.isSimulated() {
		return nil
	}
	switch key := bound.KeyOf(object); {
	case key.Name == "":
		return suspect.Answerf("the answer has an object without a name")
	case r.source.scope == meta.RESTScopeNameRoot && key.Namespace != "":
		return fmt.Errorf("kind %s is namespaced on the server, as in %q, but this program declares it cluster-scoped: "+
			"replace the CustomResourceDefinition, or correct the scope that the program declares", r.sink.identity.Kind(), key)
	case r.source.scope == meta.RESTScopeNameNamespace && key.Namespace == "":
		return fmt.Errorf("kind %s is cluster-scoped on the server, as in %q, but this program declares it namespaced: "+
			"replace the CustomResourceDefinition, or correct the scope that the program declares",
			r.sink.identity.Kind(), key.Name)
	case key.Namespace == "" && r.namespaced:
		return suspect.Answerf("the answer has the object %q without a namespace", key.Name)
	case r.source.namespace != "" && key.Namespace != "" && key.Namespace != r.source.namespace:
		return suspect.Answerf("the answer has an object of namespace %q, not %q",
			key.Namespace, r.source.namespace)
	}
	if kind := kindOf(object); kind != "" && r.kind != "" && kind != r.kind {
		return suspect.Answerf("the answer has an object of kind %q, not %q", kind, r.kind)
	}
	if u, ok := obj.(*unstructured.Unstructured); ok && r.source.resource.Version != "" {
		if got, want := u.GetAPIVersion(), r.source.resource.GroupVersion().String(); got != "" && got != want {
			return suspect.Answerf("the answer has an object of version %q, not %q", got, want)
		}
	}
	return nil
}

// isTable reports whether object is a Table. A server sends Tables to clients
// that print objects. client-go's reflector skips a Table, and would miss the
// change that the Table reports.
func isTable(object Object) bool {
	kind := object.GetObjectKind().GroupVersionKind()
	return kind.Kind == "Table" && kind.Group == metav1.GroupName
}

// isInNamespace reports whether an object of a list has a namespace.
func isInNamespace(obj any) bool {
	object, ok := obj.(metav1.Object)
	return ok && object.GetNamespace() != ""
}

// selected returns an error if the label selector does not select an object
// that the server has sent. For example, a gateway may have dropped the query
// of the request. Call it before the object is transformed.
func (r *reflectorStore[T]) selected(object T) error {
	if r.sink.options.LabelSelector == "" || r.source.isSimulated() ||
		itemwise.RefusalOf(itemwise.WithoutFault(object)) != nil { // its labels may not be known
		return nil
	}
	if r.sink.selector.Matches(labels.Set(object.GetLabels())) {
		return nil
	}
	return suspect.Answerf("the answer has the object %q, which the label selector %q does not select",
		bound.KeyOf(object), r.sink.options.LabelSelector)
}

// distinct sorts the items of a list, and returns the newest state of each
// object. The API server lists an object once, but a gateway may have joined
// pages of different moments. distinct returns an error if it is not known
// which of two states of an object is newer.
func (r *reflectorStore[T]) distinct(items []*tree.Item[T]) ([]*tree.Item[T], error) {
	tree.Sort(items)
	kept := items[:0]
	for _, item := range items {
		last := len(kept) - 1
		if last < 0 || kept[last].Key != item.Key {
			kept = append(kept, item)
			continue
		}
		keptRV, listedRV := kept[last].Object.GetResourceVersion(), item.Object.GetResourceVersion()
		switch {
		case versions.Older(listedRV, keptRV):
		case versions.Older(keptRV, listedRV), r.source.isSimulated(), !matters(tree.Change[T]{Old: kept[last], New: item}):
			kept[last] = item
		default:
			return nil, suspect.Answerf("the list has %q twice, with the resourceVersions %q and %q", item.Key, keptRV, listedRV)
		}
	}
	return kept, nil
}

// follows returns an error if an event of a watch about object cannot follow
// the events before it. For example, the cache may have an object with the same
// name and another UID, although a watch of the API server would first have
// reported the deletion of that object. An event without a UID or
// resourceVersion is an error, too, if the cached object has one. For an object
// that is not cached, follows returns nil. It also returns nil for a cache of
// shards, because such a cache may be ahead of its watch.
func (r *reflectorStore[T]) follows(object T) error {
	item := r.sink.store.table.Get(bound.KeyOf(object))
	if item == nil || r.part != nil || r.source.isSimulated() {
		return nil
	}
	cached, uid := item.Object.GetUID(), object.GetUID()
	switch {
	case cached != "" && uid == "", item.Object.GetResourceVersion() != "" && object.GetResourceVersion() == "":
		return suspect.Answerf("the watch reports a change of %q without its UID or resourceVersion", item.Key)
	case cached != "" && cached != uid:
		return suspect.Answerf("the watch reports a change of %q with UID %q, but the cached object has UID %q",
			item.Key, uid, cached)
	default:
		return nil
	}
}

// deletes returns an error if the API server cannot have reported the deletion
// of object on this watch. It makes the checks of the method follows. It also
// checks that the deletion is not older than the cached state, and that the
// object is of the right kind.
func (r *reflectorStore[T]) deletes(object T) error {
	if refusal := itemwise.RefusalOf(object); refusal != nil && refusal.Cause == itemwise.CauseKind {
		return refusal.Err
	}
	if err := r.follows(object); err != nil {
		return err
	}
	item := r.sink.store.table.Get(bound.KeyOf(object))
	if item == nil || r.part != nil || !r.comparable() ||
		!versions.Older(object.GetResourceVersion(), item.Object.GetResourceVersion()) {
		return nil
	}
	return suspect.Answerf("the watch reports that %q was deleted at the resourceVersion %s, but the cached object has %s",
		item.Key, object.GetResourceVersion(), item.Object.GetResourceVersion())
}

// misleads returns a function that reports whether the API server cannot have
// sent an event. Examples are a wrong bookmark, a Table or another Go type
// instead of an object, and an event of a streaming list that is older than the
// one before it. The caller ends the watch before such an event. kind is the
// kind of untyped objects, or "" if it is not known. misleads returns nil if
// the events do not come from an API server.
//
// client-go's reflector makes no such checks. It believes any bookmark, even
// one that claims to end a streaming list. It skips Tables in every watch, and
// objects of another type in a streaming list. Of several events about an
// object in a streaming list, it keeps the last one, even if that is the
// oldest.
func (r *reflectorStore[T]) misleads(kind string, isStreaming bool) func(watch.Event) bool {
	if r.source.isSimulated() {
		return nil
	}
	var received streamed
	if isStreaming {
		received = streamed{}
	}
	return func(e watch.Event) bool {
		var err error
		switch object, ok := e.Object.(T); {
		case e.Type == watch.Bookmark:
			err = r.bookmarkFault(e.Object, kind)
			if ok && object.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true" {
				received = nil // the cache has the states from now on
			}
		case e.Type == watch.Error:
			r.progress.reported(apierrors.FromObject(e.Object))
		case ok && isTable(object):
			err = suspect.Answerf("the watch has a Table instead of an object")
		case !ok && r.dropin == nil: // a shared informer skips it, as in client-go
			err = wrongType[T](e.Object)
		case ok && received != nil:
			err = received.follow(e.Type, object)
		}
		if err != nil {
			r.progress.failed(r.ctx, err)
			r.mustListBecause(err)
		}
		return err != nil
	}
}

// streamed contains the last state of each object in a streaming list.
type streamed map[types.NamespacedName]streamedState

type streamedState struct {
	uid             types.UID // empty after a deletion
	resourceVersion string
}

// follow records an event of a streaming list. It returns an error if the event
// is older than the one before it about the same object, or if it is about a
// different object with the same name and the deletion of the first is missing.
func (s streamed) follow(event watch.EventType, object Object) error {
	key := bound.KeyOf(object)
	last := s[key]
	next := streamedState{uid: object.GetUID(), resourceVersion: object.GetResourceVersion()}
	switch {
	case versions.Older(next.resourceVersion, last.resourceVersion):
		return suspect.Answerf("the streaming list has %q at the resourceVersion %s, after %s",
			key, next.resourceVersion, last.resourceVersion)
	case last.uid != "" && next.uid != last.uid:
		return suspect.Answerf("the streaming list has %q with UID %q, after %q without its deletion",
			key, next.uid, last.uid)
	}
	if event == watch.Deleted {
		next.uid = ""
	}
	s[key] = next
	return nil
}

func (r *reflectorStore[T]) bookmarkFault(obj any, kind string) error {
	object, ok := obj.(T)
	if !ok {
		return wrongType[T](obj)
	}
	if refusal := itemwise.RefusalOf(object); refusal != nil {
		return refusal.Err
	}
	if got := kindOf(object); got != "" && kind != "" && got != kind {
		return suspect.Answerf("the watch has a bookmark of kind %q, not %q", got, kind)
	}
	return r.versionFault(object.GetResourceVersion())
}

// versionFault returns an error if a list or a bookmark of the API server
// cannot have the resourceVersion rv. rv must not be empty or "0", and must be
// a number if the earlier resourceVersions were numbers. It is not checked if
// the answers do not come from an API server.
func (r *reflectorStore[T]) versionFault(rv string) error {
	if !r.comparable() {
		return nil
	}
	seen := r.sink.marks.Of(r.source.namespace)
	if missing := rv == "" || rv == "0"; missing || rvorder.Comparable(seen) && !rvorder.Comparable(rv) {
		fault := suspect.Answerf("the answer has the resourceVersion %q, after %q", rv, seen)
		if missing {
			fault = cmp.Or(r.unversioned(), fault)
		}
		return fault
	}
	return nil
}

// unversioned returns an error that says that objects without a resourceVersion
// cannot be cached. It returns nil if the watch has already reached a
// resourceVersion, because the server then has resourceVersions. For example,
// an aggregated API server that keeps its objects in memory may have none.
func (r *reflectorStore[T]) unversioned() error {
	if r.sink.marks.Of(r.source.namespace) != "" {
		return nil
	}
	return fmt.Errorf("%s were listed without a resourceVersion, so no informer can watch or cache them: "+
		"read them from the server when you need them, for example with names.Live",
		cmp.Or(r.source.resource.GroupResource().String(), r.sink.identity.Kind(), reflect.TypeFor[T]().String()))
}

// kindOf returns the kind of an unstructured object. For an object of any other
// Go type it returns the empty string, because the kind of such an object need
// not be checked.
func kindOf(object any) string {
	if u, ok := object.(*unstructured.Unstructured); ok {
		return u.GetKind()
	}
	return ""
}

package reconcile

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/informer"
)

// Owned looks at the controller owner (metav1.GetControllerOf) of every object
// of in that changes, if the owner is of the controller's kind and API group.
// [New] must know whether that kind has a namespace: see informer.Options.Scope.
//
// The owner's UID is not compared: when a child of a deleted owner goes, a
// recreated owner may have been waiting for the name.
func Owned[O informer.Object](in *informer.Informer[O]) Trigger {
	return owned[O]{in}
}

type owned[O informer.Object] struct{ in *informer.Informer[O] }

func (t owned[O]) source() source      { return typed[O]{t.in} }
func (t owned[O]) triggerType() string { return "owned" }

func (t owned[O]) attach(c *Controller) (binding, error) {
	feed := feedOf(t.in)
	return binding{detach: t.in.Handle(func(e informer.Event[O]) {
		addition := feed.addition(e)
		for _, key := range ownersOf(c.owners, e) {
			c.queue.AddWithOptions(key, addition)
		}
	})}, nil
}

// owners are what the objects of a controller look like in owner references.
type owners struct {
	kind, group string
	anyGroup    bool // the group is unknown
	namespaced  bool
}

// ownersFor returns what owner references to the objects of in look like.
//
// Errors: its kind or its scope is unknown, or is not what the client reads.
func ownersFor(in source) (owners, error) {
	mapping, err := in.Mapping()
	if err != nil {
		return owners{}, fmt.Errorf("%w: correct it, or use Mapped instead of Owned", err)
	}
	var errs []error
	if mapping.GroupVersionKind.Kind == "" {
		errs = append(errs, errors.New("Owned needs the kind of the controller's own objects: set informer.Options.Kind"))
	}
	if mapping.Scope == nil {
		errs = append(errs, errors.New("Owned needs to know whether the controller's own objects have a namespace: "+
			"make their informer with informer.ForNamespaces, or set informer.Options.Scope"))
	}
	if err := errors.Join(errs...); err != nil {
		return owners{}, err
	}
	return owners{
		kind: mapping.GroupVersionKind.Kind, group: mapping.GroupVersionKind.Group,
		anyGroup:   mapping.GroupVersionKind.Version == "",
		namespaced: mapping.Scope.Name() == meta.RESTScopeNameNamespace,
	}, nil
}

// keyOf returns the key of the controller owner of child, if it is one of o.
func (o owners) keyOf(child metav1.Object) (Key, bool) {
	owner := metav1.GetControllerOfNoCopy(child)
	if owner == nil || owner.Kind != o.kind {
		return Key{}, false
	}
	group, _, found := strings.Cut(owner.APIVersion, "/")
	if !found {
		group = "" // "v1" is a version of the core group
	}
	if group != o.group && !o.anyGroup {
		return Key{}, false
	}
	if !o.namespaced {
		return Key{Name: owner.Name}, true
	}
	// A namespaced owner of a cluster-scoped child is none: garbage collection removes such children.
	return Key{Namespace: child.GetNamespace(), Name: owner.Name}, child.GetNamespace() != ""
}

// ownersOf returns the keys of the owners before and after an event: one,
// unless a child was handed over.
func ownersOf[O informer.Object](o owners, e informer.Event[O]) []Key {
	var keys []Key
	for _, child := range objectsOf(e) {
		if key, ok := o.keyOf(child); ok && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys
}

package reconcile

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/informer"
)

// A Trigger tells for which keys a turn is due when an object of another
// informer changes. What a controller writes, it must watch: give it a Trigger
// for every kind that it creates or edits, or nobody repairs what somebody
// else breaks. Triggers are made by [Owned] and [Mapped].
type Trigger interface {
	source() source
	// sort is "owned" or "mapped".
	sort() string
	// attach starts feeding c and returns what serves the trigger until the
	// controller stops; detach ends the feed.
	attach(c *Controller) (binding, error)
}

// Owned looks at the controller owner (metav1.GetControllerOf) of every object
// of in that changes, if the owner is of the controller's kind.
//
// The owner's UID is not compared: when a child of a deleted owner goes, its
// namesake may have been waiting for the name.
func Owned[O informer.Object](in *informer.Informer[O]) Trigger {
	return owned[O]{in}
}

type owned[O informer.Object] struct{ in *informer.Informer[O] }

func (t owned[O]) source() source { return typed[O]{t.in} }
func (t owned[O]) sort() string   { return "owned" }

func (t owned[O]) attach(c *Controller) (binding, error) {
	feed := feedOf(t.in)
	return binding{detach: t.in.Handle(func(e informer.Event[O]) {
		addition := feed.addition(e)
		for _, key := range ownersOf(c, e) {
			c.queue.AddWith(key, addition)
		}
	})}, nil
}

// ownersOf returns the keys of the owners before and after an event: one,
// unless a child was handed over.
func ownersOf[O informer.Object](c *Controller, e informer.Event[O]) []Key {
	var keys []Key
	for _, child := range objectsOf(e) {
		owner := metav1.GetControllerOfNoCopy(child)
		if owner == nil || owner.Kind != c.kind {
			continue
		}
		key := Key{Namespace: child.GetNamespace(), Name: owner.Name}
		if clusterScoped := (Key{Name: owner.Name}); c.sources[0].has(clusterScoped) {
			key = clusterScoped
		}
		if !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys
}

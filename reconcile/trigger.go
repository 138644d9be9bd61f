package reconcile

import (
	"context"
	"maps"
	"reflect"
	"slices"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/internal/intern"
	"github.com/homeostat/homeostat/queue"
)

// Trigger maps changes of another informer's objects, or of the outside world,
// to keys to reconcile. Make one with [Owned], [Mapped], [References] or
// [External].
//
// Give a controller a Trigger for every kind that it creates or edits.
// Otherwise it does not notice other clients' changes there, and does not read
// its own writes. One Trigger may serve several controllers.
type Trigger interface {
	source() source // nil for an external trigger
	// triggerType is "owned", "mapped", "references" or "external".
	triggerType() string
	// attach starts enqueuing keys of c.
	attach(c *intake) binding
}

// binding connects a trigger with a running controller.
type binding struct {
	detach func()                // removes the handlers that attach added
	run    func(context.Context) // nil, or the function that feeds the queue
}

// Owned returns a trigger that reconciles the owner of every object of cache
// that changes, if the owner is of the controller's kind and API group. The
// owner is the object's controller (metav1.GetControllerOf) or, without one,
// the owner in the labels of children.Options.ByLabel. [New] must know whether
// that kind has a namespace; see informer.Options.Scope.
//
// The owner's UID is not compared: when a child of a deleted owner is deleted,
// a recreated owner may have been waiting for the name. If a change moves an
// object to another owner, both owners are reconciled. An owner that does not
// exist is reconciled, too, so that the objects that name it in their labels
// can be deleted.
func Owned[O informer.Object](cache *informer.Informer[O]) Trigger {
	return owned[O]{cache}
}

type owned[O informer.Object] struct{ cache *informer.Informer[O] }

func (t owned[O]) source() source { return typed[O]{t.cache} }

func (t owned[O]) triggerType() string { return "owned" }

// attach enqueues the owners in the goroutine of the watch, and never blocks
// it.
func (t owned[O]) attach(c *intake) binding {
	feed, source := feedOf(t.cache), c.sources.indexOf(typed[O]{t.cache})
	return binding{detach: t.cache.Handle(func(e informer.Event[O]) {
		addition, changed := feed.addition(e), changeOf(source, e)
		for _, key := range ownersOf(c.owners, e) {
			c.loops.add(key, &changed, addition)
		}
	})}
}

// ownersOf returns the keys of the owners before and after an event. There are
// two if the owner has changed.
func ownersOf[O informer.Object](o owners, e informer.Event[O]) []Key {
	var keys []Key
	if e.Type != informer.Added {
		if key, ok := o.keyOf(e.Old); ok {
			keys = append(keys, key)
		}
	}
	if e.Type != informer.Deleted {
		if key, ok := o.keyOf(e.New); ok && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// feed turns the events of one informer into additions to a queue. It caches
// the values that are the same for all events. Calls of its methods must not
// overlap.
type feed[O informer.Object] struct {
	cache interface {
		Name() string
		Kind() string
	}
	name    string // the name of the informer; empty until its kind is known
	compare []int  // the result of comparedFields
}

func feedOf[O informer.Object](cache *informer.Informer[O]) *feed[O] {
	return &feed[O]{cache: cache, compare: comparedFields(reflect.TypeFor[O]())}
}

// attachPrimary enqueues the key of each object of cache that changes or
// becomes unreadable, until detach is called. The controller of c reconciles
// these objects. Before attachPrimary enqueues the key of a deleted object, it
// passes the key to deleted, unless the object has only moved to a shard of
// another replica.
func attachPrimary[T informer.Object](c *intake, cache *informer.Informer[T], deleted func(Key)) (detach func()) {
	feed := feedOf(cache)
	removeHandler := cache.Handle(func(e informer.Event[T]) {
		key := bound.KeyOf(objectOf(e))
		if e.Type == informer.Deleted && cache.Parts().InScope(key) { // objects of a shard that moves away get the same event
			deleted(key)
		}
		c.references.update(key)
		changed := changeOf(0, e)
		c.loops.add(key, &changed, feed.addition(e))
	})
	removeUnreadable := cache.Parts().HandleUnreadable(func(key Key) { c.enqueueOf(key, cache.Name(), "unreadable") })
	return func() {
		removeHandler()
		removeUnreadable()
	}
}

// addition returns how an event enters the queue. Objects of the first list
// wait behind changes, and only some changes reset the back-off.
func (f *feed[O]) addition(e informer.Event[O]) queue.AddOptions {
	name := f.name
	if name == "" {
		if name = f.cache.Name(); f.cache.Kind() != "" {
			f.name = name
		}
	}
	addition := queue.AddOptions{Lane: queue.Normal, Cause: causeOf(name, e), ResetBackoff: f.resetsBackoff(e)}
	if e.Initial {
		addition.Lane = queue.Background
	}
	return addition
}

// causeOf returns the cause that logs and histories show for an event.
func causeOf[O informer.Object](trigger string, e informer.Event[O]) queue.Cause {
	cause := queue.Cause{Trigger: trigger, Type: e.Type.String()}
	if e.Type != informer.Added {
		cause.Namespace, cause.Name = e.Old.GetNamespace(), e.Old.GetName()
		cause.OldVersion = e.Old.GetResourceVersion()
	}
	if e.Type != informer.Deleted {
		cause.Namespace, cause.Name = e.New.GetNamespace(), e.New.GetName()
		cause.NewVersion = e.New.GetResourceVersion()
	}
	return cause
}

// objectOf returns the object after the event, or before its deletion.
func objectOf[O informer.Object](e informer.Event[O]) O {
	if e.Type == informer.Deleted {
		return e.Old
	}
	return e.New
}

// resetsBackoff reports whether the event changes a field that a failed
// reconcile may have depended on. The status is not such a field: a controller
// that reports its failure there would reset its own back-off.
func (f *feed[O]) resetsBackoff(e informer.Event[O]) bool {
	if e.Initial {
		return false
	}
	if e.Type != informer.Updated {
		return true
	}
	oldObject, newObject := e.Old, e.New
	switch {
	case oldObject.GetUID() != newObject.GetUID(),
		oldObject.GetGeneration() != newObject.GetGeneration(),
		(oldObject.GetDeletionTimestamp() == nil) != (newObject.GetDeletionTimestamp() == nil),
		!maps.Equal(oldObject.GetLabels(), newObject.GetLabels()),
		!maps.Equal(oldObject.GetAnnotations(), newObject.GetAnnotations()):
		return true
	case newObject.GetGeneration() != 0:
		return false
	default:
		return !onlyStatusDiffers(oldObject, newObject, f.compare)
	}
}

// comparedFields returns the struct fields that reset a key's back-off when
// they change: all but metadata and status. They matter for kinds without a
// generation, such as Node and Service. For a kind without a status it returns
// nil.
func comparedFields(t reflect.Type) (fields []int) {
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return nil
	}
	if _, ok := t.Elem().FieldByName("Status"); !ok {
		return nil
	}
	fields = []int{}
	for f := range t.Elem().Fields() {
		switch f.Name {
		case "TypeMeta", "ObjectMeta", "Status":
		default:
			fields = append(fields, f.Index[0])
		}
	}
	return fields
}

// onlyStatusDiffers reports whether the fields to compare are equal in both
// objects. It returns false if compare is nil, because the kind then has no
// status.
func onlyStatusDiffers(oldObject, newObject any, compare []int) bool {
	if compare == nil {
		return false
	}
	a, b := reflect.ValueOf(oldObject).Elem(), reflect.ValueOf(newObject).Elem()
	return !slices.ContainsFunc(compare, func(i int) bool {
		x, y := a.Field(i).Addr().Interface(), b.Field(i).Addr().Interface()
		return !intern.Alike(x, y)
	})
}

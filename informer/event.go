package informer

// EventType says what happened to an [Event]'s object.
type EventType uint8

const (
	// Added means that the object was not cached before. Old is nil.
	Added EventType = iota + 1
	// Updated means that the object has changed.
	Updated
	// Deleted means that the object was deleted, or no longer matches the
	// informer's selectors. New is nil; Old is its last known state.
	Deleted
)

// String returns "added", "updated" or "deleted".
func (t EventType) String() string {
	names := [...]string{"unknown", "added", "updated", "deleted"}
	if int(t) >= len(names) {
		return names[0]
	}
	return names[t]
}

// Event tells a handler that an object has changed. Both objects are shared with
// every reader of the cache; do not modify them. They may be retained, which keeps
// them in memory.
//
// Old and New of one event are always the same object, by UID: a recreated
// object is first Deleted and then Added, even if both happened while the watch
// was down.
type Event[T Object] struct {
	Old, New T
	Type     EventType
	// Initial is true for an object that existed before the handler could see it: it
	// came with the first list, or was already cached when the handler was added.
	Initial bool
}

// events appends the events of a change that matters: two for a recreated object.
func (c change[T]) events(to []Event[T]) []Event[T] {
	switch {
	case c.old == nil:
		return append(to, Event[T]{New: c.it.object, Type: Added})
	case c.it == nil:
		return append(to, Event[T]{Old: c.old.object, Type: Deleted})
	case c.old.object.GetUID() != c.it.object.GetUID():
		return append(to, Event[T]{Old: c.old.object, Type: Deleted}, Event[T]{New: c.it.object, Type: Added})
	default:
		return append(to, Event[T]{Old: c.old.object, New: c.it.object, Type: Updated})
	}
}

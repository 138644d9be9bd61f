package informer

// Type says what happened to the object of an [Event].
type Type uint8

const (
	// Added means that the object was not cached before. Old is nil.
	Added Type = iota + 1
	// Updated means that the object has changed.
	Updated
	// Deleted means that the object was deleted, or no longer matches the
	// informer's selectors. New is nil; Old is its last known state.
	Deleted
)

// String returns "added", "updated" or "deleted".
func (t Type) String() string {
	switch t {
	case Added:
		return "added"
	case Updated:
		return "updated"
	case Deleted:
		return "deleted"
	default:
		return "unknown"
	}
}

// Event tells a handler that an object has changed. Both objects are shared with
// every reader of the cache; do not modify them.
//
// Old and New of one event are always the same object, by UID: a recreated
// object is first Deleted and then Added, even if both happened while the watch
// was down.
type Event[T Object] struct {
	Old, New T
	Type     Type
	// Initial is true for an object that existed before the handler could see it:
	// it came with the first list, or was cached when the handler was added.
	Initial bool
}

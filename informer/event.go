package informer

// A Change says what an Event is about.
type Change uint8

const (
	// Added means that the object was not known before. Old is nil.
	Added Change = iota + 1
	// Updated means that the object has another content than before.
	Updated
	// Deleted means that the object is gone, or no longer matches the
	// informer's selectors. New is nil, Old its last known state.
	Deleted
)

// String returns added, updated or deleted.
func (c Change) String() string {
	switch c {
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

// An Event tells a handler that an object has changed. Both objects are shared
// with every reader of the cache: read only.
//
// An object that was deleted and created again under the same name, even while
// the watch was down, is first Deleted and then Added: Old and New of one event
// are always the same object, by UID.
type Event[T Object] struct {
	Old, New T
	Kind     Change
	// Initial is true for an object that was not new when the handler first
	// heard of it: it came with the first list, or was known before the handler.
	Initial bool
}

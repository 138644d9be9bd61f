package patch

import "github.com/homeostat/homeostat/internal/share"

// A draft is a deep copy of a cached object for an edit.
type draft[T Object] struct {
	obj    T
	memory *share.Copy // nil if the type has copied itself
}

// newDraft copies cached into memory that earlier drafts have had, where the
// type allows it: then it has no managed fields, which only the server writes
// and which are often the larger half of an object's metadata.
func newDraft[T Object](cached T) (d draft[T], ok bool) {
	if d.memory = share.CopyOf(cached); d.memory != nil {
		d.obj = d.memory.Object().(T)
		return d, true
	}
	d.obj, ok = cached.DeepCopyObject().(T)
	return d, ok
}

// edited is the copy after the edit, with the managed fields of cached unless the edit has set some.
func (d draft[T]) edited(cached T) T {
	if d.memory != nil && len(d.obj.GetManagedFields()) == 0 {
		d.obj.SetManagedFields(cached.GetManagedFields())
	}
	return d.obj
}

// unchanged says at once that nothing has changed, where that is so bit by bit.
func (d draft[T]) unchanged(cached T) bool {
	return d.memory != nil && d.memory.Equal(cached)
}

// release gives the memory to later drafts. In tests it is emptied first, so
// that an edit that keeps a part of its draft is found.
func (d draft[T]) release() {
	if d.memory != nil {
		d.memory.Release()
	}
}

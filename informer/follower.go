package informer

import "github.com/homeostat/homeostat/informer/internal/follow"

// follower stores what a cache that the informer follows holds.
type follower[T Object] struct{ *reflection[T] }

var _ follow.Store[Object] = follower[Object]{}

// Replace implements [follow.Store].
func (f follower[T]) Replace(objects []T, version string) {
	list := make([]any, len(objects))
	for n, object := range objects {
		list[n] = object
	}
	_ = f.reflection.Replace(list, version) // every element is a T
}

// Put implements [follow.Store].
func (f follower[T]) Put(object T) {
	f.touch()
	f.informer.put(itemOf(object))
	f.UpdateResourceVersion(object.GetResourceVersion())
}

// Delete implements [follow.Store].
func (f follower[T]) Delete(object T, version string) {
	f.touch()
	f.informer.drop(object)
	f.UpdateResourceVersion(version)
}

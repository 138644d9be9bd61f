package informer

import "sync/atomic"

// A version is a state of the store, or what makes it from the one before: that
// is done when somebody looks at it, and at the latest when what has changed has
// been handed on. So a handler does not wait for the tree.
type version[T Object] struct {
	made atomic.Pointer[state[T]] // nil until it is made
	from atomic.Pointer[step[T]]  // nil when it is made
}

// A step is what leads to a state.
type step[T Object] struct {
	base   *state[T]
	change change[T]
}

func versionOf[T Object](s *state[T]) *version[T] {
	v := &version[T]{}
	v.made.Store(s)
	return v
}

// then returns the version after a change that matters.
func (s *state[T]) then(c change[T]) *version[T] {
	v := &version[T]{}
	v.from.Store(&step[T]{s, c})
	return v
}

// state returns that of v: the same one each time, whoever makes it.
func (v *version[T]) state() *state[T] {
	if made := v.made.Load(); made != nil {
		return made
	}
	if from := v.from.Load(); from != nil {
		v.made.CompareAndSwap(nil, from.base.after(from.change))
		v.from.Store(nil) // or it would keep the state before
	}
	return v.made.Load()
}

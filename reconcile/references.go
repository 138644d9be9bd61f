package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/internal/parts"
	"github.com/homeostat/homeostat/queue"
)

// References returns a trigger for objects to which the controller's own
// objects refer. f returns the keys to which an object of type T refers, and
// cache was made with informer.Referenced. For example:
//
//	reconcile.References(secrets, func(w *v1.Website) []reconcile.Key {
//		return []reconcile.Key{{Namespace: w.Namespace, Name: w.Spec.SecretName}}
//	})
//
// The cache keeps an object only while a key of this replica refers to it, and
// for a minute after that. Every change of such an object, including its
// creation and its deletion, reconciles all keys that refer to it.
//
// A key is reconciled only when it is known whether each of the objects to
// which it refers exists. So if Get finds no object, the object does not exist.
// If this cannot be known, for example because the list is forbidden, the keys
// that refer to the object fail with an error that names it. They are
// reconciled as soon as it is known whether the object exists. Other keys are
// not affected.
//
// f must be quick and must not modify the object. Its result may depend only on
// the object, and on the caches of earlier references in Options.Triggers,
// whose objects are known by then. So references can form chains. Keys without
// a name are ignored. If f panics, the key fails and is retried.
func References[T, O informer.Object](cache *informer.References[O], f func(object T) []Key) Trigger {
	return references[T, O]{cache, f}
}

type references[T, O informer.Object] struct {
	cache *informer.References[O]
	f     func(T) []Key
}

// referring is a Trigger that References has made.
type referring interface {
	Trigger
	// ownerType is the type of the objects that refer to others.
	ownerType() reflect.Type
	// refersTo returns the keys to which an object of that type refers.
	refersTo(object metav1.Object) []Key
}

func (t references[T, O]) source() source { return referenced[O]{t.cache} }

func (t references[T, O]) triggerType() string { return "references" }

func (t references[T, O]) hasFunction() bool { return t.f != nil }

func (t references[T, O]) ownerType() reflect.Type { return reflect.TypeFor[T]() }

func (t references[T, O]) refersTo(object metav1.Object) []Key { return t.f(object.(T)) }

// attach enqueues the keys that refer to a changed object, until the function
// detach of the binding is called. It enqueues them in the goroutine of the
// watch, without blocking it.
func (t references[T, O]) attach(c *intake) binding {
	feed := &feed[O]{cache: t.cache, compare: comparedFields(reflect.TypeFor[O]())}
	source := c.sources.indexOf(referenced[O]{t.cache})
	return binding{detach: t.cache.Handle(func(e informer.Event[O]) {
		addition, changed := feed.addition(e), changeOf(source, e)
		for _, owner := range c.references.ownersOf(changed.objectRef) {
			c.loops.add(owner, &changed, addition)
			c.references.updateChain(owner)
		}
	})}
}

// errReferencesUnknown means that a key must wait until its references are
// known.
var errReferencesUnknown = errors.New("the states of the object's references are not known yet")

// referrers are the keys of a controller, and the objects to which their
// objects refer. A controller without a trigger of References has a nil
// *referrers: attach, beginLook, update and forget then have no effect, and its
// other methods must not be called.
type referrers struct {
	functions []reference
	owns      func(Key) bool
	object    func(Key) metav1.Object // the cached object, or nil
	queue     *queue.Queue[Key]
	enqueue   func(Key, string)

	mu     sync.Mutex // guards the fields below
	look   uint64     // the number of calls of beginLook
	owners map[Key]*referrer
	owning map[objectRef]map[Key]int // the number of references from each owner to an object
	// parked contains the keys that wait until their references are known, and
	// failed contains the keys whose references cannot be known at present.
	parked, failed map[Key]struct{}
}

// reference is a function of References and its cache.
type reference struct {
	referring
	source int
	cache  parts.References
	kind   func() string
	// guarded is intake.guarded.
	guarded func(function string, key Key, f func()) error
}

// referrer contains the keys to which one object refers.
type referrer struct {
	look uint64  // the number of the look in which the keys were found, from beginLook
	keys [][]Key // the keys, by the index of the function that returned them
}

// referrersOf returns the referrers of c, or nil if c has no trigger of
// References.
func referrersOf(c *Controller) *referrers {
	r := &referrers{
		queue: c.queue, enqueue: c.enqueue,
		owns:   func(key Key) bool { return c.slots == nil || c.slots.owns(key) },
		object: func(key Key) metav1.Object { return c.primary.cached(key) },
		owners: map[Key]*referrer{}, owning: map[objectRef]map[Key]int{},
		parked: map[Key]struct{}{}, failed: map[Key]struct{}{},
	}
	for _, t := range c.options.Triggers {
		if refs, ok := t.(referring); ok {
			s := t.source()
			r.functions = append(r.functions, reference{refs, c.sources.indexOf(s), referencesOf(s), s.Kind, c.guarded})
		}
	}
	if r.functions == nil {
		return nil
	}
	return r
}

// attach starts to handle changes of the states of referenced objects, until
// detach is called.
func (r *referrers) attach() (detach func()) {
	if r == nil {
		return func() {}
	}
	undo := map[int]func(){}
	for _, f := range r.functions {
		if undo[f.source] == nil {
			undo[f.source] = f.cache.HandleState(func(key Key) { r.changed(objectRef{f.source, key}) })
		}
	}
	return func() {
		for _, remove := range undo {
			remove()
		}
		r.forget(everyKey)
	}
}

// changed updates the keys that refer to an object, after its state has become
// known or has changed. It releases the keys that waited for this, and enqueues
// the keys that failed.
func (r *referrers) changed(ref objectRef) {
	for _, owner := range r.ownersOf(ref) {
		r.updateChain(owner)
		r.unpark(owner)
		r.mu.Lock()
		_, failed := r.failed[owner]
		delete(r.failed, owner)
		r.mu.Unlock()
		if failed {
			r.enqueue(owner, "references")
		}
	}
}

// ownersOf returns the keys that refer to an object, always in the same order.
func (r *referrers) ownersOf(ref objectRef) []Key {
	r.mu.Lock()
	defer r.mu.Unlock()
	return sorted(maps.Keys(r.owning[ref]), everyKey)
}

// sorted returns the keys for which wanted returns true, sorted by namespace
// and name. The order of a map is random, and work must not be done in a random
// order.
func sorted(keys iter.Seq[Key], wanted func(Key) bool) (list []Key) {
	for key := range keys {
		if wanted(key) {
			list = append(list, key)
		}
	}
	slices.SortFunc(list, func(a, b Key) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return list
}

func everyKey(Key) bool { return true }

// beginLook begins a new look at the cache, and returns its number. References
// that were found in a later look replace the ones that were found in an
// earlier look.
func (r *referrers) beginLook() (look uint64) {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.look++
	return r.look
}

// update records the references of the cached object of a key, if the key
// belongs to this replica. It unparks the key unless its references are
// unknown. Errors are returned by the next reconcile of the key.
func (r *referrers) update(key Key) {
	if r == nil || !r.owns(key) {
		return
	}
	if _, err := r.noteCached(key); err != errReferencesUnknown { //nolint:errorlint // not wrapped
		r.unpark(key)
	}
	if !r.owns(key) {
		r.forget(func(candidate Key) bool { return candidate == key })
	}
}

// updateChain calls update for key after an object to which it refers has
// changed. With a single function it has no effect, because only a chain of
// functions can return other keys after such a change.
func (r *referrers) updateChain(key Key) {
	if len(r.functions) > 1 {
		r.update(key)
	}
}

// noteCached records the references of the cached object of a key, and returns
// the result of note. It starts again if the cached object changes meanwhile.
func (r *referrers) noteCached(key Key) (current bool, err error) {
	for {
		look := r.beginLook()
		object := r.object(key)
		current, err = r.note(key, object, look)
		if r.object(key) == object {
			return current, err
		}
	}
}

// note records the references of object, or records that the key has no
// references if object is nil. It calls each function only when the objects to
// which the earlier functions lead are known. It returns errReferencesUnknown
// if an object is not known yet. look is the number that beginLook returned
// before object was read. current is false if the references of a later look
// are already recorded.
func (r *referrers) note(key Key, object metav1.Object, look uint64) (current bool, err error) {
	for n, f := range r.functions {
		var keys []Key
		if object != nil {
			if keys, err = f.call(object); err != nil {
				return true, err
			}
		}
		if !r.set(key, n, keys, look, object == nil) {
			return false, nil
		}
		if err := f.states(keys); err != nil {
			return true, err
		}
	}
	return true, nil
}

// call returns the keys to which an object refers, sorted and each of them
// once. It leaves out keys without a name. It returns an error if the function
// panics or ends its goroutine.
func (f *reference) call(object metav1.Object) (keys []Key, err error) {
	function := "the function of reconcile.References for " + f.kind()
	if err := f.guarded(function, bound.KeyOf(object), func() { keys = f.refersTo(object) }); err != nil {
		return nil, fmt.Errorf("%s failed: %w", function, err)
	}
	hasName := func(key Key) bool { return key.Name != "" }
	return slices.Compact(sorted(slices.Values(keys), hasName)), nil
}

// states returns nil if the states of all keys are known. It returns an
// unreadableReferenceError if the state of a key cannot be determined, and
// otherwise errReferencesUnknown if a state is not known yet.
func (f *reference) states(keys []Key) error {
	var errs []error
	waits := false
	for _, key := range keys {
		known, err := f.cache.State(key)
		if err != nil {
			errs = append(errs, err)
		}
		waits = waits || !known
	}
	switch {
	case len(errs) > 0:
		return unreadableReferenceError{errors.Join(errs...)}
	case waits:
		return errReferencesUnknown
	}
	return nil
}

// unreadableReferenceError means that the state of a reference cannot be
// determined at present.
type unreadableReferenceError struct{ error }

func (e unreadableReferenceError) Unwrap() error { return e.error }

// set records the keys that the n-th function returned for the object of owner.
// It returns false, and records nothing, if a later look has already recorded
// keys. look is the number of the look that found keys. deleted reports whether
// the object of owner does not exist.
func (r *referrers) set(owner Key, n int, keys []Key, look uint64, deleted bool) (current bool) {
	f := r.functions[n]
	for _, key := range keys { // hold them before the previous keys are released
		f.cache.Hold(key)
	}
	released := keys
	defer func() {
		for _, key := range released { // not under mu, because Release may call handlers
			f.cache.Release(key)
		}
	}()
	r.mu.Lock()
	defer r.mu.Unlock()
	found := r.owners[owner]
	switch {
	case found == nil && len(keys) == 0:
		return true
	case found == nil:
		found = &referrer{keys: make([][]Key, len(r.functions))}
		r.owners[owner] = found
	case found.look > look:
		return false
	}
	found.look, found.keys[n], released = look, keys, found.keys[n]
	for _, key := range keys {
		r.count(objectRef{f.source, key}, owner, 1)
	}
	for _, key := range released {
		r.count(objectRef{f.source, key}, owner, -1)
	}
	if deleted && n == len(r.functions)-1 {
		delete(r.owners, owner)
		delete(r.failed, owner)
	}
	return true
}

// count adds delta to the number of references from owner to an object. mu must
// be held.
func (r *referrers) count(ref objectRef, owner Key, delta int) {
	owners := r.owning[ref]
	if owners == nil {
		owners = map[Key]int{}
		r.owning[ref] = owners
	}
	if owners[owner] += delta; owners[owner] == 0 {
		delete(owners, owner)
	}
	if len(owners) == 0 {
		delete(r.owning, ref)
	}
}

// forget removes the references of the keys for which match returns true, and
// releases these keys if they are parked.
func (r *referrers) forget(match func(Key) bool) {
	if r == nil {
		return
	}
	var releases []func()
	r.mu.Lock()
	for _, key := range sorted(maps.Keys(r.parked), match) {
		delete(r.parked, key)
		releases = append(releases, func() { r.queue.Release(key) })
	}
	for _, owner := range sorted(maps.Keys(r.owners), match) {
		found := r.owners[owner]
		delete(r.owners, owner)
		delete(r.failed, owner)
		for n, keys := range found.keys {
			f := r.functions[n]
			for _, key := range keys {
				r.count(objectRef{f.source, key}, owner, -1)
				releases = append(releases, func() { f.cache.Release(key) })
			}
		}
	}
	r.mu.Unlock()
	for _, release := range releases {
		release()
	}
}

// admit records the references of object, the object of key. A nil object means
// that the key has no object.
//
// admit returns errReferencesUnknown if the references are not known yet, and a
// terminal error if a reference cannot be known at present. It also returns the
// error of a function of References that has failed, which is retried.
func (r *referrers) admit(key Key, object metav1.Object, look uint64) (current bool, err error) {
	current, err = r.note(key, object, look)
	if _, unreadable := errors.AsType[unreadableReferenceError](err); !unreadable {
		return current, err
	}
	r.mu.Lock()
	r.failed[key] = struct{}{}
	r.mu.Unlock()
	if _, err := r.noteCached(key); err == nil { // the reference became known before the key was in failed
		return false, nil
	}
	return current, Terminal(fmt.Errorf("reading what the object refers to: %w", err))
}

// park calls putBack to end the key's item, and keeps the key in the queue
// until its references are known.
func (r *referrers) park(key Key, putBack func()) {
	r.mu.Lock()
	r.parked[key] = struct{}{}
	r.mu.Unlock()
	putBack()
	r.update(key) // the references may have become known before the key was held
	r.mu.Lock()
	_, parked := r.parked[key]
	r.mu.Unlock()
	if !parked {
		r.queue.Release(key) // an earlier Release may have come before putBack
	}
}

// unpark releases a key that was put back.
func (r *referrers) unpark(key Key) {
	r.mu.Lock()
	_, parked := r.parked[key]
	delete(r.parked, key)
	r.mu.Unlock()
	if parked {
		r.queue.Release(key)
	}
}

// lookUpWithReferences returns the cached object of key, as lookUp does, when
// its references are known.
//
// It returns the errors of lookUp, errReferencesUnknown, the error of a
// function of References that has failed, or an error that names a reference
// whose state cannot be determined. The last one is terminal: a retry cannot
// help, and the change that fixes the reference enqueues the key again.
func lookUpWithReferences[T informer.Object](
	ctx context.Context, cache *informer.Informer[T], key Key, references *referrers,
) (object T, ok bool, err error) {
	for {
		look := references.beginLook()
		object, ok, err = lookUp(ctx, cache, key)
		if err != nil || references == nil {
			return object, ok, err
		}
		var found metav1.Object
		if ok {
			found = object
		}
		current, err := references.admit(key, found, look)
		if references.object(key) != found { // the cache has changed
			references.update(key)
		}
		if current || err != nil {
			return object, ok, err
		}
	}
}

// referencesOf returns the methods of a cache of references. It returns nil for
// other informers.
func referencesOf(s source) parts.References {
	if r, ok := s.(interface{ references() parts.References }); ok {
		return r.references()
	}
	return nil
}

package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"runtime/debug"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/parts"
	"github.com/homeostat/homeostat/queue"
)

// References returns a trigger for objects to which the controller's own
// objects refer. f returns the keys to which an object of type T refers, and in
// is a cache made with informer.Referenced. For example:
//
//	reconcile.References(secrets, func(w *v1.Website) []reconcile.Key {
//		return []reconcile.Key{{Namespace: w.Namespace, Name: w.Spec.SecretName}}
//	})
//
// The cache keeps only the objects of these keys: while a key of this replica
// refers to them, and for a minute after that. Every change of such an object
// reconciles all keys that refer to it, also its creation and its deletion.
//
// A key is reconciled only when it is known whether each object exists to which
// it refers. So if Get finds no object, there is none. If this cannot be known,
// for example because the list is forbidden, the keys that refer to the object
// fail with an error that names it. They are reconciled when it is known. Other
// keys are not affected.
//
// f must be quick and must not modify the object. It may depend only on the
// object, and on the caches of references that come earlier in
// Options.Triggers, whose objects are known by then. So references can form
// chains. Keys without a name are ignored. If f panics, the key fails and is
// retried.
func References[T, O informer.Object](in *informer.References[O], f func(object T) []Key) Trigger {
	return references[T, O]{in, f}
}

type references[T, O informer.Object] struct {
	in *informer.References[O]
	f  func(T) []Key
}

// referring is a Trigger that References has made.
type referring interface {
	Trigger
	// ownerType is the type of the objects that refer to others.
	ownerType() reflect.Type
	// refersTo returns the keys to which an object of that type refers.
	refersTo(object metav1.Object) []Key
}

func (t references[T, O]) source() source { return referenced[O]{t.in} }

func (t references[T, O]) triggerType() string { return "references" }

func (t references[T, O]) hasFunction() bool { return t.f != nil }

func (t references[T, O]) ownerType() reflect.Type { return reflect.TypeFor[T]() }

func (t references[T, O]) refersTo(object metav1.Object) []Key { return t.f(object.(T)) }

// attach enqueues the keys that refer to a changed object. It does so in the
// goroutine of the watch, and does not block.
func (t references[T, O]) attach(c *intake) binding {
	feed := &feed[O]{in: t.in, compare: comparedFields(reflect.TypeFor[O]())}
	source := c.sources.indexOf(referenced[O]{t.in})
	return binding{detach: t.in.Handle(func(e informer.Event[O]) {
		addition, of := feed.addition(e), changeOf(source, e)
		for _, owner := range c.references.ownersOf(of.objectRef) {
			c.loops.add(owner, &of, addition)
			c.references.updateChain(owner)
		}
	})}
}

// errReferencesUnknown is why a key waits.
var errReferencesUnknown = errors.New("the states of the object's references are not known yet")

// referrers are the keys of a controller, and the objects to which their
// objects refer. The methods of a nil *referrers have no effect.
type referrers struct {
	functions []reference
	owns      func(Key) bool
	object    func(Key) metav1.Object // the cached object, or nil
	queue     *queue.Queue[Key]
	enqueue   func(Key, string)

	mu     sync.Mutex // guards the fields below
	turn   uint64     // the number of looks at the cache
	owners map[Key]*referrer
	back   map[objectRef]map[Key]int // the number of references from each owner to an object
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
}

// referrer contains the keys to which one object refers.
type referrer struct {
	turn uint64  // the look that found the keys
	keys [][]Key // by function
}

// referrersOf returns the referrers of c, or nil if c has no trigger of
// References.
func referrersOf(c *Controller) *referrers {
	r := &referrers{
		queue: c.queue, enqueue: c.enqueue,
		owns:   func(key Key) bool { return c.slots == nil || c.slots.owns(key) },
		object: func(key Key) metav1.Object { return c.primary.cached(key) },
		owners: map[Key]*referrer{}, back: map[objectRef]map[Key]int{},
		parked: map[Key]struct{}{}, failed: map[Key]struct{}{},
	}
	for _, t := range c.options.Triggers {
		if of, ok := t.(referring); ok {
			s := t.source()
			r.functions = append(r.functions, reference{of, c.sources.indexOf(s), referencesOf(s), s.Kind})
		}
	}
	if r.functions == nil {
		return nil
	}
	return r
}

// attach handles the states of the objects that are referred to, until detach
// is called.
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

// changed continues with the keys that refer to an object, after its state has
// become known or has changed.
func (r *referrers) changed(of objectRef) {
	for _, owner := range r.ownersOf(of) {
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
func (r *referrers) ownersOf(of objectRef) []Key {
	r.mu.Lock()
	defer r.mu.Unlock()
	return sorted(maps.Keys(r.back[of]), everyKey)
}

// sorted returns the keys that wanted accepts, sorted by namespace and name.
// The order of a map is random, and work must not be done in a random order.
func sorted(keys iter.Seq[Key], wanted func(Key) bool) (all []Key) {
	for key := range keys {
		if wanted(key) {
			all = append(all, key)
		}
	}
	slices.SortFunc(all, func(a, b Key) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all
}

func everyKey(Key) bool { return true }

// look begins a look at the cache. The results of a later look replace the
// results of an earlier one.
func (r *referrers) look() (turn uint64) {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn++
	return r.turn
}

// update records the references of the cached object of a key, if the key
// belongs to this replica. It unparks the key unless its references are
// unknown. Errors are returned by the next reconcile of the key.
func (r *referrers) update(key Key) {
	if r == nil || !r.owns(key) {
		return
	}
	if _, err := r.noteCached(key); err != errReferencesUnknown { //nolint:errorlint // itself
		r.unpark(key)
	}
	if !r.owns(key) {
		r.forget(func(other Key) bool { return other == key })
	}
}

// updateChain calls update after the objects have changed to which the object
// of key refers.
func (r *referrers) updateChain(key Key) {
	if len(r.functions) > 1 {
		r.update(key)
	}
}

// noteCached records the references of the cached object of a key.
func (r *referrers) noteCached(key Key) (current bool, err error) {
	for {
		turn := r.look()
		object := r.object(key)
		current, err = r.note(key, object, turn)
		if r.object(key) == object {
			return current, err
		}
	}
}

// note records the references of an object, or of a missing object if it is
// nil. It calls each function after the objects are known to which the earlier
// functions lead. It returns errReferencesUnknown if an object is not known
// yet. current is false if a later look has already recorded references.
func (r *referrers) note(key Key, object metav1.Object, turn uint64) (current bool, err error) {
	for n, f := range r.functions {
		var keys []Key
		if object != nil {
			if keys, err = f.call(object); err != nil {
				return true, err
			}
		}
		if !r.set(key, n, keys, turn, object == nil) {
			return false, nil
		}
		if err := f.states(keys); err != nil {
			return true, err
		}
	}
	return true, nil
}

// call returns the keys to which an object refers. It returns a panic as an
// error.
func (f *reference) call(object metav1.Object) (keys []Key, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the function of reconcile.References for %s: panic: %v\n%s", f.kind(), p, debug.Stack())
		}
	}()
	for _, key := range f.refersTo(object) {
		if key.Name != "" && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// states returns nil if the states of all keys are known, errReferencesUnknown
// if some are not known yet, and otherwise an unreadableReferenceError.
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

// unreadableReferenceError is why the state of a reference cannot be known at
// present.
type unreadableReferenceError struct{ error }

func (e unreadableReferenceError) Unwrap() error { return e.error }

// set records that the n-th function leads from an object to keys, unless a
// later look has recorded other keys.
func (r *referrers) set(owner Key, n int, keys []Key, turn uint64, deleted bool) (current bool) {
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
	of := r.owners[owner]
	switch {
	case of == nil && len(keys) == 0:
		return true
	case of == nil:
		of = &referrer{keys: make([][]Key, len(r.functions))}
		r.owners[owner] = of
	case of.turn > turn:
		return false
	}
	of.turn, of.keys[n], released = turn, keys, of.keys[n]
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

// count adds more to the number of references from owner to an object. mu must
// be held.
func (r *referrers) count(of objectRef, owner Key, more int) {
	owners := r.back[of]
	if owners == nil {
		owners = map[Key]int{}
		r.back[of] = owners
	}
	if owners[owner] += more; owners[owner] == 0 {
		delete(owners, owner)
	}
	if len(owners) == 0 {
		delete(r.back, of)
	}
}

// forget removes the references of the keys that match accepts.
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
		of := r.owners[owner]
		delete(r.owners, owner)
		delete(r.failed, owner)
		for n, keys := range of.keys {
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

// admit records the references of the object of key, or of a missing object if
// it is nil.
//
// Errors: errReferencesUnknown; a terminal error if a reference cannot be known
// at present.
func (r *referrers) admit(key Key, object metav1.Object, turn uint64) (current bool, err error) {
	current, err = r.note(key, object, turn)
	if _, unreadable := errors.AsType[unreadableReferenceError](err); !unreadable {
		return current, err
	}
	r.mu.Lock()
	r.failed[key] = struct{}{}
	r.mu.Unlock()
	if _, again := r.noteCached(key); again == nil { // the reference became known before the key was in failed
		return false, nil
	}
	return current, Terminal(fmt.Errorf("reading what the object refers to: %w", err))
}

// park puts a key back until its references are known.
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

// lookUpWithReferences returns an object whose references are known, as lookUp
// does.
//
// Errors: the errors of lookUp; errReferencesUnknown; a terminal error that
// names the reference that cannot be known, since the change that fixes it
// enqueues the key again.
func lookUpWithReferences[T informer.Object](
	ctx context.Context, in *informer.Informer[T], key Key, references *referrers,
) (object T, ok bool, err error) {
	for {
		turn := references.look()
		object, ok, err = lookUp(ctx, in, key)
		if err != nil || references == nil {
			return object, ok, err
		}
		var found metav1.Object
		if ok {
			found = object
		}
		current, err := references.admit(key, found, turn)
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

// renewReferences makes all references unknown until their caches are as new as
// the server is now.
func (all sources) renewReferences() {
	for _, s := range all {
		if r := referencesOf(s); r != nil {
			r.Renew()
		}
	}
}

// onSeen calls f when a cache has seen all changes of the object of key up to a
// resourceVersion.
func onSeen(s source, key Key, version string, f func()) (cancel func()) {
	if r := referencesOf(s); r != nil {
		return r.OnSeen(key, version, f)
	}
	return s.Parts().OnSeen(key.Namespace, version, f)
}

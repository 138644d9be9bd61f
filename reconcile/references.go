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

// References says what the controller's own objects refer to: f returns the
// keys of the objects of in, made with informer.Referenced, to which an object
// of type T refers. For example:
//
//	reconcile.References(secrets, func(w *v1.Website) []reconcile.Key {
//		return []reconcile.Key{{Namespace: w.Namespace, Name: w.Spec.SecretName}}
//	})
//
// Three things follow from it. These objects are cached, and no others: while a
// key of this replica refers to them, and for a minute after that. A change of
// one of them, also its creation and its deletion, reconciles all that refer to
// it. And an object is not reconciled before it is known of each key whether
// there is such an object, so that Get has two answers there. If that cannot be
// known, for example because the list is forbidden, the keys that refer to it
// fail with an error that names it, until it can; others are not affected.
//
// f must be quick and depend on nothing but the object and the caches of
// references of triggers before its own in Options.Triggers, which are known by
// then: so references may form chains. It must not modify the object. Keys
// without a name are ignored. If f panics, the key fails and is retried.
func References[T, O informer.Object](in *informer.References[O], f func(object T) []Key) Trigger {
	return references[T, O]{in, f}
}

type references[T, O informer.Object] struct {
	in *informer.References[O]
	f  func(T) []Key
}

// referring is a Trigger made by References.
type referring interface {
	Trigger
	// ownerType is the type of the objects that refer to others.
	ownerType() reflect.Type
	// refersTo returns what an object of that type refers to.
	refersTo(object metav1.Object) []Key
}

func (t references[T, O]) source() source { return referenced[O]{t.in} }

func (t references[T, O]) triggerType() string { return "references" }

func (t references[T, O]) hasFunction() bool { return t.f != nil }

func (t references[T, O]) ownerType() reflect.Type { return reflect.TypeFor[T]() }

func (t references[T, O]) refersTo(object metav1.Object) []Key { return t.f(object.(T)) }

// attach enqueues the keys that refer to a changed object in the goroutine of
// the watch: nothing there waits.
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
var errReferencesUnknown = errors.New("it is not known yet whether what its object refers to exists")

// referrers are the keys of a controller and what their objects refer to. The
// methods of a nil *referrers do nothing.
type referrers struct {
	functions []reference
	owns      func(Key) bool
	object    func(Key) metav1.Object // in the cache; nil if it has none
	queue     *queue.Queue[Key]
	enqueue   func(Key, string)

	mu     sync.Mutex // guards the fields below
	turn   uint64     // counts looks at the cache
	owners map[Key]*referrer
	back   map[objectRef]map[Key]int // how often each owner refers to an object
	// parked keys wait until what they refer to is known, and failed ones until
	// that can be known.
	parked, failed map[Key]struct{}
}

// reference is a function and the cache of that to which it leads.
type reference struct {
	referring
	source int
	cache  parts.References
	kind   func() string
}

// referrer is what one object refers to.
type referrer struct {
	turn uint64  // when it was looked at
	keys [][]Key // by function
}

// referrersOf returns nil if no trigger is made by References.
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

// attach follows the states of what is referred to, until detach is called.
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

// changed lets keys go on whose object refers to one of which it may be known
// now whether it exists.
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

// ownersOf returns the keys that refer to an object, in an order that is always
// the same.
func (r *referrers) ownersOf(of objectRef) []Key {
	r.mu.Lock()
	defer r.mu.Unlock()
	return sorted(maps.Keys(r.back[of]), everyKey)
}

// sorted returns the keys that wanted accepts, sorted by namespace and name.
// A map's order differs each time; what is done for its keys must not.
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

// look begins a look at the cache: what is found by a later one counts.
func (r *referrers) look() (turn uint64) {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn++
	return r.turn
}

// update notes what the cached object of a key refers to, if the key is one of
// this replica, and lets the key go on if it waits for something else. Its
// errors are those of the next reconcile of the key.
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

// updateChain is update after a change of what the object of key refers to.
func (r *referrers) updateChain(key Key) {
	if len(r.functions) > 1 {
		r.update(key)
	}
}

// noteCached notes what the cached object of a key refers to.
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

// note notes what an object, nil if there is none, refers to: each function in
// its turn is asked when everything is known to which those before it lead. It
// returns errReferencesUnknown if that must be waited for, and current is false
// if a later look has found something already.
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

// call returns to what an object refers. A panic is an error.
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

// states returns nil if all is known, and otherwise why not.
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

// unreadableReferenceError is why it cannot be known what a key refers to.
type unreadableReferenceError struct{ error }

func (e unreadableReferenceError) Unwrap() error { return e.error }

// set notes that the n-th function leads from an object to keys, unless a later
// look has noted something.
func (r *referrers) set(owner Key, n int, keys []Key, turn uint64, deleted bool) (current bool) {
	f := r.functions[n]
	for _, key := range keys { // before those of last time are released
		f.cache.Hold(key)
	}
	released := keys
	defer func() {
		for _, key := range released { // which may call handlers
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

// count adds to the number of times that owner refers to an object. mu is held.
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

// forget drops what some keys refer to.
func (r *referrers) forget(which func(Key) bool) {
	if r == nil {
		return
	}
	var releases []func()
	r.mu.Lock()
	for _, key := range sorted(maps.Keys(r.parked), which) {
		delete(r.parked, key)
		releases = append(releases, func() { r.queue.Release(key) })
	}
	for _, owner := range sorted(maps.Keys(r.owners), which) {
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

// admit notes what the object of key, nil if there is none, refers to.
//
// Errors: errReferencesUnknown; one that waits for a change, if it cannot be known.
func (r *referrers) admit(key Key, object metav1.Object, turn uint64) (current bool, err error) {
	current, err = r.note(key, object, turn)
	if _, unreadable := errors.AsType[unreadableReferenceError](err); !unreadable {
		return current, err
	}
	r.mu.Lock()
	r.failed[key] = struct{}{}
	r.mu.Unlock()
	if _, again := r.noteCached(key); again == nil { // it has healed before the key was in failed
		return false, nil
	}
	return current, Terminal(fmt.Errorf("reading what the object refers to: %w", err))
}

// park puts a key back until what its object refers to is known.
func (r *referrers) park(key Key, putBack func()) {
	r.mu.Lock()
	r.parked[key] = struct{}{}
	r.mu.Unlock()
	putBack()
	r.update(key) // it may have become known before the key was held
	r.mu.Lock()
	_, parked := r.parked[key]
	r.mu.Unlock()
	if !parked {
		r.queue.Release(key) // also if that was done too early
	}
}

// unpark lets a key go on that has been put back.
func (r *referrers) unpark(key Key) {
	r.mu.Lock()
	_, parked := r.parked[key]
	delete(r.parked, key)
	r.mu.Unlock()
	if parked {
		r.queue.Release(key)
	}
}

// lookUpWithReferences is lookUp for an object whose references are known.
//
// Errors: those of lookUp; errReferencesUnknown; a terminal one that names what
// cannot be read, since the change that mends it leads to the key again.
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
		if references.object(key) != found { // or a later look may have found it deleted already
			references.update(key)
		}
		if current || err != nil {
			return object, ok, err
		}
	}
}

// referencesOf returns the methods of a cache of references, nil for other
// informers.
func referencesOf(s source) parts.References {
	if r, ok := s.(interface{ references() parts.References }); ok {
		return r.references()
	}
	return nil
}

// renewReferences makes what is referred to unknown until the caches are as new
// as the server is now.
func (all sources) renewReferences() {
	for _, s := range all {
		if r := referencesOf(s); r != nil {
			r.Renew()
		}
	}
}

// onSeen calls f when a cache has seen everything up to a resourceVersion of
// the object of key.
func onSeen(s source, key Key, version string, f func()) (cancel func()) {
	if r := referencesOf(s); r != nil {
		return r.OnSeen(key, version, f)
	}
	return s.Parts().OnSeen(key.Namespace, version, f)
}

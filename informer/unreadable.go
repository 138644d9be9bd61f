package informer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/informer/internal/itemwise"
	"github.com/homeostat/homeostat/informer/internal/tree"
	"github.com/homeostat/homeostat/informer/internal/versions"
)

// UnreadableError reports that the newest state of an object cannot be cached:
// Go cannot decode it, or Options.Transform or the function of an [Index]
// panics for it. Other objects are not affected.
type UnreadableError struct {
	Kind string
	Key  types.NamespacedName
	// UID and ResourceVersion belong to the newest state.
	UID             types.UID
	ResourceVersion string
	Since           time.Time
	// Err says why the state cannot be cached. For an object that cannot be
	// decoded, it names the field, but not its value, as in "spec.every: this
	// string cannot be decoded as v1.Duration". After a panic, it contains the
	// panic and the stack.
	Err error

	// cause is the Cause of the [Problem].
	cause string
	// labels and owners are the labels and the owner references of the
	// newest state. They show which object owns this one.
	labels map[string]string
	owners []metav1.OwnerReference
	// stored is true if the cache has exactly this state. This happens if an
	// index that was added later panics for it.
	stored bool
}

// Error returns a text that names the object and the reason.
func (e *UnreadableError) Error() string {
	return fmt.Sprintf("reading %s: %v", named(e.Kind, strings.TrimPrefix(e.Key.String(), "/")), e.Err)
}

// named returns the kind and the name of an object, as in `Secret "a/b"`.
func named(kind, name string) string {
	return fmt.Sprintf("%s %q", cmp.Or(kind, "object"), name)
}

// Unwrap returns e.Err.
func (e *UnreadableError) Unwrap() error { return e.Err }

// Unreadable returns an [UnreadableError] if the newest state of the object of
// key cannot be cached, and nil otherwise.
//
// Such an object exists. Get returns its last state that could be cached, if
// there was one, and IsDeleted returns false. Unreadable returns nil again
// after the object is deleted, or is changed to a state that can be cached.
// Package reconcile does not call a reconciler for such a key; the key fails
// with this error.
func (i *Informer[T]) Unreadable(key types.NamespacedName) error {
	if e := i.store.unreadable.get(key); e != nil {
		return e
	}
	return nil
}

// handleUnreadable calls h with the key of each object that is already
// unreadable and, until remove is called, of each object that becomes
// unreadable or readable again. See [Informer.Unreadable]. The calls have the
// same order as the changes that handlers receive. h must not block.
func (i *Informer[T]) handleUnreadable(h func(key types.NamespacedName)) (remove func()) {
	u := &i.store.unreadable
	u.mu.Lock()
	handler := &h
	u.handlers = append(slices.Clip(u.handlers), handler)
	known := slices.Collect(maps.Keys(u.byKey))
	u.mu.Unlock()
	for _, key := range known {
		h(key)
	}
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.handlers = slices.DeleteFunc(slices.Clone(u.handlers), func(candidate *func(types.NamespacedName)) bool {
			return candidate == handler
		})
	}
}

// unreadables are the objects of a store whose newest state cannot be cached.
// It is safe for concurrent use. Methods that change it require store.writing.
type unreadables struct {
	count atomic.Int64

	mu       sync.Mutex // guards the fields below
	byKey    map[types.NamespacedName]*UnreadableError
	handlers []*func(types.NamespacedName)
}

func (u *unreadables) get(key types.NamespacedName) *UnreadableError {
	if u.count.Load() == 0 {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.byKey[key]
}

// set adds e, and reports whether that state of the object was not recorded
// before.
func (u *unreadables) set(e *UnreadableError) (isNew bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	previous := u.byKey[e.Key]
	if previous != nil {
		e.Since = previous.Since
	}
	if u.byKey == nil {
		u.byKey = map[types.NamespacedName]*UnreadableError{}
	}
	u.byKey[e.Key] = e
	u.count.Store(int64(len(u.byKey)))
	return previous == nil || previous.UID != e.UID || previous.ResourceVersion != e.ResourceVersion
}

// removeIf removes the objects for which end reports true, and returns their
// keys.
func (u *unreadables) removeIf(end func(*UnreadableError) bool) (removed []types.NamespacedName) {
	if u.count.Load() == 0 {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for key, e := range u.byKey {
		if end(e) {
			delete(u.byKey, key)
			removed = append(removed, key)
		}
	}
	u.count.Store(int64(len(u.byKey)))
	return removed
}

func (u *unreadables) remove(key types.NamespacedName) (removed []types.NamespacedName) {
	return u.removeIf(func(e *UnreadableError) bool { return e.Key == key })
}

// isNewer reports whether an unreadable state of an object is newer than rv.
func (u *unreadables) isNewer(key types.NamespacedName, rv string) bool {
	e := u.get(key)
	return e != nil && versions.Older(rv, e.ResourceVersion)
}

// metadata returns what is known of each unreadable object: its identity, its
// labels and its owners.
func (u *unreadables) metadata() (known []metav1.ObjectMeta) {
	if u.count.Load() == 0 {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for key, e := range u.byKey {
		known = append(known, metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name, UID: e.UID, ResourceVersion: e.ResourceVersion,
			Labels: e.labels, OwnerReferences: e.owners,
		})
	}
	return known
}

// telling returns a function that calls the handlers with each of keys, and
// then calls callback, unless callback is nil.
func (u *unreadables) telling(keys []types.NamespacedName, callback func()) func() {
	if len(keys) == 0 {
		return callback
	}
	return func() {
		u.mu.Lock()
		handlers := u.handlers
		u.mu.Unlock()
		for _, key := range keys {
			for _, h := range handlers {
				(*h)(key)
			}
		}
		if callback != nil {
			callback()
		}
	}
}

// problems returns the unreadable objects as problems.
func (u *unreadables) problems() []Problem {
	u.mu.Lock()
	errs := slices.Collect(maps.Values(u.byKey))
	u.mu.Unlock()
	problems := make([]Problem, len(errs))
	for n, e := range errs {
		problems[n] = Problem{
			Object: strings.TrimPrefix(e.Key.String(), "/"), Cause: e.cause, Reason: firstLineOf(e.Err), Since: e.Since,
			Remedy: "correct or delete the object",
		}
	}
	return problems
}

func firstLineOf(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// firstProblems returns the first ten problems of each cause, ordered by
// object. If a cause has more, the field More of the tenth is the number of
// problems that were left out.
func firstProblems(problems []Problem) (first []Problem) {
	const limit = 10
	slices.SortFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Cause, b.Cause), cmp.Compare(a.Object, b.Object))
	})
	listed := map[string]int{}
	for _, p := range problems {
		if listed[p.Cause]++; listed[p.Cause] <= limit {
			first = append(first, p)
		} else {
			first[len(first)-1].More++
		}
	}
	return first
}

// refusedItem is an item that cannot be stored, and the reason.
type refusedItem[T Object] struct {
	item   *tree.Item[T]
	reason *itemwise.Refusal
	// stored is true if the item is stored already.
	stored bool
}

// refuse records and logs that an item cannot be stored. writing must be held.
func (s *store[T]) refuse(r refusedItem[T]) {
	e := &UnreadableError{
		Kind: s.identity.Kind(), Key: r.item.Key, UID: r.item.Object.GetUID(),
		ResourceVersion: r.item.Object.GetResourceVersion(), Since: time.Now(),
		Err: r.reason.Err, cause: r.reason.Cause, stored: r.stored,
		labels: r.item.Object.GetLabels(), owners: r.item.Object.GetOwnerReferences(),
	}
	if s.unreadable.set(e) {
		s.delivery.log().Error(e, "object cannot be cached, waiting until it changes",
			"namespace", e.Key.Namespace, "name", e.Key.Name, "resourceVersion", e.ResourceVersion)
	}
}

// putRefused records that an item cannot be stored. The cached state stays,
// unless it belongs to an earlier object with the same name. Then it is
// deleted. writing must be held, and the caller calls delivery.run after
// releasing it.
func (s *store[T]) putRefused(c tree.Change[T], refusal *itemwise.Refusal) {
	s.refuse(refusedItem[T]{item: c.New, reason: refusal})
	b := batch[T]{done: s.unreadable.telling([]types.NamespacedName{c.New.Key}, nil)}
	next := s.latest.Load()
	if c.Old != nil && isRecreated(c.Old, c.New) {
		deletion := tree.Change[T]{Old: c.Old}
		s.table.Remove(c.Old.Key)
		s.detector.Update(deletion)
		next, b.events = next.apply(deletion), eventsOf(deletion, nil)
	}
	s.publish(next, b)
}

// isRecreated reports whether two items with the same name are known to be
// different objects.
func isRecreated[T Object](old, item *tree.Item[T]) bool {
	oldUID, newUID := old.Object.GetUID(), item.Object.GetUID()
	return oldUID != newUID && oldUID != "" && newUID != ""
}

// afterChange returns the state after a change, or a refusal if the function of
// an index panics for the object.
func (s *store[T]) afterChange(c tree.Change[T]) (next *state[T], refusal *itemwise.Refusal) {
	key := cmp.Or(c.New, c.Old).Key
	refusal = s.caught(key, func() { next = s.latest.Load().apply(c) })
	return next, refusal
}

// readable returns items, in sorted order, without the items that cannot be
// stored, which are refused. If rv is not empty, it also leaves out each item
// that is older than a known unreadable state of the same object. In their
// places it returns the cached states of the same objects, if there are any.
func (s *store[T]) readable(
	items []*tree.Item[T], occasion versions.Occasion, rv string,
) (readable []*tree.Item[T], refused []refusedItem[T]) {
	readable = items[:0:len(items)]
	for _, item := range items {
		refusal := itemwise.RefusalOf(item.Object)
		outdated := rv != "" && s.unreadable.isNewer(item.Key, item.Object.GetResourceVersion())
		if refusal == nil && !outdated {
			readable = append(readable, item)
			continue
		}
		c := s.changeTo(item)
		if !outdated && (occasion == versions.RestoredList || matters(c)) {
			refused = append(refused, refusedItem[T]{item: item, reason: refusal})
		}
		if c.Old != nil && !isRecreated(c.Old, item) {
			readable = append(readable, c.Old)
		}
	}
	return readable, refused
}

// withoutPanics returns items, in sorted order, without the items for which the
// function of an index panics, which are refused. In their places it returns
// the cached states of the same objects, if there are any.
func (s *store[T]) withoutPanics(
	items []*tree.Item[T], changes []tree.Change[T],
) (readable []*tree.Item[T], refused []refusedItem[T]) {
	culprits := map[*tree.Item[T]]*itemwise.Refusal{}
	for _, c := range changes {
		if c.New == nil {
			continue
		}
		for _, x := range s.latest.Load().indexes {
			if refusal := s.caught(c.New.Key, func() { x.Try(c.New.Object) }); refusal != nil {
				culprits[c.New] = refusal
			}
		}
	}
	for _, item := range items {
		refusal := culprits[item]
		if refusal == nil {
			readable = append(readable, item)
			continue
		}
		refused = append(refused, refusedItem[T]{item: item, reason: refusal})
		if old := s.table.Get(item.Key); old != nil && !isRecreated(old, item) {
			readable = append(readable, old)
		}
	}
	return readable, refused
}

// removeReadable updates s.unreadable after a list at rv has been stored. It
// removes each object of the listed namespaces, because the list has shown the
// object to be readable or deleted. It does not remove refused objects, or
// objects whose unreadable state is newer than rv. It also does not remove
// objects whose unreadable state is still cached, unless the server was
// restored. It returns the keys of the removed and of the refused objects.
// writing must be held.
func (s *store[T]) removeReadable(
	isListed func(string) bool, refused []refusedItem[T], occasion versions.Occasion, rv string,
) (changed []types.NamespacedName) {
	stillRefused := map[types.NamespacedName]bool{}
	for _, r := range refused {
		stillRefused[r.item.Key] = true
		changed = append(changed, r.item.Key)
	}
	ended := s.unreadable.removeIf(func(e *UnreadableError) bool {
		if stillRefused[e.Key] || !isListed(e.Key.Namespace) || rv != "" && versions.Older(rv, e.ResourceVersion) {
			return false
		}
		cached := s.table.Get(e.Key)
		return !e.stored || occasion == versions.RestoredList ||
			cached == nil || cached.Object.GetResourceVersion() != e.ResourceVersion
	})
	return append(changed, ended...)
}

// caught calls f and returns a panic as a refusal. f calls the functions of
// indexes for the object of key, or for the objects of a list.
func (s *store[T]) caught(key types.NamespacedName, f func()) (refusal *itemwise.Refusal) {
	const function = "the function of an index"
	call := s.calls.Begin(function, key)
	defer func() {
		s.calls.End(call)
		if p := recover(); p != nil {
			refusal = itemwise.Panicked(itemwise.CauseIndex, function, p)
		}
	}()
	f()
	return nil
}

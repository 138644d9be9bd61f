package reconcile

import (
	"context"
	"errors"
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/internal/parts"
	"github.com/homeostat/homeostat/internal/slots"
)

// referenced is a source for a cache of references. It is synced as soon as it
// runs, because each key waits for its own references and not for a namespace.
type referenced[O informer.Object] struct{ *informer.References[O] }

var _ source = referenced[informer.Object]{}

func (s referenced[O]) identity() any { return s.References }

func (s referenced[O]) objectType() reflect.Type { return reflect.TypeFor[O]() }

func (s referenced[O]) references() parts.References { return s.References.Parts() }

func (s referenced[O]) WaitForSync(context.Context) error { return nil }

func (s referenced[O]) WaitForLatest(context.Context) error {
	s.references().Renew()
	return nil
}

func (s referenced[O]) WaitForObject(ctx context.Context, key Key) error {
	return s.references().WaitForObject(ctx, key)
}

func (s referenced[O]) LastResourceVersion() string { return s.references().LastResourceVersion() }

func (s referenced[O]) Parts() parts.Cache { return referencedParts{s.references()} }

func (s referenced[O]) matches(w *write) bool {
	key := w.key()
	return isToKind[O](s, w) && (key.Name == "" || s.references().Holds(key))
}

func (s referenced[O]) covers(w *write) (covered, known bool) {
	return s.references().Holds(w.key()), true
}

func (s referenced[O]) cached(key Key) metav1.Object {
	if cached, ok := s.Get(key); ok {
		return cached
	}
	return nil
}

func (s referenced[O]) unreadable(key Key) (types.UID, bool) {
	_, err := s.references().State(key)
	e, ok := errors.AsType[*informer.UnreadableError](err)
	if !ok {
		return "", false
	}
	return e.UID, true
}

func (s referenced[O]) keys() (keys []Key) {
	for object := range s.Snapshot().All() {
		keys = append(keys, bound.KeyOf(object))
	}
	return keys
}

func (s referenced[O]) observe(f func(oldObject, newObject metav1.Object)) (remove func()) {
	return s.Handle(observing[O](f))
}

// observing returns a handler that calls f with the old and new object of an
// event. A missing object is nil.
func observing[O informer.Object](f func(oldObject, newObject metav1.Object)) func(informer.Event[O]) {
	return func(e informer.Event[O]) {
		switch e.Type {
		case informer.Added:
			f(nil, e.New)
		case informer.Updated:
			f(e.Old, e.New)
		case informer.Deleted:
			f(e.Old, nil)
		}
	}
}

// referencedParts implements [parts.Cache].
type referencedParts struct{ cache parts.References }

func (p referencedParts) Validate() error { return p.cache.Validate() }

func (p referencedParts) Mapping() (meta.RESTMapping, error) { return p.cache.Mapping() }

// InScope reports whether an object refers to key.
func (p referencedParts) InScope(key types.NamespacedName) bool { return p.cache.Holds(key) }

// Shards is not called, because sources.caches leaves out caches of references.
func (referencedParts) Shards() slots.Cache { return nil }

// OnSeen is not called, because the function onSeen asks the cache of
// references instead.
func (referencedParts) OnSeen(_, _ string, f func()) (cancel func()) {
	f()
	return func() {}
}

// HandleUnreadable is not called, because State reports unreadable objects.
func (referencedParts) HandleUnreadable(func(types.NamespacedName)) (remove func()) { return func() {} }

// Unreadable returns nil, because State reports unreadable objects.
func (referencedParts) Unreadable() []metav1.ObjectMeta { return nil }

func (p referencedParts) RunWhole(ctx context.Context, joined func()) error {
	return p.cache.Run(ctx, joined)
}

func (referencedParts) Independent() bool { return false }

func (referencedParts) Shown() bool { return true }

func (referencedParts) Simulated() bool { return false }

func (referencedParts) Reads(string) (covered, known bool) { return true, true }

// Absent is not called, because only a controller's own objects are looked up.
func (referencedParts) Absent(context.Context, types.NamespacedName) (parts.Absence, error) {
	return parts.OutOfScope, nil
}

func (referencedParts) WaitForStart(context.Context) error { return nil }

func (referencedParts) SyncedIn(string) bool { return true }

func (referencedParts) WaitForSyncIn(context.Context, string) error { return nil }

func (referencedParts) WaitForLatestIn(context.Context, string) error { return nil }

func (referencedParts) WaitForLatestElsewhere(context.Context, map[string]bool) error { return nil }

func (referencedParts) Missing() []string { return nil }

func (referencedParts) Unwell() map[string]error { return nil }

func (referencedParts) WellIn(string) bool { return true }

// onSeen calls f when a cache has seen all changes of the object of key up to a
// resourceVersion.
func onSeen(s source, key Key, version string, f func()) (cancel func()) {
	if r := referencesOf(s); r != nil {
		return r.OnSeen(key, version, f)
	}
	return s.Parts().OnSeen(key.Namespace, version, f)
}

package patch

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/internal/ownwrites"
)

// maxRemembered is how many objects an Applier remembers. Beyond it an arbitrary
// one is forgotten, which costs one needless request.
const maxRemembered = 1 << 17

// An Applier applies configurations of type C to objects of type T, server-side,
// and does not repeat a request that could not change anything. It is safe for
// concurrent use.
type Applier[C any, T informer.Object] struct {
	of    func(namespace string) applyClient[C, T]
	limit int

	mu     sync.Mutex // guards memory
	memory map[endpoint]applied
}

// endpoint is what a request is sent to.
type endpoint struct {
	types.NamespacedName
	subresource string
}

// applied is one request that the server has answered.
type applied struct {
	uid     types.UID
	request [sha256.Size]byte
	version string
	owned   [sha256.Size]byte
	listed  bool // owned was there
}

// NewApplier makes an Applier. of returns the client of a namespace, see [Client].
func NewApplier[K interface {
	Apply(ctx context.Context, config C, opts metav1.ApplyOptions) (T, error)
}, C any, T informer.Object](of func(namespace string) K) *Applier[C, T] {
	a := &Applier[C, T]{limit: maxRemembered, memory: map[endpoint]applied{}}
	if of != nil {
		a.of = func(namespace string) applyClient[C, T] { return of(namespace) }
	}
	return a
}

// Apply returns the object as the server has it once it owns, under the field
// manager, what config says and nothing more. cached is the object as the cache
// has it, or nil if it has none. The UID of cached is put into the request, not
// into config, as a condition: a recreated object is refused.
//
// Sends no request, and returns cached itself, if the same was asked last time,
// cached is the same object, and everything asked for is still owned and has the
// value that the server gave it then. cached may not be written to.
//
// With Subresource "status" the status is applied. That of custom kinds is locked
// by resourceVersion, as [Status] does.
//
// Errors: a field manager that cannot be, a lock (put the resourceVersion into
// config instead), a config without a name or for another object than cached. A
// conflict with another manager, which only [Options].NoForce allows, satisfies
// [IsStale], and so does a recreated object.
func (a *Applier[C, T]) Apply(ctx context.Context, cached T, o *Options, config C) (T, error) {
	var none T
	opts := o.withDefaults(ctx)
	if err := opts.validateApply(); err != nil {
		return none, fmt.Errorf("applying: %w", err)
	}
	data, meta, err := encode(config)
	key := types.NamespacedName{Namespace: meta.Namespace, Name: meta.Name}
	if err == nil {
		err = meta.checkAgainst(cached)
	}
	if err != nil {
		return none, fmt.Errorf("applying %q: %w", key, err)
	}
	to := endpoint{key, opts.Subresource}
	request := sha256.Sum256(fmt.Appendf(data, "%s/%t", opts.FieldManager, opts.NoForce))
	if !opts.DryRun && a.done(to, cached, request, opts.FieldManager) {
		return cached, nil
	}
	got, err := a.send(ctx, cached, &opts, config, meta)
	if err != nil {
		a.forget(to)
		return none, fmt.Errorf("applying %q: %w", key, asConflict(key.Name, err))
	}
	if !opts.DryRun {
		ownwrites.Wrote(ctx, got)
		a.remember(to, got, request, opts.FieldManager)
	}
	return got, nil
}

func (a *Applier[C, T]) send(ctx context.Context, cached T, o *Options, config C, meta configMeta) (T, error) {
	var none T
	apply, err := a.method(meta, o.Subresource)
	if err != nil {
		return none, err
	}
	want := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: meta.Namespace, Name: meta.Name}}
	if !isNil(cached) {
		if config, err = withCondition(config, meta, cached, o.Subresource); err != nil {
			return none, err
		}
		want.UID = cached.GetUID()
	}
	got, err := apply(ctx, config, metav1.ApplyOptions{
		FieldManager: o.FieldManager, Force: !o.NoForce, DryRun: o.dryRun(),
	})
	if err == nil {
		err = checkAnswer(want, got)
	}
	return got, err
}

// method is what the client applies with.
func (a *Applier[C, T]) method(meta configMeta, subresource string) (
	func(context.Context, C, metav1.ApplyOptions) (T, error), error,
) {
	if a.of == nil {
		return nil, errNilArgument
	}
	c, err := bound.ClientFor(a.of, &metav1.PartialObjectMetadata{
		ObjectMeta: metav1.ObjectMeta{Namespace: meta.Namespace, Name: meta.Name},
	})
	if err != nil || subresource == "" {
		return c.Apply, err
	}
	s, ok := c.(interface {
		ApplyStatus(ctx context.Context, config C, opts metav1.ApplyOptions) (T, error)
	})
	if !ok {
		return nil, errors.New("field Subresource: the client has no ApplyStatus: the kind has no status subresource")
	}
	return s.ApplyStatus, nil
}

// Forget drops what is remembered of an object, so that the next Apply sends its
// request. Call it when the object is deleted.
func (a *Applier[C, T]) Forget(key types.NamespacedName) {
	a.forget(endpoint{key, ""})
	a.forget(endpoint{key, status})
}

func (a *Applier[C, T]) forget(to endpoint) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.memory, to)
}

// done reports whether the request would change nothing.
func (a *Applier[C, T]) done(to endpoint, cached T, request [sha256.Size]byte, manager string) bool {
	if isNil(cached) {
		return false
	}
	a.mu.Lock()
	last, ok := a.memory[to]
	a.mu.Unlock()
	if !ok || last.uid != cached.GetUID() || last.request != request || last.version == "" {
		return false
	}
	version := cached.GetResourceVersion()
	order, err := resourceversion.CompareResourceVersion(version, last.version)
	if version == last.version || err == nil && order < 0 {
		return true // the cache has nothing newer than the answer
	}
	owned, listed := ownedBy(cached, manager)
	if !listed || !last.listed || owned != last.owned {
		return false
	}
	if err == nil {
		a.confirm(to, last, version)
	}
	return true
}

// confirm notes that the last request is still good at a version of the object, so
// that it is not looked at again.
func (a *Applier[C, T]) confirm(to endpoint, last applied, version string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.memory[to] == last {
		last.version = version
		a.memory[to] = last
	}
}

func (a *Applier[C, T]) remember(to endpoint, got T, request [sha256.Size]byte, manager string) {
	last := applied{uid: got.GetUID(), request: request, version: got.GetResourceVersion()}
	last.owned, last.listed = ownedBy(got, manager)
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.memory, to)
	for other := range a.memory {
		if len(a.memory) < a.limit {
			break
		}
		delete(a.memory, other)
	}
	a.memory[to] = last
}

func (o *Options) validateApply() error {
	err := o.validate()
	if o.Lock {
		err = errors.Join(err, errors.New("field Lock: put the resourceVersion into the configuration instead"))
	}
	if o.Subresource != "" && o.Subresource != status {
		err = errors.Join(err, fmt.Errorf("field Subresource: %q: only the status can be applied", o.Subresource))
	}
	return err
}

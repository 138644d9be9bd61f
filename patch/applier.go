package patch

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/homeostat/homeostat/internal/turn"
)

// maxRemembered is how many objects an Applier remembers. Beyond it an arbitrary
// one is forgotten, which costs one needless request.
const maxRemembered = 1 << 17

// An Applier applies configurations of type C to objects of type T, server-side,
// and does not repeat a request that could not change anything. It is safe for
// concurrent use.
type Applier[C any, T Object] struct {
	apply func(context.Context, C, metav1.ApplyOptions) (T, error)
	limit int

	mu     sync.Mutex // guards what follows
	memory map[types.NamespacedName]applied
}

// applied is one request that the server has answered.
type applied struct {
	uid     types.UID
	request [sha256.Size]byte
	version string
	owned   [sha256.Size]byte
	listed  bool // owned was there
}

// NewApplier makes an Applier of a client's method: client.Apply, or
// client.ApplyStatus for the status subresource.
func NewApplier[C any, T Object](apply func(context.Context, C, metav1.ApplyOptions) (T, error)) *Applier[C, T] {
	return &Applier[C, T]{apply: apply, limit: maxRemembered, memory: map[types.NamespacedName]applied{}}
}

// Apply returns the object as the server has it once it owns, under the field
// manager, what config says and nothing more. cached is the object as the cache
// has it, or nil if it has none.
//
// Shape: no request, and cached itself, if the same was asked last time, cached
// is the same object and everything asked for is still owned; a change by others
// of what was asked for takes that ownership away. cached may not be written to.
//
// Errors: a field manager that cannot be, a lock (put UID and resourceVersion
// into config instead), a config without a name. A conflict with another
// manager, which only [Options].NoForce allows, satisfies [IsStale].
func (a *Applier[C, T]) Apply(ctx context.Context, cached T, o *Options, config C) (T, error) {
	var none T
	opts := o.withDefaults(ctx)
	if err := opts.validateApply(); err != nil {
		return none, fmt.Errorf("applying: %w", err)
	}
	data, key, err := encode(config)
	if err != nil {
		return none, fmt.Errorf("applying %q: %w", key, err)
	}
	request := sha256.Sum256(fmt.Appendf(data, "%s/%t", opts.FieldManager, opts.NoForce))
	if !opts.DryRun && a.done(key, cached, request, opts.FieldManager) {
		return cached, nil
	}
	got, err := a.apply(ctx, config, metav1.ApplyOptions{
		FieldManager: opts.FieldManager, Force: !opts.NoForce, DryRun: opts.dryRun(),
	})
	if err != nil {
		a.Forget(key)
		return none, fmt.Errorf("applying %q: %w", key, err)
	}
	if !opts.DryRun {
		turn.Wrote(ctx, got)
		a.remember(key, got, request, opts.FieldManager)
	}
	return got, nil
}

// Forget drops what is remembered of an object, so that the next Apply sends its
// request. Call it when the object is gone.
func (a *Applier[C, T]) Forget(key types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.memory, key)
}

// done says whether the request would change nothing.
func (a *Applier[C, T]) done(key types.NamespacedName, cached T, request [sha256.Size]byte, manager string) bool {
	if isNil(cached) {
		return false
	}
	a.mu.Lock()
	last, ok := a.memory[key]
	a.mu.Unlock()
	if !ok || last.uid != cached.GetUID() || last.request != request || last.version == "" {
		return false
	}
	if order, err := resourceversion.CompareResourceVersion(cached.GetResourceVersion(), last.version); err != nil {
		return false
	} else if order <= 0 {
		return true // the cache has nothing newer than the answer
	}
	owned, listed := ownedBy(cached, manager)
	return listed && last.listed && owned == last.owned
}

func (a *Applier[C, T]) remember(key types.NamespacedName, got T, request [sha256.Size]byte, manager string) {
	last := applied{uid: got.GetUID(), request: request, version: got.GetResourceVersion()}
	last.owned, last.listed = ownedBy(got, manager)
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.memory, key)
	for other := range a.memory {
		if len(a.memory) < a.limit {
			break
		}
		delete(a.memory, other)
	}
	a.memory[key] = last
}

// ownedBy is a sum of the fields that manager has applied, of all subresources.
func ownedBy(obj metav1.Object, manager string) (sum [sha256.Size]byte, ok bool) {
	h := sha256.New()
	entries := obj.GetManagedFields()
	for i := range entries {
		e := &entries[i]
		if e.Manager != manager || e.Operation != metav1.ManagedFieldsOperationApply || e.FieldsV1 == nil {
			continue
		}
		ok = true
		for _, part := range []string{e.APIVersion, e.Subresource, e.FieldsV1.GetRawString()} {
			h.Write([]byte(part))
			h.Write([]byte{0})
		}
	}
	return [sha256.Size]byte(h.Sum(nil)), ok
}

// encode is the JSON of config and the name in it.
func encode(config any) ([]byte, types.NamespacedName, error) {
	var named struct {
		Metadata struct{ Namespace, Name string }
	}
	data, err := json.Marshal(config)
	if err == nil {
		err = json.Unmarshal(data, &named)
	}
	key := types.NamespacedName{Namespace: named.Metadata.Namespace, Name: named.Metadata.Name}
	switch {
	case err != nil:
		return nil, key, fmt.Errorf("encoding the configuration: %w", err)
	case key.Name == "":
		return nil, key, errors.New("the configuration is nil or has no name")
	case len(data) > MaxBytes:
		return nil, key, fmt.Errorf("the configuration has %d bytes, a server reads at most %d", len(data), MaxBytes)
	}
	return data, key, nil
}

func (o *Options) validateApply() error {
	err := o.validate()
	if o.Lock != (Lock{}) {
		err = errors.Join(err, errors.New("field Lock: put UID and resourceVersion into the configuration instead"))
	}
	if o.Subresource != "" {
		err = errors.Join(err, errors.New("field Subresource: make the Applier of the client's ApplyStatus instead"))
	}
	return err
}

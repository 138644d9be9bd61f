package patch

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/internal/diff"
	"github.com/homeostat/homeostat/internal/option"
	"github.com/homeostat/homeostat/internal/ownwrites"
	"github.com/homeostat/homeostat/internal/rvorder"
)

// maxRemembered is how many objects an Applier remembers. If there are more, it
// forgets an arbitrary one, at the cost of one needless request.
const maxRemembered = 1 << 17

// maxLate is how long an older resourceVersion in the cache is attributed to a
// stale cache. After that time the server itself may have gone back, for
// example because etcd was restored from a backup.
const maxLate = time.Minute

// An Applier applies configurations of type C to objects of type T,
// server-side, and does not repeat a request that would have no effect. It is
// safe for concurrent use.
type Applier[C any, T informer.Object] struct {
	clients func(namespace string) applyClient[C, T]
	limit   int

	mu     sync.Mutex // guards memory
	memory map[endpoint]applied
}

// endpoint identifies an object or one of its subresources.
type endpoint struct {
	types.NamespacedName
	subresource string
}

// applied is what an Applier remembers of one request that the server has
// answered.
type applied struct {
	uid      types.UID
	request  [sha256.Size]byte // hash of the configuration and the options that were sent
	rv       string            // the newest resourceVersion at which owned was seen
	owned    [sha256.Size]byte // checksum of the fields that were applied; see ownedBy
	agreedAt time.Time         // when the server or the cache last showed these fields

	// unseen is the checksum of the same fields as the cache has them at rv, if
	// that is not owned. The server has then confirmed that these are the
	// fields: the cache or the Go type lacks some of them.
	unseen [sha256.Size]byte
}

// NewApplier returns an Applier. clients returns the client of a namespace; see
// [Client].
func NewApplier[K interface {
	Apply(ctx context.Context, config C, opts metav1.ApplyOptions) (T, error)
}, C any, T informer.Object](clients func(namespace string) K) *Applier[C, T] {
	a := &Applier[C, T]{limit: maxRemembered, memory: map[endpoint]applied{}}
	if clients != nil {
		a.clients = func(namespace string) applyClient[C, T] { return clients(namespace) }
	}
	return a
}

// Apply makes the field manager own exactly the fields in config, and returns
// the object as the server then has it. cached is the cached object, or nil if
// the object is not cached. The UID of the cached object is a precondition: the
// server refuses a recreated object. The precondition is added to the request,
// not to config.
//
// Apply sends one request, unless that would have no effect. Before that,
// [Options].TakeOver may send two more, once for each object. A request would
// have no effect if the last request for this object was the same, and if
// cached shows that every field in config is still owned and still has the
// value that the server then returned. In this case Apply returns cached
// itself. For one minute after the server or the cache has last shown these
// values, a cached object with an older resourceVersion is attributed to a
// cache that is late, and the request is not repeated. Do not modify the
// result.
//
// If the cache does not show a field in config, because a Transform has dropped
// it, the request is repeated once after each change of the object: a change of
// that field is reverted, and an unchanged object causes no request.
//
// The values in the server's answer are taken for the outcome, since a webhook
// may have changed what was sent. So an answer with an older state at a newer
// resourceVersion counts as applied until cached shows other values.
//
// With Subresource "status" the status is applied. For custom kinds it is
// locked by resourceVersion, as in [Status].
//
// Apply returns an error for an invalid option, and for [Options].Lock (put the
// resourceVersion into config instead). It returns an error for a config that
// has no name or is for an object other than the cached one. The error for a
// recreated object satisfies [IsStale]. With [Options].NoForce, the error for a
// conflict with another manager satisfies it, too.
func (a *Applier[C, T]) Apply(ctx context.Context, cached T, o *Options, config C) (T, error) {
	var zero T
	opts := o.withDefaults(ctx)
	if err := opts.validateApply(); err != nil {
		return zero, fmt.Errorf("applying: %w", err)
	}
	meta, err := encode(config)
	key := types.NamespacedName{Namespace: meta.Namespace, Name: meta.Name}
	if err == nil {
		err = meta.checkAgainst(cached)
	}
	if err != nil {
		return zero, fmt.Errorf("applying %q: %w", key, err)
	}
	if len(opts.TakeOver) > 0 && a.clients != nil && !bound.IsNil(cached) {
		if cached, err = a.takeOver(ctx, cached, &opts); err != nil {
			return zero, fmt.Errorf("taking over the fields of %q: %w", key, asConflict(key.Name, err))
		}
	}
	target := endpoint{key, opts.Subresource}
	request := sha256.Sum256(fmt.Appendf(meta.data, "%s/%t", opts.FieldManager, opts.NoForce))
	if !opts.DryRun && a.isApplied(target, cached, request, opts.FieldManager) {
		return cached, nil
	}
	got, err := a.send(ctx, cached, &opts, config, meta)
	if err != nil {
		a.forget(target)
		return zero, fmt.Errorf("applying %q: %w", key, asConflict(key.Name, err))
	}
	if !opts.DryRun {
		ownwrites.Wrote(ctx, got)
		a.remember(target, cached, got, request, opts.FieldManager)
	}
	return got, nil
}

func (a *Applier[C, T]) send(ctx context.Context, cached T, o *Options, config C, meta configMeta) (T, error) {
	var zero T
	want := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: meta.Namespace, Name: meta.Name}}
	c, apply, err := a.method(want, o.Subresource)
	if err != nil {
		return zero, err
	}
	if !bound.IsNil(cached) {
		if config, err = withCondition(config, meta, cached, o.Subresource); err != nil {
			return zero, err
		}
		want.UID = cached.GetUID()
	}
	watched, witness := witnessOf(ctx, c)
	got, err := apply(watched, config, metav1.ApplyOptions{
		FieldManager: o.FieldManager, Force: !o.NoForce, DryRun: o.dryRun(),
	})
	if err == nil {
		err = cmp.Or(witness.Redirect(), checkAnswer(want, got))
	}
	return got, err
}

// method returns the client of want's namespace, and its apply method for the
// subresource.
func (a *Applier[C, T]) method(want metav1.Object, subresource string) (
	client any, apply func(context.Context, C, metav1.ApplyOptions) (T, error), err error,
) {
	if a.clients == nil {
		return nil, nil, errNilArgument
	}
	c, err := bound.ClientFor(a.clients, want)
	if err != nil {
		return nil, nil, err
	}
	if subresource == "" {
		return c, c.Apply, nil
	}
	s, ok := c.(statusClient[C, T])
	if !ok {
		return nil, nil, option.Wrong("patch.Options.Subresource", subresource,
			"must be empty, because the client of the kind has no ApplyStatus")
	}
	return c, s.ApplyStatus, nil
}

// Forget drops the record of an object. The next Apply then sends its request.
// Call it when the object is deleted.
func (a *Applier[C, T]) Forget(key types.NamespacedName) {
	a.forget(endpoint{key, ""})
	a.forget(endpoint{key, status})
}

func (a *Applier[C, T]) forget(target endpoint) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.memory, target)
}

// knows reports whether the last configuration that was applied to target is
// remembered, and was applied to the object with this UID.
func (a *Applier[C, T]) knows(target endpoint, uid types.UID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	last, ok := a.memory[target]
	return ok && last.uid == uid
}

// isApplied reports whether the request is known to have no effect on the
// server.
func (a *Applier[C, T]) isApplied(target endpoint, cached T, request [sha256.Size]byte, manager string) bool {
	if bound.IsNil(cached) {
		return false
	}
	a.mu.Lock()
	last, ok := a.memory[target]
	a.mu.Unlock()
	if !ok || last.uid != cached.GetUID() || last.request != request || last.rv == "" {
		return false
	}
	rv := cached.GetResourceVersion()
	if rvorder.Older(rv, last.rv) && time.Since(last.agreedAt) < maxLate {
		return true
	}
	owned, listed := ownedBy(cached, manager)
	switch {
	case !listed:
		return rv == last.rv // without managed fields, only an unchanged object is known to be right
	case owned != last.owned:
		return rv == last.rv && owned == last.unseen
	case rvorder.Comparable(rv, last.rv):
		a.confirm(target, last, rv)
	}
	return true
}

// confirm records that the object at rv still has the fields that were applied
// last. For the time maxLate, a cached object that is older than rv is then
// taken as a sign of a late cache, not of a change by another client. confirm
// does nothing if the memory of target is no longer last.
func (a *Applier[C, T]) confirm(target endpoint, last applied, rv string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.memory[target] == last {
		last.rv, last.agreedAt, last.unseen = rv, time.Now(), [sha256.Size]byte{}
		a.memory[target] = last
	}
}

// remember stores what was applied to an endpoint, with the answer. If it is
// not known whether the server handled this request or the remembered one last,
// it stores nothing. If the memory is full, it forgets arbitrary other
// endpoints. In both cases, the cost is one needless request.
func (a *Applier[C, T]) remember(target endpoint, cached, got T, request [sha256.Size]byte, manager string) {
	last := applied{uid: got.GetUID(), request: request, rv: got.GetResourceVersion(), agreedAt: time.Now()}
	last.owned, _ = ownedBy(got, manager) // without managed fields, it is the hash of nothing, which no other object has
	if !bound.IsNil(cached) && cached.GetUID() == last.uid && cached.GetResourceVersion() == last.rv {
		last.unseen, _ = ownedBy(cached, manager)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	previous, known := a.memory[target]
	delete(a.memory, target)
	if known && previous.request != request &&
		rvorder.Comparable(last.rv, previous.rv) && !rvorder.Older(previous.rv, last.rv) {
		// This answer to a different request is not newer than the remembered
		// one, so it is not known which request the server handled last.
		// Nothing is remembered, and the next Apply sends its request.
		return
	}
	for key := range a.memory {
		if len(a.memory) < a.limit {
			break
		}
		delete(a.memory, key)
	}
	a.memory[target] = last
}

// configMeta identifies the object of a configuration. data is the
// configuration as JSON.
type configMeta struct {
	Namespace, Name, ResourceVersion string
	UID                              types.UID

	data []byte
}

// encode returns the identity of the object that config describes. The data of
// the result is config as JSON.
func encode(config any) (configMeta, error) {
	var named struct{ Metadata configMeta }
	data, err := json.Marshal(config)
	if err == nil {
		err = json.Unmarshal(data, &named)
	}
	meta := named.Metadata
	meta.data = data
	switch {
	case err != nil:
		return configMeta{}, fmt.Errorf("encoding the configuration: %w", err)
	case meta.Name == "":
		return meta, errors.New("the configuration is nil or has no name")
	case len(data) > maxBytes:
		return meta, fmt.Errorf("the configuration has %d bytes, but a server reads at most %d", len(data), maxBytes)
	}
	return meta, nil
}

// checkAgainst returns an error if the configuration is for an object other
// than the cached one.
func (m configMeta) checkAgainst(cached informer.Object) error {
	if bound.IsNil(cached) {
		return nil
	}
	key := types.NamespacedName{Namespace: m.Namespace, Name: m.Name}
	if key != bound.KeyOf(cached) || m.UID != "" && m.UID != cached.GetUID() {
		return fmt.Errorf("the configuration is for %q with UID %q, but the cached object is %q with UID %q",
			key, m.UID, bound.KeyOf(cached), cached.GetUID())
	}
	return nil
}

// withCondition returns config with the UID of the cached object as a
// precondition, and with its resourceVersion where servers ignore the UID. It
// returns config itself if there is no precondition to add, and a copy
// otherwise.
func withCondition[C any](config C, meta configMeta, cached informer.Object, subresource string) (C, error) {
	var members []byte
	if meta.UID == "" && cached.GetUID() != "" {
		members = appendMember(members, "uid", string(cached.GetUID()))
	}
	rv := cached.GetResourceVersion()
	if rv != "" && meta.ResourceVersion == "" && ignoresUID(cached, subresource) {
		members = appendMember(members, "resourceVersion", rv)
	}
	if members == nil {
		return config, nil
	}
	data := diff.WithMetadata(meta.data, members)
	var copied C
	dst := any(&copied)
	if t := reflect.TypeOf(config); t.Kind() == reflect.Pointer {
		fresh := reflect.New(t.Elem())
		copied, dst = fresh.Interface().(C), fresh.Interface()
	}
	if err := json.Unmarshal(data, dst); err != nil {
		return config, fmt.Errorf("adding the UID to the configuration: %w", err)
	}
	if encoded, err := json.Marshal(copied); err != nil || !sameJSON(encoded, data) {
		return config, errors.Join(err,
			errors.New("the configuration changes when it is encoded as JSON and decoded: add the UID to it"))
	}
	return copied, nil
}

func sameJSON(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

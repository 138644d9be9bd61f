package ranges

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/internal/absent"
	"github.com/homeostat/homeostat/internal/option"
	"github.com/homeostat/homeostat/internal/slots"
	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/leader/internal/record"
	"github.com/homeostat/homeostat/leader/shard"
	"github.com/homeostat/homeostat/leader/shard/internal/fleet"
	"github.com/homeostat/homeostat/leader/shard/internal/plan"
)

// Shards are [shard.Shards] that keep the objects of a namespace together and divide the
// namespaces into ranges, so that each replica's caches need only its own share. They are
// chosen by the number of objects in each namespace when no replica has a slot: at the
// first start, and whenever all replicas have been stopped. Then the heaviest replica
// starts with at most a fifth more than the mean, unless single namespaces are too heavy
// for that. While replicas run the ranges stay: Status.Imbalance tells how far the
// heaviest replica is above the mean meanwhile.
//
// They are safe for concurrent use.
type Shards struct {
	*shard.Shards
	replica *fleet.Replica

	equal    *adopted                // equal ranges, until the recorded ones are known
	recorded atomic.Pointer[adopted] // nil until then
	primary  slots.Cache             // counts the objects; nil before Divide
	foreign  time.Time               // when an owner with another range was last seen; the mutex of replica guards it

	mu      sync.Mutex // guards samples
	samples []sample   // the oldest first
}

// sample is the resourceVersion of a cache at a moment, or an earlier one.
type sample struct {
	at time.Time
	rv string
}

// sampleEvery is how often samples are taken, eventsKept for how long an API server
// remembers events with its defaults.
const (
	sampleEvery = 15 * time.Second
	eventsKept  = 5 * time.Minute
)

var (
	_ slots.Ranger  = (*parts)(nil)
	_ fleet.Divider = (*divider)(nil)
)

// New is [shard.New] for ranges. Options.By must be [shard.ByNamespace]. Replicas with and
// without ranges cannot share a Lease: to switch from one to the other, stop all replicas
// and delete the Lease.
//
// Errors: those of shard.New, and any other Options.By.
func New(lease leader.Lease, o *shard.Options) (*Shards, error) {
	if o != nil && o.By != shard.ByNamespace {
		return nil, fmt.Errorf("making shards %q: %w", lease.Name,
			option.Wrong("shard.Options.By", o.By, "must be ByNamespace"))
	}
	shards, err := shard.New(lease, o)
	if err != nil {
		return nil, err
	}
	inner := shards.Parts().(fleet.Parts)
	r := &Shards{Shards: shards, replica: inner.Replica()}
	r.replica.Settings[fleet.ByAnnotation], r.replica.Settings[fleet.HashAnnotation] = byRange, rangeHash
	r.equal = &adopted{Division: plan.Divide(nil, len(r.replica.View.Slots))}
	inner.DivideBy(divider{r})
	return r, nil
}

// Parts returns what only package reconcile needs: it is a [slots.Ranger] as well.
func (r *Shards) Parts() slots.Handover { return parts{r.Shards.Parts(), r} }

// parts has the methods that only package reconcile calls.
type parts struct {
	slots.Handover
	*Shards
}

// Owners returns the owners of all slots, with their weights, and the imbalance.
func (r parts) Owners() ([]slots.Status, float64) {
	status := r.Status()
	all := make([]slots.Status, len(status.Slots))
	for n, s := range status.Slots {
		all[n] = slots.Status{State: string(s.State), Owner: s.Owner, Since: s.Since, Weight: s.Weight, Heavy: s.Heavy}
	}
	return all, status.Imbalance
}

// divider has the methods that only package shard calls.
type divider struct{ *Shards }

// Divide makes sure that the server lists the objects of all caches: a replica without
// permission to list them could not work on its slots. The objects of the first, the
// primary, are counted when Run chooses the ranges. Package reconcile calls it before Run,
// like the methods below.
//
// Errors: the cause of ctx when that ends. After any other error it logs, reports it by
// Ready, and tries again after RetryPeriod.
func (r parts) Divide(ctx context.Context, caches []slots.Cache) error {
	r.primary = caches[0]
	_ = r.replica.Retry(ctx, "listing the cached kinds", func(ctx context.Context) error {
		err := r.sample(ctx, caches[0]) // from the last sample that the server still remembers
		r.forget(r.replica.Now().Add(-eventsKept))
		if err == nil {
			err = listable(ctx, caches[1:])
		}
		return err
	})
	return context.Cause(ctx)
}

// listable checks that the server lists the objects of each cache.
func listable(ctx context.Context, caches []slots.Cache) error {
	var errs []error
	for _, c := range caches {
		_, err := c.ServerResourceVersion(ctx)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// current returns the ranges, or equal ones before they are known.
func (r *Shards) current() *adopted {
	if a := r.recorded.Load(); a != nil {
		return a
	}
	return r.equal
}

func (r divider) SlotOf(namespace string) int { return r.current().SlotOf(namespace) }

func (r divider) Plan(owners, members []string) plan.Plan {
	return plan.Weigh(owners, members, r.current().Weights)
}

// Status is [shard.Shards.Status], with the weights of the slots and the imbalance.
func (r *Shards) Status() shard.Status {
	status, d := r.Shards.Status(), r.current()
	status.Imbalance = r.imbalance()
	for slot, share := range d.Shares() {
		status.Slots[slot].Weight = share
	}
	for _, of := range d.Heavy {
		slot := &status.Slots[d.SlotOf(of.Name)]
		if slot.Heavy == "" && of.Share*float64(len(status.Members)) > 1 {
			slot.Heavy = of.Name
		}
	}
	return status
}

// RunCache keeps a cache of the slots that Fill has added up to date until ctx ends. It
// calls joined when this caller has joined the others that use the cache.
//
// Errors: those with which the cache gives up; nil if ctx ended.
func (r parts) RunCache(ctx context.Context, c slots.Cache, joined func()) error {
	return c.RunShards(ctx, joined)
}

// Fill adds slots to caches, and returns when the caches have all objects of these slots,
// as new as the server was at the call. drop removes the objects of a slot.
//
// Errors: those of all caches, joined; then no cache keeps the slots. The caches are filled
// at the same time.
func (r parts) Fill(ctx context.Context, caches []slots.Cache, of []int) (drop func(slot int), err error) {
	ranges := r.rangesOf(of)
	errs := make([]error, len(caches))
	removes := make([]func(...sharding.ShardRangeRequirement), len(caches))
	var filling sync.WaitGroup
	for n, c := range caches {
		filling.Go(func() { removes[n], errs[n] = c.AddShards(ctx, ranges...) })
	}
	filling.Wait()
	remove := func(ranges ...sharding.ShardRangeRequirement) {
		for _, f := range removes {
			if f != nil {
				f(ranges...)
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		remove(ranges...)
		return nil, err
	}
	added := map[int]sharding.ShardRangeRequirement{}
	for n, slot := range of {
		added[slot] = ranges[n]
	}
	return func(slot int) { remove(added[slot]) }, nil // its range may be a different one in the next term
}

func (r *Shards) rangesOf(of []int) []sharding.ShardRangeRequirement {
	ranges, d := make([]sharding.ShardRangeRequirement, len(of)), r.current()
	for n, slot := range of {
		ranges[n] = sharding.ShardRangeRequirement(d.RangeOf(slot).Requirement())
	}
	return ranges
}

// measureEvery is how often a replica publishes how many objects it has.
const measureEvery = time.Minute

// Measure publishes how many objects this replica's slots have, as returned by objects,
// once a minute until ctx ends. The number is written with the next renewal of the
// membership, without an extra request.
func (r parts) Measure(ctx context.Context, objects func() int) {
	for ctx.Err() == nil {
		r.replica.Member.Publish(strconv.Itoa(objects()))
		r.replica.Sleep(ctx, measureEvery)
	}
}

// few objects more than the mean are no imbalance.
const few = 10

// imbalance returns how many objects the heaviest member has relative to the mean, or zero if the objects of a member
// are not known.
func (r *Shards) imbalance() float64 {
	r.replica.Lock()
	defer r.replica.Unlock()
	most, total, n := 0.0, 0.0, 0.0
	for _, o := range r.replica.View.Members {
		if record.Holder(o.Lease) == plan.Unowned {
			continue
		}
		objects, err := strconv.ParseUint(fleet.Annotation(o.Lease, record.LoadAnnotation), 10, 40)
		if err != nil {
			return 0
		}
		most, total, n = max(most, float64(objects)), total+float64(objects), n+1
	}
	if n == 0 || most-total/n < few {
		return 0
	}
	return most * n / total
}

// Remember records the state of a cache from time to time until ctx ends, so that Deleted
// can look that far back. Servers remember events for about five minutes. Sends one request
// each time; an error is logged, and the next one tried as usual.
func (r parts) Remember(ctx context.Context, primary slots.Cache, ago time.Duration) {
	for {
		r.replica.Sleep(ctx, sampleEvery)
		if ctx.Err() != nil {
			return
		}
		if err := r.sample(ctx, primary); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "cannot ask how new the server is, retrying", "lease", r.replica.Records.Key())
		}
		r.forget(r.replica.Now().Add(-ago))
	}
}

// sample records the resourceVersion of a cache, or, if it is empty, the server's.
func (r *Shards) sample(ctx context.Context, primary slots.Cache) (err error) {
	now, rv := r.replica.Now(), primary.SeenResourceVersion()
	if rv == "" {
		if rv, err = primary.ServerResourceVersion(ctx); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.samples = append(r.samples, sample{now, rv})
	return nil
}

// forget drops the samples that are not needed to look back to a moment.
func (r *Shards) forget(moment time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.samples = since(r.samples, moment)
}

// since returns the samples from a moment on, and the last one before it.
func since(samples []sample, moment time.Time) []sample {
	for len(samples) > 1 && !samples[1].at.After(moment) {
		samples = samples[1:]
	}
	return samples
}

// Deleted calls found with the keys of objects that were deleted within ago and never
// were in the cache. If the server no longer remembers that far back, Deleted asks for a
// shorter time. It calls found from its own goroutine, and may name a key more than once.
//
// Errors: the server's, that of a cache that is not running, or that of ctx; then some keys
// may be missing.
func (r parts) Deleted(
	ctx context.Context, primary slots.Cache, of []int, ago time.Duration, found func(types.NamespacedName),
) (err error) {
	r.mu.Lock()
	samples := slices.Clone(since(r.samples, r.replica.Now().Add(-ago)))
	r.mu.Unlock()
	for _, s := range samples {
		err = primary.DeletedSince(ctx, s.rv, found, r.rangesOf(of)...)
		if !absent.IsExpired(err) {
			return err
		}
	}
	return err
}

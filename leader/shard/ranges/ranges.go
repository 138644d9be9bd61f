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

// Shards are [shard.Shards] that divide the namespaces into ranges, so that
// each replica's caches hold only the objects of its own namespaces. They are
// safe for concurrent use.
//
// Ranges are chosen by the number of objects of the controller's kind in each
// namespace, when no replica has a slot: at the first start, and whenever all
// replicas have been stopped. With 64 slots and up to 16 replicas, the heaviest
// replica then starts with at most a fifth more objects than the mean, unless a
// single namespace is too heavy for that. While replicas run, the ranges stay
// the same. Status.Imbalance shows how far the heaviest replica is above the
// mean.
type Shards struct {
	*shard.Shards
	replica *fleet.Replica

	equal    *adopted                // equal ranges, used until recorded ranges are known
	recorded atomic.Pointer[adopted] // nil until a term has adopted ranges
	primary  slots.Cache             // the cache whose objects are counted; nil before Divide
	foreign  time.Time               // when an owner with a different range was last seen; guarded by replica's mutex

	mu      sync.Mutex // guards samples
	samples []sample   // the samples, the oldest first
}

// sample is a resourceVersion that a cache had seen at a point in time. The
// cache may have seen a newer one.
type sample struct {
	taken time.Time
	rv    string
}

// sampleEvery is how often samples are taken. eventsKept is how long an API
// server remembers events by default.
const (
	sampleEvery = 15 * time.Second
	eventsKept  = 5 * time.Minute
)

var (
	_ slots.Ranger  = (*parts)(nil)
	_ fleet.Divider = (*divider)(nil)
)

// New is [shard.New] for ranges. Options.By must be [shard.ByNamespace].
// Replicas with and without ranges cannot share a Lease. To switch from one to
// the other, stop all replicas and delete the Lease.
//
// New returns the errors of shard.New, and an error if Options.By is different.
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

// Parts returns the methods that only package reconcile needs. The result also
// implements [slots.Ranger].
func (r *Shards) Parts() slots.Handover { return parts{r.Shards.Parts(), r} }

// parts has the methods that only package reconcile calls.
type parts struct {
	slots.Handover
	*Shards
}

// Owners returns the state of each slot, including its owner and its weight,
// and the imbalance.
func (r parts) Owners() ([]slots.Status, float64) {
	status := r.Status()
	owners := make([]slots.Status, len(status.Slots))
	for n, s := range status.Slots {
		owners[n] = slots.Status{State: string(s.State), Owner: s.Owner, Since: s.Since, Weight: s.Weight, Heavy: s.Heavy}
	}
	return owners, status.Imbalance
}

// divider has the methods that only package shard calls.
type divider struct{ *Shards }

// Divide sets the caches whose objects the replicas divide, and waits until the
// server lists the objects of each of them. A replica without permission to
// list them could not work on its slots. The first cache is the primary: its
// objects are counted when Run chooses the ranges. Package reconcile calls
// Divide and the methods below. It calls Divide before Run.
//
// Divide returns the cause of ctx if ctx ends first, and otherwise nil. It logs
// every other error, reports the error by Ready, and tries again after
// RetryPeriod.
func (r parts) Divide(ctx context.Context, caches []slots.Cache) error {
	r.primary = caches[0]
	_ = r.replica.Retry(ctx, "listing the cached kinds", func(ctx context.Context) error {
		err := r.sample(ctx, caches[0])
		r.forget(r.replica.Now().Add(-eventsKept))
		if err == nil {
			err = listable(ctx, caches[1:])
		}
		return err
	})
	return context.Cause(ctx)
}

// listable returns an error for each cache whose objects the server does not
// list, joined.
func listable(ctx context.Context, caches []slots.Cache) error {
	var errs []error
	for _, c := range caches {
		_, err := c.ServerResourceVersion(ctx)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// current returns the adopted ranges, or equal ranges before any were adopted.
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

// Status returns the state of the shards as [shard.Shards.Status] does, with
// the weights of the slots and the imbalance.
func (r *Shards) Status() shard.Status {
	status, d := r.Shards.Status(), r.current()
	status.Imbalance = r.imbalance()
	for slot, share := range d.Shares() {
		status.Slots[slot].Weight = share
	}
	for _, heavy := range d.Heavy {
		slot := &status.Slots[d.SlotOf(heavy.Name)]
		if slot.Heavy == "" && heavy.Share*float64(len(status.Members)) > 1 {
			slot.Heavy = heavy.Name
		}
	}
	return status
}

// RunCache keeps a cache up to date until ctx ends, with the slots that Fill
// has added. Several callers may share the cache; RunCache calls joined when
// this caller has joined them.
//
// RunCache returns the error with which the cache gives up, or nil if ctx
// ended.
func (r parts) RunCache(ctx context.Context, c slots.Cache, joined func()) error {
	return c.RunShards(ctx, joined)
}

// Fill adds slots to caches. It returns when each cache has all objects of
// these slots, as new as the server was at the call. The caches are filled
// concurrently. drop removes the objects of a slot from all caches.
//
// Fill returns the errors of all caches, joined. If it returns an error, no
// cache keeps the slots.
func (r parts) Fill(ctx context.Context, caches []slots.Cache, numbers []int) (drop func(slot int), err error) {
	ranges := r.rangesOf(numbers)
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
	for n, slot := range numbers {
		added[slot] = ranges[n]
	}
	return func(slot int) { remove(added[slot]) }, nil // its range may be a different one in the next term
}

func (r *Shards) rangesOf(numbers []int) []sharding.ShardRangeRequirement {
	ranges, d := make([]sharding.ShardRangeRequirement, len(numbers)), r.current()
	for n, slot := range numbers {
		ranges[n] = sharding.ShardRangeRequirement(d.RangeOf(slot).Requirement())
	}
	return ranges
}

// measureEvery is how often a replica publishes how many objects it has.
const measureEvery = time.Minute

// Measure publishes the number of objects in this replica's slots, once a
// minute until ctx ends. It calls objects to get this number. The number is
// written with the next renewal of the membership, without an extra request.
func (r parts) Measure(ctx context.Context, objects func() int) {
	for ctx.Err() == nil {
		r.replica.Member.Publish(strconv.Itoa(objects()))
		r.replica.Sleep(ctx, measureEvery)
	}
}

// smallSurplus is the number of objects above the mean from which a replica
// counts as imbalanced.
const smallSurplus = 10

// imbalance returns the number of objects of the heaviest member relative to
// the mean. For example, 2 means twice the mean. It returns zero if the number
// of a member is unknown, or if the heaviest member has fewer than smallSurplus
// objects above the mean.
func (r *Shards) imbalance() float64 {
	r.replica.Lock()
	defer r.replica.Unlock()
	maximum, total, n := 0.0, 0.0, 0.0
	for _, o := range r.replica.View.Members {
		if record.Holder(o.Lease) == plan.Unowned {
			continue
		}
		objects, err := strconv.ParseUint(fleet.Annotation(o.Lease, record.LoadAnnotation), 10, 40)
		if err != nil {
			return 0
		}
		maximum, total, n = max(maximum, float64(objects)), total+float64(objects), n+1
	}
	if n == 0 || maximum-total/n < smallSurplus {
		return 0
	}
	return maximum * n / total
}

// Remember samples the resourceVersion of a cache every 15 seconds until ctx
// ends, and keeps the samples of the last period. So Deleted can find the
// objects that were deleted during that period, as far as the server still has
// their events: servers keep events for about five minutes. As long as the
// cache has not seen a resourceVersion, because no slot was added to it yet, a
// sample costs one request. If the request fails, the error is logged and the
// next sample is taken as usual.
func (r parts) Remember(ctx context.Context, primary slots.Cache, period time.Duration) {
	for {
		r.replica.Sleep(ctx, sampleEvery)
		if ctx.Err() != nil {
			return
		}
		if err := r.sample(ctx, primary); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "reading the server's resourceVersion failed, retrying",
				"lease", r.replica.Records.Key())
		}
		r.forget(r.replica.Now().Add(-period))
	}
}

// sample records the resourceVersion of a cache. If the cache has not seen any
// yet, it records the server's.
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

// forget drops the samples that are not needed to look back to moment.
func (r *Shards) forget(moment time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.samples = samplesSince(r.samples, moment)
}

// samplesSince returns the samples since moment, and the last sample before it.
func samplesSince(samples []sample, moment time.Time) []sample {
	for len(samples) > 1 && !samples[1].taken.After(moment) {
		samples = samples[1:]
	}
	return samples
}

// Deleted calls found with the key of each object of the slots that was deleted
// before the cache could contain it. It looks back for period, or for as long
// as the server keeps events if that is shorter. It calls found in the
// goroutine of its caller, before it returns, and may name a key more than
// once.
//
// Deleted returns an error if the server no longer has the events since the
// last sample, if the cache is not running, or if ctx ends. Some keys may then
// be missing. The cache retries other requests that fail.
func (r parts) Deleted(
	ctx context.Context, primary slots.Cache, numbers []int, period time.Duration, found func(types.NamespacedName),
) (err error) {
	r.mu.Lock()
	samples := slices.Clone(samplesSince(r.samples, r.replica.Now().Add(-period)))
	r.mu.Unlock()
	for _, s := range samples {
		err = primary.DeletedSince(ctx, s.rv, found, r.rangesOf(numbers)...)
		if !absent.IsExpired(err) {
			return err
		}
	}
	return err
}

package shard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/internal/absent"
	"github.com/homeostat/homeostat/internal/keyspace"
	"github.com/homeostat/homeostat/internal/option"
	"github.com/homeostat/homeostat/internal/slots"
	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/leader/internal/record"
)

// Ranges are [Shards] that keep the objects of a namespace together and divide the
// namespaces into ranges, so that each replica's caches need only its own share. They are
// chosen by the number of objects in each namespace when the very first replica starts, so
// that the heaviest replica starts with at most a fifth more than the mean, unless single
// namespaces are too heavy for that.
//
// Each replica publishes, with its Lease, how many objects its slots have and how long
// their reconciles take. When the heaviest replica has been more than a fifth above the
// mean for some time, the first member by name records better ranges, if they are worth the
// moves: with different weights, or with heavy ranges split and light ones joined. The
// others adopt them while they run.
//
// Ranges are safe for concurrent use.
type Ranges struct {
	*Shards
	current // the ranges that all replicas have
	changes

	proposal atomic.Pointer[division] // the ranges of this replica, if it is the first

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
	_ Assignment     = (*Ranges)(nil)
	_ Reporter       = (*Ranges)(nil)
	_ slots.Handover = (*Ranges)(nil)
	_ slots.Ranger   = (*Ranges)(nil)
	_ divider        = (*Ranges)(nil)
)

// NewRanges is [New] for ranges. Options.By must be [ByNamespace]. Replicas with and
// without ranges cannot share a Lease: to switch from one to the other, stop all replicas
// and delete the Lease.
//
// Errors: those of New, and any other Options.By.
func NewRanges(lease leader.Lease, o *Options) (*Ranges, error) {
	if o != nil && o.By != ByNamespace {
		return nil, fmt.Errorf("making shards %q: %w", lease.Name,
			option.Wrong("shard.Options.By", o.By, "must be ByNamespace"))
	}
	shards, err := New(lease, o)
	if err != nil {
		return nil, err
	}
	equal := divide(nil, shards.options.Slots)
	r := &Ranges{Shards: shards, current: current{equal: &equal}}
	r.changes = changes{of: &shards.replica, current: &r.current}
	shards.ranges = r
	return r, nil
}

// Divide makes sure that the ranges are known, and that the server lists the objects of all
// caches, the primary first: a replica without permission to list them could not work on
// its slots. Package reconcile calls it, like the methods below. A namespace with more than
// a third of all objects is logged: it cannot be divided.
//
// Errors: [ErrConfig], and the cause of ctx when that ends. After any other error it logs,
// reports it by Ready, and tries again after RetryPeriod.
func (r *Ranges) Divide(ctx context.Context, caches []slots.Cache) error {
	for ctx.Err() == nil {
		err := r.sample(ctx, caches[0]) // from the last sample that the server still remembers
		r.forget(r.now().Add(-eventsKept))
		if err == nil {
			err = listable(ctx, caches[1:])
		}
		if err == nil {
			if err = r.choose(ctx, caches[0]); err == nil || errors.Is(err, ErrConfig) {
				return err
			}
		}
		r.report(err)
		klog.FromContext(ctx).Error(err, "cannot divide the namespaces, or list the cached kinds, retrying",
			"lease", r.records.key())
		r.sleep(ctx, r.member.Timing.RetryPeriod)
	}
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

// choose adopts the recorded ranges, or proposes some if there are none.
func (r *Ranges) choose(ctx context.Context, primary slots.Cache) error {
	lease, err := r.records.read(ctx, r.records.name)
	if err == nil {
		ours := r.options.annotations()
		r.propose(ours)
		if r.division.Load() != nil { // running replicas adopt changes on their own
			return r.records.compare(lease.Annotations, ours)
		}
		return r.agree(lease, ours)
	}
	if !record.IsNotFound(err, r.records.name) {
		return r.records.explain("reading", err)
	}
	namespaces, err := primary.CountNamespaces(ctx)
	if err != nil {
		return err
	}
	d := divide(namespaces, r.options.Slots)
	r.proposal.Store(&d)
	for _, of := range d.heavy {
		if of.Share > 1.0/3 {
			klog.FromContext(ctx).Info("namespace too heavy to be balanced: shards do not divide it",
				"namespace", of.Name, "objects", namespaces[of.Name], "ofAll", of.Share)
		}
	}
	return nil
}

func (r *Ranges) propose(config map[string]string) {
	d := r.proposal.Load()
	if d == nil {
		d = r.equal
	}
	config[byAnnotation], config[hashAnnotation], config[rangesAnnotation] = byRange, rangeHash, d.String()
	config[heavyAnnotation] = formatHeavy(d.heavy)
}

func (r *Ranges) adopt(config *coordinationv1.Lease) error {
	d, err := parseDivision(config.Annotations[rangesAnnotation], r.options.Slots)
	if err == nil {
		d.heavy, d.uid = parseHeavy(config.Annotations[heavyAnnotation]), string(config.UID)
		r.division.Store(d)
		r.changes = changes{of: &r.replica, current: &r.current}
	}
	return err
}

func (r *Ranges) plan(owners, members []string) plan {
	return planByWeight(owners, members, r.divided().weights)
}

// Status is [Shards.Status], with the weights of the slots.
func (r *Ranges) Status() Status {
	status, d := r.Shards.Status(), r.divided()
	total := max(sum(d.weights), 1e-9)
	for slot := range status.Slots {
		status.Slots[slot].Weight = d.weights[slot] / total
	}
	for _, of := range d.heavy {
		slot := &status.Slots[d.slotOf(keyspace.Of(of.Name))]
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
func (r *Ranges) RunCache(ctx context.Context, c slots.Cache, joined func()) error {
	return c.RunShards(ctx, joined)
}

// Fill adds slots to caches, and returns when the caches have all objects of these slots,
// as new as the server was at the call. drop removes the objects of a slot.
//
// Errors: those of all caches, joined; then no cache keeps the slots. The caches are filled
// at the same time.
func (r *Ranges) Fill(ctx context.Context, caches []slots.Cache, of []int) (drop func(slot int), err error) {
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
	return func(slot int) { remove(added[slot]) }, nil // its range may be a different one by then
}

func (r *Ranges) rangesOf(of []int) []sharding.ShardRangeRequirement {
	ranges, d := make([]sharding.ShardRangeRequirement, len(of)), r.divided()
	for n, slot := range of {
		ranges[n] = sharding.ShardRangeRequirement(d.rangeOf(slot).Requirement())
	}
	return ranges
}

// Remember records the state of a cache from time to time until ctx ends, so that Deleted
// can look that far back. Servers remember events for about five minutes. Sends one request
// each time; an error is logged, and the next one tried as usual.
func (r *Ranges) Remember(ctx context.Context, primary slots.Cache, ago time.Duration) {
	for {
		r.sleep(ctx, sampleEvery)
		if ctx.Err() != nil {
			return
		}
		if err := r.sample(ctx, primary); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "cannot ask how new the server is, retrying", "lease", r.records.key())
		}
		r.forget(r.now().Add(-ago - r.changeTime()))
	}
}

// changeTime is for how much longer no replica may work on a slot whose range changes: until all others are drained.
func (r *Ranges) changeTime() time.Duration { return 4 * r.member.Timing.LeaseDuration }

// sample records the resourceVersion of a cache, or, if it is empty, the server's.
func (r *Ranges) sample(ctx context.Context, primary slots.Cache) (err error) {
	now, rv := r.now(), primary.LastResourceVersion()
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
func (r *Ranges) forget(moment time.Time) {
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
func (r *Ranges) Deleted(
	ctx context.Context, primary slots.Cache, of []int, ago time.Duration, found func(types.NamespacedName),
) (err error) {
	if d := r.divided(); slices.ContainsFunc(d.moved(), func(slot int) bool { return slices.Contains(of, slot) }) {
		ago += r.changeTime()
	}
	r.mu.Lock()
	samples := slices.Clone(since(r.samples, r.now().Add(-ago)))
	r.mu.Unlock()
	for _, s := range samples {
		err = primary.DeletedSince(ctx, s.rv, found, r.rangesOf(of)...)
		if !absent.IsExpired(err) {
			return err
		}
	}
	return err
}

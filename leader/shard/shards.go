package shard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/internal/slots"
	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/leader/internal/record"
	"github.com/homeostat/homeostat/leader/shard/internal/fleet"
	"github.com/homeostat/homeostat/leader/shard/internal/plan"
)

// Shards divide the keys among replicas by Leases, so that at most one replica
// at a time owns a slot. Set them as Options.Shards of package reconcile. They
// are safe for concurrent use.
type Shards struct {
	replica      *fleet.Replica
	options      Options
	settlePeriod time.Duration
	divider      fleet.Divider // nil if keys are divided by their hash
	running      atomic.Bool
}

var _ fleet.Parts = parts{}

// New returns the shards of a Lease. It starts no goroutine and sends no
// request. The record of the configuration has the Lease's name. The names of
// all other records begin with it. Besides get, create and update, the Lease's
// client needs the verbs list, watch and delete on leases.
//
// New returns all mistakes in lease and options as one joined error.
func New(lease leader.Lease, o *Options) (*Shards, error) {
	set := o.withDefaults()
	errs := []error{set.validate()}
	if _, err := leader.New(lease, &set.Member); err != nil {
		errs = append(errs, errors.Unwrap(err))
	}
	r := fleet.Records{Client: lease.Client, Namespace: lease.Namespace, Name: lease.Name}
	if lease.Name != "" && lease.Identity != "" {
		errs = append(errs, r.Validate(lease.Identity))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("making shards %q: %w", r.Key(), err)
	}
	lease.Name = r.MemberName(lease.Identity)
	elector, err := leader.New(lease, &set.Member)
	if err != nil {
		return nil, err
	}
	member := record.NewMember(fleet.Verbs, record.MemberLabels(r.Name))
	elector.Parts().Join(member)
	r.Owner, r.Timeout = elector, member.Timing.AnswerTimeout
	return &Shards{
		replica:      fleet.New(r, set.settings(), set.Slots, elector, member),
		options:      set,
		settlePeriod: cmp.Or(set.Settle, member.Timing.LeaseDuration/3),
	}, nil
}

// Slot returns the slot of a key, from 0 to Options.Slots - 1. With [ByKey],
// pass it the key of the root owner. With package ranges, it assumes equal
// ranges until the recorded ones are known, and its result changes only while
// fn runs for no slot.
//
// It may be called from any goroutine and sends no request: it computes a hash
// and, with package ranges, searches the current ranges.
func (s *Shards) Slot(key types.NamespacedName) int {
	switch {
	case s.divider != nil:
		return s.divider.SlotOf(key.Namespace)
	case s.options.By == ByKey:
		return plan.SlotOf(key.Namespace+"/"+key.Name, s.options.Slots)
	default:
		return plan.SlotOf(key.Namespace, s.options.Slots)
	}
}

// Fence is [leader.Elector.Fence] for the membership: clients of the returned
// config write only while no other replica can have declared this membership
// expired. A refused write fails with [leader.ErrFenced]. The fence does not
// know about single slots, so the function that is passed to [Shards.Run] must
// not return before its writes have ended.
func (s *Shards) Fence(config *rest.Config) *rest.Config { return s.replica.Elector.Fence(config) }

// Healthy returns nil, or an error if only a restart of the process helps, for
// livez. See [leader.Elector.Healthy].
func (s *Shards) Healthy() error { return s.replica.Elector.Healthy() }

// Ready returns nil if this replica is a member and can read and write the
// records, for readyz. It sends no request.
//
// The error says why the records cannot be read, why a write failed within the
// last two retry periods, or why this replica cannot become a member or renew
// its membership. If this replica is not a member and no such problem is known,
// the error is "not a member yet".
func (s *Shards) Ready() error {
	problem := s.replica.Problems()
	if member := s.replica.Elector.Status(); !member.Leading {
		if err := errors.Join(problem, s.replica.Elector.Ready()); err != nil {
			return err
		}
		return fmt.Errorf("joining shards %q: not a member yet", s.replica.Records.Key())
	}
	return problem
}

// Run joins the replicas and calls fn for each slot that this replica gets,
// each in a goroutine of its own. The context of fn is the ownership of the
// slot: it ends with a cause that wraps [ErrMoved], [leader.ErrLost],
// [leader.ErrFenced] or [leader.ErrStopping]. After ErrMoved or ErrStopping, no
// other replica gets the slot before fn has returned, while the membership
// lasts. After ErrLost or ErrFenced another replica may get it earlier, so fn
// must then stop its work at once. [Shards.Fence] refuses writes in time.
//
// So fn should first make sure that its caches are at least as new as its call,
// then enqueue all keys of the slot, and work. When its context has ended, it
// should wait for reconciles in flight, and return.
//
// Run returns [ErrConfig] if the replicas divide the keys differently, the
// error of fn unless it only reports the end of its context, an error if fn
// returned nil before its context ended, and nil if ctx ended. It also returns
// an error if fn is nil or Run is already running. Run may be called again
// after it has returned.
func (s *Shards) Run(ctx context.Context, fn func(ctx context.Context, slot int) error) error {
	if !s.running.CompareAndSwap(false, true) {
		return fmt.Errorf("running shards %q: already running", s.replica.Records.Key())
	}
	defer s.running.Store(false)
	if fn == nil {
		return fmt.Errorf("running shards %q: the function to run is nil", s.replica.Records.Key())
	}
	if err := s.checkConfig(ctx); err != nil {
		return fmt.Errorf("joining shards %q: %w", s.replica.Records.Key(), err)
	}
	if ctx.Err() != nil {
		return nil
	}
	return s.replica.Elector.Run(ctx, func(ctx context.Context) error {
		if s.divider != nil {
			if err := s.divider.Enter(ctx); err != nil || ctx.Err() != nil {
				return err
			}
		}
		return newKeeper(s, fn).run(ctx)
	})
}

// checkConfig compares this replica's configuration with the recorded one, and
// records it if it is the first. It retries until the API server answers or ctx
// ends.
func (s *Shards) checkConfig(ctx context.Context) error {
	check := s.agree
	if s.divider != nil {
		check = s.divider.Choose
	}
	return s.replica.Retry(ctx, "checking the configuration", check)
}

// agree returns an [ErrConfig] if the recorded configuration differs from this
// replica's. It records the configuration if it is the first.
func (s *Shards) agree(ctx context.Context) error {
	r := s.replica.Records
	recorded, err := r.Config(ctx, s.replica.Settings)
	if err != nil {
		return err
	}
	return r.Compare(recorded.Annotations, s.replica.Settings)
}

// Parts returns the methods that only package reconcile and package ranges
// need.
func (s *Shards) Parts() slots.Handover { return parts{s} }

// parts implements [slots.Handover] and [fleet.Parts].
type parts struct{ *Shards }

// Leave replaces the keys that this replica leaves for the next owner of a
// slot. They are written when the slot is released. Keys for which the slot's
// record has no room are dropped, and their number is logged. Keys are lost if
// this replica dies before it has released the slot.
//
// Leave and Left may be called from any goroutine, and send no request.
func (p parts) Leave(slot int, keys []types.NamespacedName) { p.replica.Leave(slot, keys) }

// Left returns the keys that the last owner of a slot has left, possibly nil.
func (p parts) Left(slot int) []types.NamespacedName { return p.replica.Left(slot) }

// Owners returns the owners of all slots.
func (p parts) Owners() (owners []slots.Status, imbalance float64) {
	for _, s := range p.Status().Slots {
		owners = append(owners, slots.Status{State: string(s.State), Owner: s.Owner, Since: s.Since})
	}
	return owners, 0
}

// Replica implements [fleet.Parts].
func (p parts) Replica() *fleet.Replica { return p.replica }

// DivideBy implements [fleet.Parts].
func (p parts) DivideBy(d fleet.Divider) { p.divider = d }

// Status returns the owner of each slot and the time of its last change, as the
// watch has shown them. Before Run, no slot has an owner. Status sends no
// request, and its result is a copy.
func (s *Shards) Status() Status {
	now, member := s.replica.Now(), s.replica.Elector.Status()
	s.replica.Lock()
	defer s.replica.Unlock()
	status := Status{Member: member, Slots: make([]SlotStatus, len(s.replica.View.Slots))}
	live := map[string]bool{}
	for _, o := range s.replica.View.Members {
		if holder := record.Holder(o.Lease); holder != plan.Unowned && now.Before(o.FreeAt(s.replica.View.Duration)) {
			live[holder] = true
			status.Members = append(status.Members, holder)
		}
	}
	slices.Sort(status.Members)
	for slot := range status.Slots {
		owner, state := s.replica.View.Owner(slot, member.Identity, now), Elsewhere
		switch {
		case s.replica.IsWorking(slot):
			state = Here
		case owner == plan.Unowned && now.Before(s.replica.View.Quiet[slot]), owner != plan.Unowned && !live[owner]:
			state = Unavailable
		case owner == plan.Unowned:
			state = Claimable
		}
		status.Slots[slot] = SlotStatus{State: state, Owner: owner, Since: s.replica.View.Slots[slot].Since}
	}
	return status
}

// String returns a summary like "21 of 64 slots are here; members: a_02ab.1,
// b_77c0.1".
func (s *Shards) String() string {
	status := s.Status()
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d slots are here; members: %s",
		status.Count(Here), len(status.Slots), cmp.Or(strings.Join(status.Members, ", "), "none"))
	for _, state := range []State{Claimable, Unavailable} {
		if n := status.Count(state); n > 0 {
			fmt.Fprintf(&b, "; %d are %s", n, state)
		}
	}
	if err := s.Ready(); err != nil {
		fmt.Fprintf(&b, " (%v)", err)
	}
	return b.String()
}

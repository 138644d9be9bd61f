package shard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/leader/internal/record"
)

// Shards divide keys into slots and the slots among the replicas, so that each
// slot is owned by one of them at a time. It is safe for concurrent use.
type Shards struct {
	records records
	options Options
	elector *leader.Elector
	member  *record.Member // the elector's

	mu      sync.Mutex // guards what follows
	running bool
	view    *view
	problem error
	working map[int]bool // slots whose function runs
}

// New checks lease and options. It starts nothing. The Lease's name is that of
// the record of how the keys are divided, and the start of the names of all
// others; besides get, create and update, its client needs list, watch and
// delete.
func New(lease leader.Lease, o *Options) (*Shards, error) {
	set := o.withDefaults()
	errs := []error{set.validate()}
	if _, err := leader.New(lease, &set.Member); err != nil {
		errs = append(errs, errors.Unwrap(err))
	}
	r := records{client: lease.Client, namespace: lease.Namespace, name: lease.Name}
	if lease.Name != "" && lease.Identity != "" {
		errs = append(errs, r.validateNames(lease.Identity))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("making shards %q: %w", r.key(), err)
	}
	member := record.NewMember(lease.Client, verbs, r.memberLabels())
	lease.Client, lease.Name = member, r.memberName(lease.Identity)
	elector, err := leader.New(lease, &set.Member)
	if err != nil {
		return nil, err
	}
	set.Settle = cmp.Or(set.Settle, member.Timing.LeaseDuration/3)
	return &Shards{
		records: r,
		options: set,
		elector: elector,
		member:  member,
		view:    newView(r, set, member),
		working: map[int]bool{},
	}, nil
}

// Slot returns the slot of a key. With [ByKey], give it the key of the root
// owner.
func (s *Shards) Slot(key types.NamespacedName) int { return slotOfKey(key, s.options) }

// Fence is [leader.Elector.Fence]: clients of the returned config write only while no
// other replica can have declared this membership expired.
func (s *Shards) Fence(config *rest.Config) *rest.Config { return s.elector.Fence(config) }

// Healthy is for livez, like [leader.Elector.Healthy].
func (s *Shards) Healthy() error { return s.elector.Healthy() }

// Ready is for readyz: nil once this replica is a member and knows the slots.
func (s *Shards) Ready() error {
	s.mu.Lock()
	problem := s.problem
	s.mu.Unlock()
	if member := s.elector.Status(); !member.Leading {
		if err := errors.Join(problem, s.elector.Ready()); err != nil {
			return err
		}
		return fmt.Errorf("joining shards %q: not a member yet", s.records.key())
	}
	return problem
}

// Run joins the replicas and calls fn for each slot that this replica gets, in
// a goroutine of its own, with a context that is the ownership: it ends with a
// cause that wraps [ErrMoved], [leader.ErrLost], [leader.ErrFenced] or [leader.ErrStopping]. The
// slot is given to another only after fn has returned. So fn first makes sure
// that its caches are at least as new as its call, then takes up all keys of
// the slot, works, and after its context has ended waits for the turns in
// flight.
//
// Errors: [ErrConfig], if the replicas divide differently; that of fn, if it
// returned before its context ended; nil if ctx ended. Run may be called again
// after it has returned.
func (s *Shards) Run(ctx context.Context, fn func(ctx context.Context, slot int) error) error {
	s.mu.Lock()
	if s.running {
		s.mu.Unlock()
		return fmt.Errorf("running shards %q: they run already", s.records.key())
	}
	s.running = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.running = false
		s.mu.Unlock()
	}()
	if err := s.agree(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("joining shards %q: %w", s.records.key(), err)
	}
	return s.elector.Run(ctx, func(ctx context.Context) error { return newKeeper(s, fn).run(ctx) })
}

// agree writes down how the keys are divided, or compares it. It tries again
// until ctx ends if the API server does not answer.
func (s *Shards) agree(ctx context.Context) error {
	here := s.records.division(s.options)
	for {
		there, err := s.divide(ctx)
		if err == nil {
			s.failed(nil)
			return disagreement(there, here)
		}
		s.failed(err)
		record.Sleep(ctx, s.member.Timing.Clock, s.member.Timing.RetryPeriod)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

func (s *Shards) divide(ctx context.Context) (*coordinationv1.Lease, error) {
	ctx, end := s.request(ctx)
	defer end()
	client := s.records.leases()
	there, err := client.Get(ctx, s.records.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		there, err = client.Create(ctx, s.records.division(s.options), metav1.CreateOptions{})
	}
	if err != nil {
		return nil, s.records.explain("reading", err)
	}
	return there, nil
}

func (s *Shards) request(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(record.WithOwn(ctx, s.elector), s.member.Timing.RequestTimeout)
}

func (s *Shards) failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problem = err
}

func (s *Shards) now() time.Time { return s.member.Timing.Clock.Now() }

package shard

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/leader/internal/record"
)

// replica is the state shared by a [Shards] and its keepers.
type replica struct {
	records records
	options Options
	elector *leader.Elector
	member  *record.Member // the elector's

	mu      sync.Mutex // guards the fields below
	view    *view
	problem error        // why the last list, watch or read failed; nil if it did not
	failure error        // why a write failed last
	failed  time.Time    // when it did
	working map[int]bool // slots whose function runs
	// left holds the keys that the last owners have left with this replica's slots, and
	// then those that it leaves itself.
	left map[int][]types.NamespacedName
}

// report records why the last list, watch or read failed, for Ready.
func (r *replica) report(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.problem = err
}

// reportWrite records why a write failed, for Ready.
func (r *replica) reportWrite(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failure, r.failed = err, r.now()
}

// problems returns the present ones. A write that has failed is tried again within a retry
// period, unless it is no longer needed.
func (r *replica) problems() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now().Sub(r.failed) > 2*r.member.Timing.RetryPeriod {
		return r.problem
	}
	return errors.Join(r.problem, r.failure)
}

func (r *replica) now() time.Time { return r.member.Timing.Clock.Now() }

func (r *replica) sleep(ctx context.Context, d time.Duration) {
	record.Sleep(ctx, r.member.Timing.Clock, d)
}

// retry calls do until it succeeds, finds that the configurations differ, or ctx ends. Ready reports other errors.
func (r *replica) retry(ctx context.Context, doing string, do func(context.Context) error) error {
	for ctx.Err() == nil {
		err := do(ctx)
		if errors.Is(err, ErrConfig) {
			return err
		}
		r.report(err)
		if err == nil {
			return nil
		}
		klog.FromContext(ctx).Error(err, doing+" failed, retrying", "lease", r.records.key())
		r.sleep(ctx, r.member.Timing.RetryPeriod)
	}
	return nil
}

// Leave replaces the keys that the next owner of a slot gets, such as those of deleted
// objects that still have to be cleaned up. Put keys that the next owner cannot find in any
// other way first. Call it before the function of the slot returns. At most 100 keys and 16 KiB
// are kept; the number of dropped keys is logged. Keys are lost if this replica dies before it
// has released the slot. The slice is retained; do not modify it.
//
// Leave and Left may be called from any goroutine, and send no request: the keys are written when
// the slot is released.
func (r *replica) Leave(slot int, keys []types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left[slot] = keys
}

// Left returns the keys that the last owner of a slot has left, or nil if there are
// none. Call it while the function of the slot runs. The slice is shared; do not modify
// it.
func (r *replica) Left(slot int) []types.NamespacedName {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.left[slot]
}

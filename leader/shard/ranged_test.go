package shard_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/internal/keyspace"
	"github.com/homeostat/homeostat/internal/test/leaseapi"
	"github.com/homeostat/homeostat/leader/shard"
)

// The ranges of the tests below: four equal ones; of the next version, in which the first two have become one and the
// last was halved; and of one after it.
const (
	firstRanges  = "0:1 4000000000000000:1 8000000000000000:1 c000000000000000:1"
	secondRanges = "0:1:0:2 8000000000000000:1:2:1 c000000000000000:1:3:2 e000000000000000:1:1:2"
	thirdRanges  = "0:1:0:2 8000000000000000:1:2:3 a000000000000000:1:3:3 e000000000000000:1:1:2"
)

// newOverOld has, for each eighth, one of each old slot that its new one waits for: those that its range overlaps, and
// the slot itself.
var newOverOld = [][]int{{0, 2}, {0, 2}, {0, 2}, {0, 2}, {4}, {4}, {6}, {6, 2}}

// eighths are namespaces, one in each eighth of the hashes.
func eighths() (names []string) {
	equal := newChangingRanges()
	for n := range 8 {
		for _, name := range equal.names {
			if keyspace.Of(name)>>61 == uint64(n) {
				names = append(names, name)
				break
			}
		}
	}
	return names
}

// ranged is a replica of ranges that change. The fixture knows which of the eighths are its.
type ranged struct {
	*shard.Ranges
	name    string
	fixture *fixture
	link    *leaseapi.Link
	logs    diary
	stop    context.CancelFunc
	wait    func() error

	mu    sync.Mutex // guards the fields below
	drain time.Duration
	left  map[int][]types.NamespacedName // the keys it leaves with slots
	found map[string]int                 // keys, and how often
	runs  map[int][][]int                // the eighths with which functions of slots were called
}

func (x *fixture) ranged(identity string) *ranged {
	x.t.Helper()
	l := x.api.Link(int64(len(identity)))
	s, err := shard.NewRanges(leaseOf(l, identity), &shard.Options{Slots: 4})
	x.Expect(err).NotTo(HaveOccurred())
	r := &ranged{
		Ranges: s, name: identity, fixture: x, link: l,
		left: map[int][]types.NamespacedName{}, found: map[string]int{}, runs: map[int][][]int{},
	}
	var ctx context.Context
	ctx, r.stop = context.WithCancel(x.t.Context())
	r.wait = background(func() error { return r.Run(r.logs.log(ctx), r.work) })
	return r
}

func (r *ranged) work(ctx context.Context, slot int) error {
	var mine []int
	for n, name := range eighths() {
		if r.Slot(types.NamespacedName{Namespace: name}) == slot {
			mine = append(mine, n)
		}
	}
	for _, n := range mine {
		r.fixture.take(n, r.name)
	}
	r.mu.Lock()
	r.runs[slot] = append(r.runs[slot], mine)
	for _, key := range r.Left(slot) {
		r.found[key.String()]++
	}
	r.mu.Unlock()
	<-ctx.Done()
	if errors.Is(context.Cause(ctx), shard.ErrMoved) {
		r.fixture.add("slot %d: %v", slot, context.Cause(ctx))
	}
	r.mu.Lock()
	drain := r.drain
	r.Leave(slot, r.left[slot])
	r.mu.Unlock()
	leaseapi.Wait(drain)
	for _, n := range mine {
		r.fixture.leave(n)
	}
	return nil
}

func (r *ranged) end() {
	r.fixture.t.Helper()
	r.stop()
	r.fixture.Expect(r.wait()).To(Succeed())
}

// die is kill -9: no further request of the replica reaches the API.
func (r *ranged) die() {
	r.link.Set(func(l *leaseapi.Link) { l.Fail = errors.New("dead") })
	r.stop()
	_ = r.wait()
}

// set changes the replica while it runs.
func (r *ranged) set(f func(*ranged)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(r)
}

// calls is how often the function of a slot was called by the replicas.
func calls(slot int, of ...*ranged) (n int) {
	for _, r := range of {
		r.set(func(r *ranged) { n += len(r.runs[slot]) })
	}
	return n
}

// slots returns the slots of the eighths, as the replica divides them.
func (r *ranged) slots() (slots []int) {
	for _, name := range eighths() {
		slots = append(slots, r.Slot(types.NamespacedName{Namespace: name}))
	}
	return slots
}

// divide records other ranges.
func (x *fixture) divide(text string) {
	x.t.Helper()
	config, err := x.api.Get("test")
	x.Expect(err).NotTo(HaveOccurred())
	config.Annotations["leader.homeostat.dev/ranges"] = text
	_, err = x.api.Update(config)
	x.Expect(err).NotTo(HaveOccurred())
}

// record returns that of a slot.
func (x *fixture) record(slot int) *coordinationv1.Lease {
	x.t.Helper()
	l, err := x.api.Get(fmt.Sprint("test-slot-", slot))
	x.Expect(err).NotTo(HaveOccurred())
	return l
}

// versions are those of the records, by slot.
func (x *fixture) versions() (versions []string) {
	x.t.Helper()
	for slot := range 4 {
		version, _, _ := strings.Cut(x.record(slot).Annotations["leader.homeostat.dev/division"], "/")
		versions = append(versions, version)
	}
	return versions
}

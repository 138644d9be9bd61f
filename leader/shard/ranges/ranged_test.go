package ranges_test

import (
	"context"
	"fmt"
	"sync"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/homeostat/homeostat/internal/keyspace"
	"github.com/homeostat/homeostat/internal/slots"
	"github.com/homeostat/homeostat/internal/test/leaseapi"
	"github.com/homeostat/homeostat/leader/shard"
	"github.com/homeostat/homeostat/leader/shard/ranges"
)

// equalRanges are the ranges that are chosen without objects.
const equalRanges = "0:0 4000000000000000:0 8000000000000000:0 c000000000000000:0"

// eighths returns namespaces, one in each eighth of the hashes.
func eighths() (names []string) {
	for n := uint64(1); len(names) < 8; n++ {
		if name := fmt.Sprintf("%x", n*0x9e3779b97f4a7c15); keyspace.Of(name)>>61 == uint64(len(names)) {
			names = append(names, name)
		}
	}
	return names
}

// heavyEighths returns the number of objects of each eighth. The first four
// eighths have most objects.
func heavyEighths() map[string]int {
	objects := map[string]int{}
	for n, name := range eighths() {
		objects[name] = 1 + 99*(7-n)/4
	}
	return objects
}

// counted is a cache that only knows the number of its objects, by namespace.
type counted struct {
	slots.Cache
	objects func() map[string]int
}

func (counted) SeenResourceVersion() string { return "1" }

func (c counted) CountNamespaces(context.Context) (map[string]int, error) { return c.objects(), nil }

// ranged is a replica of ranges. The fixture records which of the eighths it
// works on.
type ranged struct {
	*ranges.Shards
	name    string
	fixture *fixture
	link    *leaseapi.Link
	logs    diary
	stop    context.CancelFunc
	wait    func() error

	mu    sync.Mutex // guards the fields below
	left  []types.NamespacedName
	found map[string]int // how often each key was found
}

// ranged starts a replica that counts objects when it chooses the ranges.
func (x *fixture) ranged(identity string, objects map[string]int) *ranged {
	x.T.Helper()
	return x.rangedBy(identity, objects, x.API.Link(int64(len(identity))))
}

// rangedBy is ranged for a replica that uses client.
func (x *fixture) rangedBy(identity string, objects map[string]int, client coordinationclient.LeasesGetter) *ranged {
	x.T.Helper()
	r := x.newRanged(identity, client)
	x.Expect(ranger(r).Divide(x.T.Context(), []slots.Cache{counted{objects: func() map[string]int { return objects }}})).To(Succeed())
	r.start()
	return r
}

func (x *fixture) newRanged(identity string, client coordinationclient.LeasesGetter) *ranged {
	x.T.Helper()
	lease := leaseOf(nil, identity)
	lease.Client = client
	s, err := ranges.New(lease, &shard.Options{Slots: 4})
	x.Expect(err).NotTo(HaveOccurred())
	link, _ := client.(*leaseapi.Link)
	return &ranged{Shards: s, name: identity, fixture: x, link: link, found: map[string]int{}}
}

// ranger returns the methods that package reconcile needs.
func ranger(shards interface{ Parts() slots.Handover }) slots.Ranger {
	return shards.Parts().(slots.Ranger)
}

func (r *ranged) start() {
	var ctx context.Context
	ctx, r.stop = context.WithCancel(r.fixture.T.Context())
	r.wait = background(func() error { return r.Run(r.logs.Log(ctx), r.work) })
}

func (r *ranged) work(ctx context.Context, slot int) error {
	var mine []int
	for n, own := range r.slots() {
		if own == slot {
			mine = append(mine, n)
			r.fixture.Take(n, r.name)
		}
	}
	r.mu.Lock()
	for _, key := range r.Parts().Left(slot) {
		if r.Slot(key) == slot {
			r.found[key.String()]++
		}
	}
	r.mu.Unlock()
	<-ctx.Done()
	r.mu.Lock()
	var left []types.NamespacedName
	for _, key := range r.left {
		if r.Slot(key) == slot {
			left = append(left, key)
		}
	}
	r.Parts().Leave(slot, left)
	r.mu.Unlock()
	for _, n := range mine {
		r.fixture.Leave(n)
	}
	return nil
}

func (r *ranged) end() {
	r.fixture.T.Helper()
	r.stop()
	r.fixture.Expect(r.wait()).To(Succeed())
}

// die ends the replica like kill -9: no further request of it reaches the API.
func (r *ranged) die() {
	r.link.Set(func(l *leaseapi.Link) { l.Fail = leaseapi.ErrDead })
	r.stop()
	_ = r.wait()
}

// slots returns the slots of the eighths in the replica's ranges.
func (r *ranged) slots() (slots []int) {
	for _, name := range eighths() {
		slots = append(slots, r.Slot(types.NamespacedName{Namespace: name}))
	}
	return slots
}

// ranges returns the recorded ranges.
func (x *fixture) ranges() string {
	x.T.Helper()
	return x.config().Annotations["leader.homeostat.dev/ranges"]
}

func (x *fixture) config() *coordinationv1.Lease {
	x.T.Helper()
	config, err := x.API.Get("test")
	x.Expect(err).NotTo(HaveOccurred())
	return config
}

// divide records other ranges, as another client might.
func (x *fixture) divide(text string) {
	x.T.Helper()
	config := x.config()
	config.Annotations["leader.homeostat.dev/ranges"] = text
	_, err := x.API.Update(config)
	x.Expect(err).NotTo(HaveOccurred())
}

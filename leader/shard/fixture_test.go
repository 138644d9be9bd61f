package shard_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/test/leaseapi"
	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/leader/shard"
)

// fixture is leaseapi.Fixture with methods that start replicas.
type fixture struct{ *leaseapi.Fixture }

// inBubble runs f in virtual time. Then it checks that no slot ever had two
// owners at once.
func inBubble(t *testing.T, f func(x *fixture)) {
	t.Helper()
	leaseapi.InBubble(t, func(x *leaseapi.Fixture) { f(&fixture{x}) })
}

type (
	diary     = leaseapi.Diary
	transport = leaseapi.Transport
)

var (
	pass       = leaseapi.Pass
	background = leaseapi.Background
	leaseOf    = leaseapi.LeaseOf
	through    = leaseapi.SendFenced
	reply      = leaseapi.Reply
	deaf       = leaseapi.Deaf
)

// shardReplica is a running replica. The fixture records which slots it works
// on.
type shardReplica struct {
	*shard.Shards
	fixture *fixture
	link    *leaseapi.Link
	logs    diary
	stop    context.CancelFunc
	wait    func() error
}

func (x *fixture) shards(identity string, o *shard.Options) *shardReplica {
	x.T.Helper()
	l := x.API.Link(int64(len(identity)))
	r := &shardReplica{Shards: newShards(x.T, l, identity, o), fixture: x, link: l}
	var ctx context.Context
	ctx, r.stop = context.WithCancel(x.T.Context())
	r.wait = background(func() error { return r.Run(r.logs.Log(ctx), x.Work(identity, time.Second)) })
	return r
}

func (r *shardReplica) end() {
	r.fixture.T.Helper()
	r.stop()
	r.fixture.Expect(r.wait()).To(Succeed())
}

// die ends the replica like kill -9: no further request of it reaches the API.
func (r *shardReplica) die() {
	r.link.Set(func(l *leaseapi.Link) { l.Fail = leaseapi.ErrDead })
	r.stop()
	_ = r.wait()
}

func newShards(t *testing.T, l *leaseapi.Link, identity string, o *shard.Options) *shard.Shards {
	t.Helper()
	s, err := shard.New(leaseOf(l, identity), o)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return s
}

// states returns the number of slots in each state.
func states(s *shard.Shards) map[shard.State]int {
	states := map[shard.State]int{}
	for _, slot := range s.Status().Slots {
		states[slot.State]++
	}
	return states
}

// renewOnly starts an elector that renews a membership and never claims a slot.
func (x *fixture) renewOnly(name string) (stop func()) {
	x.T.Helper()
	lease := leaseOf(x.API.Link(5), name)
	lease.Name = "test-member-" + name
	l := leaseapi.Object(lease.Name)
	l.Labels = map[string]string{"leader.homeostat.dev/shards": "test", "leader.homeostat.dev/record": "member"}
	_, err := x.API.Create(l)
	x.Expect(err).NotTo(HaveOccurred())
	return x.Run(func(ctx context.Context) error {
		return leader.Run(ctx, lease, nil, func(ctx context.Context) error {
			x.Add("%s leads", name)
			<-ctx.Done()
			return nil
		})
	})
}

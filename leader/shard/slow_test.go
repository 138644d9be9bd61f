package shard_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/test/leaseapi"
	"github.com/homeostat/homeostat/leader/shard"
)

// If a claim was written but counted as failed because its answer was late, the
// slot would have an owner that does not work on it.
func TestSlotsHaveOwnersWithASlowServer(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a := x.shards("a", nil)
		slow := leaseapi.Delay{Response: 4 * time.Second}
		a.link.Set(func(l *leaseapi.Link) { l.Writes, l.Reads = slow, slow })
		pass(2 * time.Minute)
		x.Expect(x.Shares()).To(Equal(map[string]int{"a": 64}))
		pass(10 * time.Minute)
		x.Expect(x.Shares()).To(Equal(map[string]int{"a": 64}))
		a.link.Set(func(l *leaseapi.Link) { l.Writes, l.Reads = leaseapi.Delay{}, leaseapi.Delay{} })
		pass(time.Minute)
		a.end()
	})
}

// Two replicas share a few slots, and every request of both takes 4 s: each
// slot has one owner, also when a replica joins, and when one dies.
func TestReplicasShareSlotsWithASlowServer(t *testing.T) {
	inBubble(t, func(x *fixture) {
		slow := leaseapi.Delay{Response: 4 * time.Second}
		late := func(r *shardReplica) { r.link.Set(func(l *leaseapi.Link) { l.Writes = slow }) }
		o := &shard.Options{Slots: 8}
		a := x.shards("a", o)
		late(a)
		pass(2 * time.Minute)
		x.Expect(x.Shares()).To(Equal(map[string]int{"a": 8}))
		b := x.shards("b", o)
		late(b)
		pass(5 * time.Minute)
		x.Expect(x.Shares()).To(Equal(map[string]int{"a": 4, "b": 4}))
		x.MovedSince()
		pass(10 * time.Minute)
		x.Expect(x.MovedSince()).To(BeZero(), "they stay")
		a.die()
		pass(2 * time.Minute)
		x.Expect(x.Shares()).To(Equal(map[string]int{"b": 8}))
		b.link.Set(func(l *leaseapi.Link) { l.Writes = leaseapi.Delay{} })
		b.end()
	})
}

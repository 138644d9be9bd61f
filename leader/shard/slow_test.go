package shard_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/test/leaseapi"
)

// If a claim was written but counted as failed because its answer was late, the
// slot would have an owner that does not work on it.
func TestSlotsHaveOwnersWithASlowServer(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a := x.shards("a", nil)
		slow := leaseapi.Delay{Back: 4 * time.Second}
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

package shard_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/test/leaseapi"
)

// The watch shows a different owner for a moment, and a proxy answers the
// request that reads the record.
func TestAPageForARecordDoesNotLoseItsSlot(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a := x.shards("a", nil)
		pass(30 * time.Second)
		takes := x.Taken(9)
		record, err := x.API.Get("test-slot-9")
		x.Expect(err).NotTo(HaveOccurred())
		a.link.Set(func(l *leaseapi.Link) { l.FailGet = x.Pages("test-slot-9")["HTML"] })
		ours := *record.Spec.HolderIdentity
		record.Spec.HolderIdentity = new("a_00000000.7")
		record, err = x.API.Update(record)
		x.Expect(err).NotTo(HaveOccurred())
		pass(5 * time.Second)
		record.Spec.HolderIdentity = &ours
		_, err = x.API.Update(record)
		x.Expect(err).NotTo(HaveOccurred())
		pass(5 * time.Second)
		x.Expect(x.Owned()).To(HaveLen(64))
		x.Expect(x.Taken(9)).To(Equal(takes), "the slot was not given up")
		a.link.Set(func(l *leaseapi.Link) { l.FailGet = nil })
		a.end()
	})
}

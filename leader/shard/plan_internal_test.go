package shard

import (
	"testing"

	. "github.com/onsi/gomega"
)

// A replica whose own watch is silent sees no member, not even itself, and may
// take a slot all the same.
func TestAPlanWithoutMembersLeavesAllAsItIsAndCanBeAddedTo(t *testing.T) {
	g := NewWithT(t)
	p := makePlan([]string{unowned, "a_1"}, nil)
	g.Expect(p.target).To(Equal([]string{unowned, "a_1"}))
	p.owned["b_1"]++
	g.Expect(p.isGreedy("b_1")).To(BeFalse())
}

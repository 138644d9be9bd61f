package rvorder_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/rvorder"
)

func TestResourceVersionsAreComparedAsNumbers(t *testing.T) {
	g := NewWithT(t)
	g.Expect(rvorder.Older("9", "10")).To(BeTrue(), "as texts, 9 would be newer")
	g.Expect(rvorder.Older("10", "9")).To(BeFalse())
	g.Expect(rvorder.Older("10", "10")).To(BeFalse())
	g.Expect(rvorder.Older("99999999999999999999", "100000000000000000000")).To(BeTrue(), "beyond 64 bits")
}

func TestWhatIsNoVersionIsNeverOlder(t *testing.T) {
	for _, odd := range []string{"", "0", "01", "-1", "1.2", "v1", " 1"} {
		g := NewWithT(t)
		g.Expect(rvorder.Comparable(odd)).To(BeFalse(), "%q", odd)
		g.Expect(rvorder.Comparable("1", odd)).To(BeFalse(), "%q", odd)
		g.Expect(rvorder.Older(odd, "5")).To(BeFalse(), "%q", odd)
		g.Expect(rvorder.Older("5", odd)).To(BeFalse(), "%q", odd)
	}
	NewWithT(t).Expect(rvorder.Comparable("1", "18446744073709551616")).To(BeTrue())
}

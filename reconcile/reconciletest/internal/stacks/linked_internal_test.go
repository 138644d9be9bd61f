package stacks

import (
	"strings"
	"testing"
	"testing/iotest"

	. "github.com/onsi/gomega"
)

// A function of this binary is linked, and a function that exists nowhere is
// not, although its name is a constant of this binary.
func TestAFunctionIsLinkedIfTheTableOfFunctionsHasIt(t *testing.T) {
	g := NewWithT(t)
	const root = "github.com/homeostat/homeostat/reconcile/reconciletest/internal/stacks."
	g.Expect(linked(root + "linked")).To(BeTrue())
	g.Expect(linked(root + "diagnoseNothing")).To(BeFalse())
	g.Expect(managed()).To(BeFalse(), "this package does not import controller-runtime")
}

func TestATextIsFoundWhereverReadsEnd(t *testing.T) {
	g := NewWithT(t)
	for _, before := range []int{0, 1<<20 - 3, 1<<20 - 1, 1 << 20, 3<<20 - 2} {
		text := strings.Repeat("x", before) + "needle"
		g.Expect(contains(iotest.HalfReader(strings.NewReader(text)), []byte("needle"))).To(BeTrue(), "after %d bytes", before)
		g.Expect(contains(strings.NewReader(text), []byte("needles"))).To(BeFalse())
	}
	_, err := contains(iotest.ErrReader(iotest.ErrTimeout), []byte("needle"))
	g.Expect(err).To(MatchError(iotest.ErrTimeout))
}

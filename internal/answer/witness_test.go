package answer_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/answer"
)

// A request without a Witness in its context has the nil Witness.
func TestTheNilWitnessHasSeenNothing(t *testing.T) {
	g := NewWithT(t)
	w := answer.WitnessOf(t.Context())
	g.Expect(w).To(BeNil())
	w.Saw(answer.Deletion{Proven: true})
	g.Expect(w.IsDeleted("1")).To(BeFalse())
	g.Expect(w.Redirect()).To(Succeed())
}

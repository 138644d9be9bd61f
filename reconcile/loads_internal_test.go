package reconcile

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestCountingTheTimeOfAReconcileAllocatesNothing(t *testing.T) {
	g := NewWithT(t)
	r := &slotRun{}
	g.Expect(testing.AllocsPerRun(100, func() { defer r.took(time.Now()) })).To(BeZero())
}

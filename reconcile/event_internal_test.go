package reconcile

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/queue"
)

func TestCausesAreToldWithObjectChangeVersionsAndHowManyWereMerged(t *testing.T) {
	g := NewWithT(t)
	g.Expect(describe(nil)).To(BeEmpty())
	g.Expect(describe([]queue.Cause{
		{Trigger: "nodes", Name: "node-1", Type: "updated", OldVersion: "41", NewVersion: "57"},
		{Trigger: "pods", Namespace: "d", Name: "a", Type: "deleted", OldVersion: "12", Merged: 3},
		{Trigger: "resync", Namespace: "d", Name: "b", Type: "resync", Merged: 1},
	})).To(Equal("nodes: updated /node-1 41→57; pods: deleted d/a 12→ (3 merged); resync: resync d/b (1 merged)"))
}

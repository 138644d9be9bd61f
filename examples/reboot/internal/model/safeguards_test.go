package model_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/proof/mutate/overlay"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// safeguard is one that edits of the sources take out, and the invariant that must break then.
type safeguard struct {
	without string
	edits   []overlay.Edit
	breaks  string
	in      func() *reconciletest.Case // The case in which an exploration finds it; nil if only the model does.
}

const (
	steps   = "agent/steps.go"
	slot    = "controller/slot.go"
	status  = "controller/status.go"
	write   = "controller/write.go"
	reserve = "controller/reserve.go"
)

func safeguards() []safeguard {
	return []safeguard{
		{"the agent's lock on the node that it accepts", agentUnlocked("return protocol.Accept(n, progress)\n\t}"), "I6", meddling},
		{"the agent's lock on the node that it completes", agentUnlocked("return protocol.Complete(n, outcome, uncordon)\n\t}"), "I6", twins},
		{"the lock on the node that is granted", nodeUnlocked("return protocol.Grant(n, request)\n\t}"), "I6", duel},
		{"the lock on the node that is revoked", nodeUnlocked("state.Now.Epoch, state.Void))\n\t\treturn nil\n\t}"), "I6", revoking},
		{"the lock on the ledger in which slots are reserved", groupUnlocked(
			overlay.Edit{File: reserve, Old: "c.describe(v, stuck, s)\n\t}", New: "c.describe(v, stuck, s)\n\t}, true"}), "I4", duel},
		{"the lock on the ledger in which a slot is rewritten", slotsUnlocked("slots[at] = decision.Next\n\t\t\treturn slots\n\t\t}"), "I4", duel},
		{"the lock on the ledger from which a slot is released", slotsUnlocked("return s.Node == slot.Node })\n\t\t}"), "I2", duel},
		{"live nodes when slots are reserved", []overlay.Edit{
			{File: reserve, Old: "nodes, err := c.liveNodes(ctx)", New: "nodes := c.cachedNodes()"},
		}, "I4", failing},
		{"a live look at the node before its reboot", []overlay.Edit{
			{File: steps, Old: "still, err := a.stillInProgress(ctx, node, p)", New: "still, err := true, error(nil)"},
		}, "I3", meddling},
		{"the boot that a node must report before its slot is released", []overlay.Edit{
			{File: "rules/node.go", Old: "BootID != o.ToBootID", New: "BootID != o.ToBootID && false"},
		}, "I3", duel},
		{"another boot before a reboot is complete", []overlay.Edit{
			{File: "rules/agent.go", Old: "s.InProgress.BootID == bootID", New: "s.InProgress.BootID == bootID && false"},
		}, "I6", meddling},
		{"the boot that is to end", []overlay.Edit{
			{File: "rules/agent.go", Old: "s.InProgress.BootID == bootID", New: "true"},
			{File: steps, Old: "limited, cancel :=", New: "bootID, _ = a.bootID(ctx)\n\tlimited, cancel :="},
		}, "I5", twins},
		{"a new epoch for a slot that is granted again", []overlay.Edit{
			{File: "rules/slot.go", Old: "slot.Verify = why != \"\"\n", New: "return SlotDecision{Step: Grant, Why: \"needed again\"}\n"},
		}, "I5", duel},
		{"voiding the epoch of a slot that was not used", []overlay.Edit{
			{File: "rules/slot.go", Old: "case void:", New: "case void || barred != \"\":"},
		}, "I2", nil},
	}
}

// agentUnlocked takes the lock from the write of the agent whose edit ends with that text.
func agentUnlocked(end string) []overlay.Edit {
	return []overlay.Edit{
		{File: steps, Old: end, New: end + ", true"},
		{
			File: steps, Old: ") patch(ctx context.Context, node *corev1.Node, edit func(*corev1.Node) error",
			New: ") patch(ctx context.Context, node *corev1.Node, edit func(*corev1.Node) error, unlocked ...bool",
		},
		{File: steps, Old: "Lock: true", New: "Lock: len(unlocked) == 0"},
	}
}

// nodeUnlocked takes the lock from the write of a node whose edit ends with that text.
func nodeUnlocked(end string) []overlay.Edit {
	return []overlay.Edit{
		{File: slot, Old: end, New: end + ", true"},
		{File: write, Old: "edit func(*corev1.Node) error", New: "edit func(*corev1.Node) error, unlocked ...bool"},
		{File: write, Old: "node, &patch.Options{Lock: true}", New: "node, &patch.Options{Lock: len(unlocked) == 0}"},
	}
}

// groupUnlocked takes the lock from a write of the ledger. Package patch locks the status of a custom kind by itself:
// without the lock is to edit what was read as if it were what the server has now.
func groupUnlocked(edits ...overlay.Edit) []overlay.Edit {
	return append(edits,
		overlay.Edit{File: write, Old: "edit func(*api.RebootGroupStatus),\n) error {", New: `edit func(*api.RebootGroupStatus), unlocked ...bool,
) error {
	if len(unlocked) > 0 {
		live, err := c.groups.Get(ctx, group.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		group = group.DeepCopy()
		group.ResourceVersion = live.ResourceVersion
	}`},
		overlay.Edit{File: write, Old: "import (\n", New: "import (\n\tmetav1 \"k8s.io/apimachinery/pkg/apis/meta/v1\"\n"})
}

// slotsUnlocked takes the lock from the write of slots whose edit ends with that text.
func slotsUnlocked(end string) []overlay.Edit {
	return groupUnlocked(
		overlay.Edit{File: slot, Old: end, New: end + ", true"},
		overlay.Edit{File: status, Old: "edit func([]api.Slot) []api.Slot", New: "edit func([]api.Slot) []api.Slot, unlocked ...bool"},
		overlay.Edit{File: status, Old: "s.Slots = edit(s.Slots) }", New: "s.Slots = edit(s.Slots) }, unlocked..."})
}

// With the build tag mutate, TestMutantsBreakANamedInvariant does more with them.
func TestSafeguardsAreInTheSources(t *testing.T) {
	for _, s := range safeguards() {
		_, err := overlay.Apply("..", s.edits...)
		NewWithT(t).Expect(err).NotTo(HaveOccurred(), s.without)
	}
}

//go:build mutate

package model_test

import (
	"flag"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/internal/proof/mutate/overlay"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// mutant is set in a test program that was built with that mutant's edits.
var mutant = flag.String("mutant", "", "look for what breaks in the sources as they are, which are those of this mutant")

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
			{File: steps, Old: "still, err := a.stillInProgress(t.Context(), node, p)", New: "still, err := true, error(nil)"},
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
		live, err := c.groups.Get(t.Context(), group.Name, metav1.GetOptions{})
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

// long is more than any of them takes on a busy machine: what is found does not depend
// on the time, as the runs are the same ones in the same order.
const long = 5 * time.Minute

func TestMutantsBreakANamedInvariant(t *testing.T) {
	if *mutant != "" {
		t.Skip("this is a mutant")
	}
	for _, s := range safeguards() {
		t.Run(s.without, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			files, err := overlay.Apply("..", s.edits...)
			g.Expect(err).NotTo(HaveOccurred())
			here, err := filepath.Abs(".")
			g.Expect(err).NotTo(HaveOccurred())
			program, err := overlay.Build(t.Context(), t.TempDir(), here, files, "-tags=mutate")
			g.Expect(err).NotTo(HaveOccurred())
			out, err := exec.CommandContext(t.Context(), program, "-test.v", "-test.run=^TestMutant$", "-mutant="+s.without).CombinedOutput()
			g.Expect(err).NotTo(HaveOccurred(), "%s", out)
			_, found, ok := strings.Cut(string(out), "breaks "+s.breaks)
			g.Expect(ok).To(BeTrue(), "%s", out)
			found, _, _ = strings.Cut(found, "\n")
			t.Logf("%s breaks%s", s.breaks, found)
		})
	}
}

// TestMutant runs in a program whose sources have the edits of a mutant.
func TestMutant(t *testing.T) {
	if *mutant == "" {
		t.Skip("this is no mutant")
	}
	for _, s := range safeguards() {
		switch {
		case s.without != *mutant:
		case s.in == nil:
			foundByTheModel(t, s)
		default:
			foundByExploring(t, s)
		}
	}
}

func foundByExploring(t *testing.T, s safeguard) {
	o := options()
	o.Budget = long
	r := reconciletest.Search(t, s.in(), o)
	found, _, _ := strings.Cut(r.Failure, "\n")
	if r.Oracle != "always" || !strings.Contains(found, ": "+s.breaks+": ") {
		t.Fatalf("want %s broken, and the exploration says: %s %q, after %s", s.breaks, r.Oracle, r.Failure, r)
	}
	t.Logf("breaks %s in %d runs: %s", s.breaks, r.Runs, found)
}

// pausing has an administrator who pauses and resumes.
func pausing(seed uint64) scenario {
	s := everything(seed)
	s.withdraw, s.cordon, s.replace, s.limits, s.abort, s.refuse, s.flap = false, true, false, false, false, false, false
	s.nodes, s.limit, s.requests, s.minReady, s.kubelet, s.late = 2, 2, 100, 0, 0, 0.03
	s.odds.Faults, s.odds.Fault = []apisim.Fault{apisim.Late}, 0.1
	s.odds.Chaos = 0.1
	return s
}

// most is how many seeds may be needed to find out.
const most = 400

// A slot must not be released while a grant of its epoch may be on its way. For that to
// go wrong one controller has to be just before its grant, another one must not have
// granted yet, and the group must be paused in between: a step of the workload that comes
// early and a call that is late, and those an exploration does not try in pairs. The
// model does anything at any time.
func foundByTheModel(t *testing.T, s safeguard) {
	steps := 0
	for seed := uint64(1); seed <= most; seed++ {
		r := run(t, pausing(seed), seed, s.breaks)
		if steps += r.steps; r.violation != nil {
			t.Logf("breaks %s at seed %d, after %d steps: %s", s.breaks, seed, steps, r.violation.what)
			return
		}
	}
	t.Errorf("%s does not break in %d seeds, %d steps: the safeguard is not needed, or the model is too weak", s.breaks, most, steps)
}

package model_test

import (
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/internal/test/overlay"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// safeguard is one that edits of the sources take out, and the invariant that
// must break then.
type safeguard struct {
	without string
	edits   []overlay.Edit
	breaks  string
	finder  finder
}

// finder says what sees the edits. One of its fields is set.
type finder struct {
	explored func() *reconciletest.Case // The case of an exploration.
	modelled func(seed uint64) scenario // The scenario of the model.
	played   func(w *whole)             // The bias of the worlds of the whole operator.
	tested   unit                       // A test of one package.
}

type unit struct{ dir, name string }

func explored(in func() *reconciletest.Case) finder { return finder{explored: in} }
func modelled(by func(seed uint64) scenario) finder { return finder{modelled: by} }
func played(with func(w *whole)) finder             { return finder{played: with} }
func tested(dir, name string) finder                { return finder{tested: unit{dir, name}} }

const (
	accept  = "agent/accept.go"
	tell    = "agent/tell.go"
	resume  = "agent/resume.go"
	slot    = "controller/slot.go"
	status  = "controller/status.go"
	write   = "controller/write.go"
	reserve = "controller/reserve.go"
)

// safeguards returns all safeguards.
func safeguards() []safeguard { return slices.Concat(steady(), patient()) }

// steady returns the safeguards that explorations and the model find.
func steady() []safeguard {
	return []safeguard{
		{"the agent's lock on the node that it accepts", nodeUnlocked(accept, "return protocol.Accept(n, progress)\n\t}"), "I7", explored(meddling)},
		{"the agent's lock on the node that it completes", nodeUnlocked(accept, "return protocol.Complete(n, outcome, uncordon)\n\t}"), "I6", explored(twins)},
		{"the lock on the node that is granted", nodeUnlocked(slot, "return protocol.Allow(n, protocol.Grant{Request: request, Terms: terms, At: granted})\n\t}"), "I6", explored(duel)},
		{"the lock on the node that is revoked", nodeUnlocked(slot, "state.Now.Epoch, state.Void))\n\t\treturn nil\n\t}"), "I6", modelled(pausing)},
		{"the lock on the ledger in which slots are reserved", groupUnlocked(
			overlay.Edit{File: reserve, Old: "{ *s = *next })", New: "{ *s = *next }, true)"}), "I4", explored(duel)},
		{"the lock on the ledger in which a slot is rewritten", slotsUnlocked("slots[i] = decision.Next\n\t\t\treturn slots\n\t\t}"), "I4", explored(duel)},
		{"the lock on the ledger from which a slot is released", groupUnlocked(
			overlay.Edit{File: slot, Old: "NotBefore: d.NotBefore,\n\t\t\t})\n\t\t}\n\t}", New: "NotBefore: d.NotBefore,\n\t\t\t})\n\t\t}\n\t}, true"}), "I2", explored(duel)},
		{"live nodes when slots are reserved", []overlay.Edit{
			{File: reserve, Old: "nodes, err := c.liveNodes(ctx)", New: "nodes := c.cachedNodes()"},
		}, "I4", explored(failing)},
		{"the boot that a node must report before its slot is released", []overlay.Edit{
			{File: "rules/node.go", Old: "NodeInfo.BootID != o.ToBootID", New: "NodeInfo.BootID != o.ToBootID && false"},
		}, "I3", explored(duel)},
		{"another boot before a reboot is complete", []overlay.Edit{
			{File: "rules/agent.go", Old: "s.InProgress.BootID == bootID", New: "s.InProgress.BootID == bootID && false"},
		}, "I6", explored(meddling)},
		{"the boot that is to end, for a machine that is told again", []overlay.Edit{
			{File: "rules/agent.go", Old: "s.InProgress.BootID == bootID", New: "true"},
			{File: tell, Old: "limited, cancel :=", New: "p.BootID, _ = a.bootID(ctx)\n\tlimited, cancel :="},
			{File: tell, Old: "if !m.called.IsZero() && m.refusal == nil {", New: "if time.Since(m.called) < time.Second {"},
		}, "I5", explored(twins)},
		{"a new epoch for a slot that is granted again", []overlay.Edit{
			{File: "rules/slot.go", Old: "slot.Verify = !returned\n", New: "return SlotDecision{Step: Grant, Why: \"needed again\"}\n"},
		}, "I5", explored(duel)},
		{"voiding the epoch of a slot that was not used", []overlay.Edit{
			{File: "rules/slot.go", Old: "case void:", New: "case void || barred != \"\":"},
		}, "I2", modelled(pausing)},
		{"the agent's lock on the node that is drained", nodeUnlocked(resume, "return protocol.Proceed(n, p)\n\t}"), "I6", explored(meddling)},
		{"a drain before the reboot", []overlay.Edit{
			{File: "rules/agent.go", Old: "case !p.Drained:\n\t\treturn Evict", New: "case !p.Drained && false:\n\t\treturn Evict"},
			{File: "rules/progress.go", Old: "case p.Drained && p.Waits", New: "case p.Waits"},
		}, "I8", modelled(blocking)},
		{"the Pods that are left", []overlay.Edit{
			{File: "drain/drain.go", Old: "pass.Left = append(pass.Left, left...)\n", New: "_ = left\n"},
		}, "I8", modelled(blocking)},
		{"the request when a reboot is called off", []overlay.Edit{
			{File: "protocol/edit.go", Old: "annotate(node, Needed, o.Request.Request)", New: "annotate(node, Void, \"1\")"},
		}, "I6", modelled(blocking)},
		{"the epoch of a reboot that was called off", []overlay.Edit{
			{File: slot, Old: "= p.Request, p.BootID, p.BootID", New: "= protocol.Request{Request: p.Request.Request, Epoch: 1}, p.BootID, p.BootID"},
		}, "I6", modelled(blocking)},
		{"the lock on the node of which the controller calls the reboot off", nodeUnlocked(slot, "return protocol.CallOff(n, outcome, uncordon)\n\t}"), "I6", modelled(blocking)},
		{"the difference between abort and force", []overlay.Edit{
			{File: "rules/drain.go", Old: "t.Policy == protocol.PolicyForce", New: "t.Policy != \"\""},
		}, "I8", modelled(blocking)},
		{"the end of the window at accept", []overlay.Edit{
			{File: "rules/agent.go", Old: "case s.Now != nil && s.Now.Expired(now):", New: "case s.Now != nil && s.Now.Expired(now) && false:"},
		}, "I9", modelled(missing)},
		{"the gate", []overlay.Edit{
			{File: reserve, Old: "c.options.Gate.Blocked(ctx); v.blocked == \"\" {", New: "c.options.Gate.Blocked(ctx); true {"},
		}, "I11", modelled(gating)},
		{"the refusal of groups that overlap", []overlay.Edit{
			{File: "rules/membership.go", Old: "(g.name != api.DefaultName || len(matching) == 0)", New: "len(matching) == 0"},
		}, "I10", modelled(moving)},
		{"the slot that another group holds", []overlay.Edit{
			{File: "controller/view.go", Old: "if holder != \"\" && holder != name {", New: "if holder != \"\" && holder != name && false {"},
		}, "I10", modelled(moving)},
	}
}

// pausing has an administrator who pauses and resumes.
func pausing(seed uint64) scenario {
	s := everything(seed)
	s.withdraw, s.cordon, s.replace, s.limits, s.abort, s.refuse, s.flap = false, true, false, false, false, false, false
	s.nodes, s.limit, s.requests, s.minReady, s.kubelet, s.late = 2, 2, 100, 0, 0, 0.03
	s.pools, s.gate = false, false
	s.odds.Faults, s.odds.Fault = []apisim.Fault{apisim.Late}, 0.1
	s.odds.Chaos = 0.1
	return s
}

// gating has a gate that opens and closes.
func gating(seed uint64) scenario {
	s := pausing(seed)
	s.pause, s.cordon, s.gate = false, false, true
	return s
}

// moving has two groups, among which nodes move, and which overlap.
func moving(seed uint64) scenario {
	s := pausing(seed)
	s.pause, s.cordon, s.pools = false, false, true
	return s
}

// blocking has Pods that may not leave, under the policy that calls reboots
// off.
func blocking(seed uint64) scenario {
	s := pausing(seed)
	s.pause, s.cordon, s.pods, s.drain = false, false, true, "abort"
	s.nodes, s.limit, s.requests = 2, 2, 4
	return s
}

// closing has windows besides, and a policy that waits.
func closing(seed uint64) scenario {
	s := blocking(seed)
	s.windows, s.drain = true, "wait"
	return s
}

// missing has agents that stay away, longer than the window is open.
func missing(seed uint64) scenario {
	s := closing(seed)
	s.away, s.odds.Chaos, s.odds.Wait = 50*time.Second, 0.2, 0.2
	return s
}

// nodeUnlocked takes the lock from the write of a node, in the given file, whose
// edit ends with that text.
func nodeUnlocked(file, end string) []overlay.Edit {
	const room = "protocol/write.go"
	return []overlay.Edit{
		{File: file, Old: end, New: end + ", true"},
		{File: room, Old: "edit func(*corev1.Node) error,", New: "edit func(*corev1.Node) error, unlocked ...bool,"},
		{File: room, Old: "Lock: true", New: "Lock: len(unlocked) == 0"},
	}
}

// groupUnlocked removes the lock from a write of the ledger, as a program
// without package patch would write it: the old state with its edit is sent as
// a merge patch, in which lists replace lists. Package patch locks each list of
// a custom kind by itself.
func groupUnlocked(edits ...overlay.Edit) []overlay.Edit {
	return append(edits,
		overlay.Edit{File: write, Old: "edit func(*api.RebootGroupStatus),\n) error {", New: `edit func(*api.RebootGroupStatus), unlocked ...bool,
) error {
	if len(unlocked) > 0 {
		next := group.DeepCopy()
		edit(&next.Status)
		was, _ := json.Marshal(group)
		is, _ := json.Marshal(next)
		body, err := jsonmergepatch.CreateThreeWayJSONMergePatch(was, is, was)
		if err != nil || string(body) == "{}" {
			return err
		}
		_, err = w.groups.Patch(ctx, group.Name, types.MergePatchType, body, metav1.PatchOptions{}, "status")
		return err
	}`},
		overlay.Edit{File: write, Old: "import (\n", New: `import (
	"encoding/json"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
`})
}

// slotsUnlocked takes the lock from the write of slots whose edit ends with
// that text.
func slotsUnlocked(end string) []overlay.Edit {
	return groupUnlocked(
		overlay.Edit{File: slot, Old: end, New: end + ", true"},
		overlay.Edit{File: status, Old: "edit func([]api.Slot) []api.Slot", New: "edit func([]api.Slot) []api.Slot, unlocked ...bool"},
		overlay.Edit{File: status, Old: "s.Slots = edit(s.Slots) }", New: "s.Slots = edit(s.Slots) }, unlocked..."})
}

// With the build tag mutate, TestMutantsBreakANamedInvariant does more with
// them.
func TestSafeguardsAreInTheSources(t *testing.T) {
	for _, s := range safeguards() {
		_, err := overlay.Apply("..", s.edits...)
		NewWithT(t).Expect(err).NotTo(HaveOccurred(), s.without)
	}
}

package witness_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat/homeostat/examples/reboot/demo/internal/witness"
)

// A tape is a history that is written as it should be read.
type tape struct{ events []witness.Event }

func (t *tape) node(name string, change func(*witness.Node)) *tape {
	n := &witness.Node{Name: name, UID: "uid-" + name, Ready: "True", Boot: "b1"}
	if change != nil {
		change(n)
	}
	t.events = append(t.events, witness.Event{Version: int64(len(t.events) + 1), Node: n})
	return t
}

func (t *tape) ledger(names ...string) *tape {
	l := &witness.Ledger{Name: "g", Max: 2}
	for _, n := range names {
		l.Slots = append(l.Slots, witness.Slot{Node: n, UID: "uid-" + n})
	}
	t.events = append(t.events, witness.Event{Version: int64(len(t.events) + 1), Ledger: l})
	return t
}

func told(n *witness.Node)      { n.Told, n.Epoch = true, 1 }
func rebooting(n *witness.Node) { n.Rebooting, n.Epoch = true, 1 }
func notReady(n *witness.Node)  { n.Ready = "Unknown" }
func booted(n *witness.Node)    { n.Done, n.NewBoot, n.Ready = 1, "b2", "False" }
func back(n *witness.Node)      { n.Done, n.NewBoot, n.Boot = 1, "b2", "b2" }
func bootedAgain(n *witness.Node) {
	n.Done, n.NewBoot, n.Boot = 1, "b2", "b3"
}

var _ = Describe("Check", func() {
	start := func() *tape { return (&tape{}).node("a", nil).node("b", nil).node("c", nil).ledger() }

	DescribeTable("it finds what is wrong, and nothing else",
		func(t *tape, invariants ...string) {
			var found []string
			for _, v := range witness.Check(t.events) {
				found = append(found, v.Invariant)
			}
			Expect(strings.Join(found, " ")).To(Equal(strings.Join(invariants, " ")))
		},
		Entry("a good roll", start().ledger("a").node("a", told).node("a", rebooting).node("a", notReady).
			node("a", booted).node("a", back).ledger().ledger("b", "c").node("b", told)),
		Entry("more slots than the limit", start().ledger("a", "b", "c"), "I1", "I4"),
		Entry("told without a slot", start().node("a", told), "I2"),
		Entry("rebooting after its slot went", start().ledger("a").node("a", rebooting).ledger(), "I2"),
		Entry("released while it is down", start().ledger("a").node("a", rebooting).node("a", booted).ledger(), "I3"),
		Entry("released on Ready from before the reboot", start().ledger("a").node("a", rebooting).
			node("a", func(n *witness.Node) { n.Done, n.NewBoot = 1, "b2" }).ledger(), "I3"),
		Entry("reserved while too many are not Ready", start().node("b", notReady).node("c", notReady).
			ledger().ledger("a"), "I4"),
		Entry("room at one moment between the ledgers is enough", start().node("b", notReady).
			node("c", notReady).ledger("a")),
		Entry("a candidate does not count against itself", start().node("a", notReady).node("b", notReady).
			ledger().ledger("a")),
		Entry("two boots for one reboot", start().ledger("a").node("a", rebooting).node("a", back).
			node("a", bootedAgain), "I5"),
		Entry("a boot that nobody accepted", start().node("a", func(n *witness.Node) { n.Boot = "b2" }), "I5"),
	)

	It("goes by version, not by arrival", func() {
		t := start().ledger("a").node("a", told)
		t.events[4], t.events[5] = t.events[5], t.events[4]
		Expect(witness.Check(t.events)).To(BeEmpty())
	})
})

var _ = Describe("Read", func() {
	It("understands a node", func() {
		e, err := witness.Read(&unstructured.Unstructured{Object: map[string]any{
			"kind": "Node",
			"metadata": map[string]any{"name": "a", "uid": "u", "resourceVersion": "7", "annotations": map[string]any{
				"reboot.homeostat.dev/reboot-needed": "", "reboot.homeostat.dev/reboot-in-progress": `{"epoch":3}`,
				"reboot.homeostat.dev/last-reboot": `{"epoch":2,"toBootID":"x"}`,
			}},
			"spec": map[string]any{"unschedulable": true},
			"status": map[string]any{
				"nodeInfo":   map[string]any{"bootID": "x"},
				"conditions": []any{map[string]any{"type": "Ready", "status": "True"}},
			},
		}}, false)
		Expect(err).NotTo(HaveOccurred())
		Expect(e).To(Equal(witness.Event{Version: 7, Node: &witness.Node{
			Name: "a", UID: "u", Needed: true, Rebooting: true, Epoch: 3, Done: 2, NewBoot: "x",
			Ready: "True", Boot: "x", Unschedulable: true,
		}}))
	})

	It("understands a ledger", func() {
		e, err := witness.Read(&unstructured.Unstructured{Object: map[string]any{
			"kind": "RebootGroup", "metadata": map[string]any{"name": "g", "resourceVersion": "8"},
			"spec":   map[string]any{"maxUnavailable": int64(2)},
			"status": map[string]any{"slots": []any{map[string]any{"node": "a", "nodeUID": "u"}}},
		}}, true)
		Expect(err).NotTo(HaveOccurred())
		Expect(e).To(Equal(witness.Event{Version: 8, Deleted: true, Ledger: &witness.Ledger{
			Name: "g", Max: 2, Slots: []witness.Slot{{Node: "a", UID: "u"}},
		}}))
	})

	It("does not guess what it cannot read", func() {
		_, err := witness.Read(&unstructured.Unstructured{Object: map[string]any{
			"kind": "RebootGroup", "metadata": map[string]any{"name": "g", "resourceVersion": "8"},
			"spec": map[string]any{"maxUnavailable": "25%"},
		}}, false)
		Expect(err).To(MatchError(ContainSubstring("numbers only")))
	})
})

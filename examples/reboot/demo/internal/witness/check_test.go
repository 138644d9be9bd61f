package witness_test

import (
	"maps"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat/homeostat/examples/reboot/demo/internal/witness"
)

// A tape is a history that is written as it should be read.
type tape struct{ events []witness.Event }

func (t *tape) then(e witness.Event) *tape {
	e.Version = int64(len(t.events) + 1)
	t.events = append(t.events, e)
	return t
}

func (t *tape) node(name string, change func(*witness.Node)) *tape {
	n := &witness.Node{Name: name, UID: "uid-" + name, Ready: "True", Boot: "b1"}
	if change != nil {
		change(n)
	}
	return t.then(witness.Event{Node: n})
}

func (t *tape) ledger(names ...string) *tape { return t.limited(2, names...) }

func (t *tape) limited(most int64, names ...string) *tape {
	l := &witness.Ledger{Name: "g", Max: most}
	for _, n := range names {
		l.Slots = append(l.Slots, witness.Slot{Node: n, UID: "uid-" + n})
	}
	return t.then(witness.Event{Ledger: l})
}

// deleted adds the deletion of the last event's object.
func (t *tape) deleted() *tape {
	e := t.events[len(t.events)-1]
	e.Deleted = true
	return t.then(e)
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
		Entry("a history that begins with an empty ledger", (&tape{}).ledger().node("a", nil)),
		Entry("a history that begins with a ledger that has slots", (&tape{}).ledger("a"), "I4"),
		Entry("a history whose first ledger has slots", (&tape{}).node("a", nil).node("b", nil).ledger("a", "b")),
		Entry("a limit that is lowered below the slots", start().ledger("a", "b").limited(1, "a", "b").limited(1, "a")),
		Entry("a slot more than a lowered limit", start().ledger("a").limited(1, "a").limited(1, "a", "b"), "I1", "I4"),
		Entry("slots that are kept while others are not Ready", start().ledger("a").node("b", notReady).
			node("c", notReady).ledger("a")),
		Entry("a second slot while a third node is not Ready", start().ledger("a").node("c", notReady).
			ledger("a").ledger("a", "b"), "I4"),
		Entry("a second slot while the first node is not Ready", start().ledger("a").node("a", notReady).
			ledger("a").ledger("a", "b")),
		Entry("two slots at once with room for one", start().node("c", notReady).ledger().ledger("a", "b"), "I4"),
		Entry("a ledger that is deleted during a reboot", start().ledger("a").node("a", rebooting).ledger("a").deleted(),
			"I2"),
		Entry("a ledger that is deleted and comes again", start().ledger("a").deleted().ledger("a").node("a", told)),
		Entry("a node that is deleted during its reboot", start().ledger("a").node("a", rebooting).deleted().ledger()),
		Entry("a node that is not Ready and is deleted", start().node("b", notReady).node("c", notReady).deleted().
			ledger().ledger("a")),
		Entry("a node that is made again", start().ledger("a").node("a", rebooting).node("a", booted).
			node("a", func(n *witness.Node) { n.UID, n.Boot = "uid-new", "b7" }).ledger()),
		Entry("a node that has not said which boot it is", start().node("d", func(n *witness.Node) { n.Boot = "" }).
			node("d", nil)),
		Entry("a boot without an accepted request", start().node("a", func(n *witness.Node) { n.Boot = "b2" }), "I5"),
	)

	It("says what is wrong, and when", func() {
		t := start().ledger("a", "b", "c").ledger().
			node("a", told).node("a", nil).ledger("a").node("a", rebooting).node("a", booted).ledger().
			node("a", bootedAgain)
		var said []string
		for _, v := range witness.Check(t.events) {
			said = append(said, v.String())
		}
		Expect(said).To(Equal([]string{
			"I1 at resourceVersion 5: the group has 3 slots, but at most 2 are allowed",
			"I4 at resourceVersion 5: slots [{a uid-a} {b uid-b} {c uid-c}] were added to [] although no slot was free",
			"I2 at resourceVersion 7: node a was told to reboot, or is rebooting, without a slot",
			"I3 at resourceVersion 12: node a is not back from its reboot, and has no slot",
			"I5 at resourceVersion 13: node a booted 2 times for 1 accepted reboots",
			"I3 at resourceVersion 13: node a is not back from its reboot, and has no slot",
		}))
	})

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

	DescribeTable("it does not guess what it cannot read",
		func(message string, kind, version string, annotations, rest map[string]any) {
			object := map[string]any{
				"kind": kind, "metadata": map[string]any{"name": "x", "resourceVersion": version, "annotations": annotations},
			}
			maps.Copy(object, rest)
			_, err := witness.Read(&unstructured.Unstructured{Object: object}, false)
			Expect(err).To(MatchError(HavePrefix(message)))
		},
		Entry("its version", `reading the resourceVersion of Node "x": `, "Node", "new", nil, nil),
		Entry("a kind", `reading "x": kind "Pod" is neither Node nor RebootGroup`, "Pod", "8", nil, nil),
		Entry("what it is told", `reading reboot-now of node "x": `, "Node", "8",
			map[string]any{"reboot.homeostat.dev/reboot-now": "garbage"}, nil),
		Entry("what it has accepted", `reading reboot-in-progress of node "x": `, "Node", "8",
			map[string]any{"reboot.homeostat.dev/reboot-in-progress": "garbage"}, nil),
		Entry("its last reboot", `reading last-reboot of node "x": `, "Node", "8",
			map[string]any{"reboot.homeostat.dev/last-reboot": "garbage"}, nil),
		Entry("a share", `reading maxUnavailable of RebootGroup "x": must be a number`,
			"RebootGroup", "8", nil, map[string]any{"spec": map[string]any{"maxUnavailable": "25%"}}),
		Entry("no limit", `reading maxUnavailable of RebootGroup "x": must be a number`,
			"RebootGroup", "8", nil, nil),
		Entry("a slot", `reading the slots of RebootGroup "x": an entry is not an object`, "RebootGroup", "8", nil,
			map[string]any{
				"spec": map[string]any{"maxUnavailable": int64(1)}, "status": map[string]any{"slots": []any{"a"}},
			}),
	)
})

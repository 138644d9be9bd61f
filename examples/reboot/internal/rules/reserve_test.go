package rules_test

import (
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
	"github.com/homeostat/homeostat/examples/reboot/internal/rules"
)

func holders(slots []api.Slot) []string {
	names := []string{}
	for _, s := range slots {
		names = append(names, s.Node)
	}
	return names
}

func queued(queue []api.Waiting) []string {
	names := []string{}
	for _, w := range queue {
		names = append(names, w.Node)
	}
	return names
}

func slotsOf(names ...string) []api.Slot {
	var slots []api.Slot
	for _, n := range names {
		slots = append(slots, api.Slot{Node: n, NodeUID: makeNode(n).UID, Epoch: 1})
	}
	return slots
}

func queueOf(names ...string) []api.Waiting {
	var queue []api.Waiting
	for _, n := range names {
		queue = append(queue, api.Waiting{Node: n, NodeUID: makeNode(n).UID})
	}
	return queue
}

var _ = Describe("Reserve", func() {
	needed, notReady, unknown := annotated(protocol.Needed, "r"), ready(corev1.ConditionFalse), ready(corev1.ConditionUnknown)
	nodes := func(n ...*corev1.Node) []*corev1.Node { return n }

	DescribeTable("who gets a slot, and who waits",
		func(ledger api.RebootGroupStatus, limit int, members []*corev1.Node, slots, queue []string, full bool) {
			r := rules.Reserve(&ledger, rules.Terms{Limit: limit, Now: start}, members)
			Expect(holders(r.Slots)).To(Equal(slots))
			Expect(queued(r.Queue)).To(Equal(queue))
			Expect(r.Full).To(Equal(full))
		},
		Entry("no node requests a reboot", api.RebootGroupStatus{}, 1, nodes(makeNode("a")), []string{}, []string{}, false),
		Entry("by name when first seen together", api.RebootGroupStatus{}, 1,
			nodes(makeNode("b", needed), makeNode("a", needed)), []string{"a"}, []string{"b"}, true),
		Entry("oldest first", api.RebootGroupStatus{Queue: queueOf("c", "b")}, 1,
			nodes(makeNode("a", needed), makeNode("b", needed), makeNode("c", needed)),
			[]string{"c"}, []string{"b", "a"}, true),
		Entry("as many as fit", api.RebootGroupStatus{Slots: slotsOf("x")}, 3,
			nodes(makeNode("a", needed), makeNode("b", needed), makeNode("c", needed), makeNode("x")),
			[]string{"a", "b"}, []string{"c"}, true),
		Entry("none over the limit", api.RebootGroupStatus{Slots: slotsOf("x", "y")}, 1,
			nodes(makeNode("a", needed)), []string{}, []string{"a"}, true),
		Entry("others NotReady count", api.RebootGroupStatus{}, 1,
			nodes(makeNode("a", needed), makeNode("x", notReady)), []string{}, []string{"a"}, true),
		Entry("others Unknown count", api.RebootGroupStatus{}, 1,
			nodes(makeNode("a", needed), makeNode("x", unknown)), []string{}, []string{"a"}, true),
		Entry("others without a condition count", api.RebootGroupStatus{}, 1,
			nodes(makeNode("a", needed), makeNode("x", func(n *corev1.Node) { n.Status.Conditions = nil })),
			[]string{}, []string{"a"}, true),
		Entry("others in progress without a slot count", api.RebootGroupStatus{}, 1,
			nodes(makeNode("a", needed), makeNode("x", annotated(protocol.InProgress, "?"))),
			[]string{}, []string{"a"}, true),
		Entry("a candidate does not count against itself", api.RebootGroupStatus{}, 1,
			nodes(makeNode("a", needed, notReady)), []string{"a"}, []string{}, false),
		Entry("but a NotReady candidate counts against others", api.RebootGroupStatus{Queue: queueOf("b")}, 1,
			nodes(makeNode("a", needed, notReady), makeNode("b", needed)), []string{"a"}, []string{"b"}, true),
		Entry("a holder that is NotReady counts once", api.RebootGroupStatus{Slots: slotsOf("x")}, 2,
			nodes(makeNode("a", needed), makeNode("x", notReady)), []string{"a"}, []string{}, false),
		Entry("a paused node keeps its place", api.RebootGroupStatus{}, 1,
			nodes(makeNode("a", needed, annotated(protocol.Paused, "true")), makeNode("b", needed)),
			[]string{"b"}, []string{"a"}, false),
		Entry("a node with a garbled annotation waits", api.RebootGroupStatus{}, 2,
			nodes(makeNode("a", needed, annotated(protocol.LastReboot, "?")), makeNode("b", needed)),
			[]string{"b"}, []string{"a"}, false),
		Entry("a garbled request does not count", api.RebootGroupStatus{}, 1,
			nodes(makeNode("a", annotated(protocol.Needed, "\n"))), []string{}, []string{}, false),
		Entry("a claimed node is no candidate", api.RebootGroupStatus{}, 2,
			nodes(makeNode("a", needed, annotated(protocol.Now, nowEpoch1))), []string{}, []string{}, false),
		Entry("a holder is no candidate", api.RebootGroupStatus{Slots: slotsOf("a")}, 2,
			nodes(makeNode("a", needed)), []string{}, []string{}, false),
		Entry("withdrawn requests leave the queue", api.RebootGroupStatus{Queue: queueOf("a", "b")}, 1,
			nodes(makeNode("a"), makeNode("b", needed)), []string{"b"}, []string{}, false),
		Entry("a new node of the same name joins at the end",
			api.RebootGroupStatus{Queue: queueOf("a", "b"), Slots: slotsOf("x")}, 1,
			nodes(makeNode("a", needed, func(n *corev1.Node) { n.UID = "new" }), makeNode("b", needed)),
			[]string{}, []string{"b", "a"}, true),
	)

	It("takes request and epoch from the node", func() {
		node := makeNode("a", annotated(protocol.Needed, "k"), rebooted(4, "b1", start))
		Expect(rules.Reserve(&api.RebootGroupStatus{}, rules.Terms{Limit: 1, Now: start}, nodes(node)).Slots).To(Equal([]api.Slot{{
			Node: "a", NodeUID: "uid-a", Request: "k", Epoch: 5, Since: metav1.Time{Time: start},
		}}))
	})

	It("takes an epoch that is not void", func() {
		node := makeNode("a", annotated(protocol.Needed, "k"), rebooted(4, "b1", start), annotated(protocol.Void, "6"))
		Expect(rules.Reserve(&api.RebootGroupStatus{}, rules.Terms{Limit: 1, Now: start}, nodes(node)).Slots[0].Epoch).To(BeEquivalentTo(7))
	})

	It("bounds the queue", func() {
		var members []*corev1.Node
		for i := range rules.MaxQueue + 10 {
			members = append(members, makeNode("n"+strconv.Itoa(i), needed))
		}
		r := rules.Reserve(&api.RebootGroupStatus{Slots: slotsOf("x")}, rules.Terms{Limit: 1, Now: start}, members)
		Expect(r.Queue).To(HaveLen(rules.MaxQueue))
	})

	It("keeps requests that returned to a full queue, and lets no other request join", func() {
		members, ledger := []*corev1.Node{makeNode("new", needed)}, api.RebootGroupStatus{Slots: slotsOf("x")}
		for i := range rules.MaxQueue + 1 {
			n := makeNode("n"+strconv.Itoa(i), needed)
			members = append(members, n)
			ledger.Queue = append(ledger.Queue, api.Waiting{
				Node: n.Name, NodeUID: n.UID, NotBefore: metav1.Time{Time: start.Add(time.Hour)},
			})
		}
		r := rules.Reserve(&ledger, rules.Terms{Limit: 1, Now: start}, members)
		Expect(r.Queue).To(Equal(ledger.Queue))
		Expect(r.Joined).To(BeEmpty())
	})

	It("leaves a request that was called off alone for a while, and lets the next one go", func() {
		calledOff := makeNode("a", func(n *corev1.Node) {
			Expect(protocol.CallOff(n, protocol.Outcome{
				Request: protocol.Request{Request: "r", Epoch: 1}, FromBootID: "b1", ToBootID: "b1",
				At: metav1.Time{Time: start}, Result: protocol.CalledOff,
			}, false)).To(Succeed())
		})
		ledger := &api.RebootGroupStatus{Queue: queueOf("a", "b")}
		ledger.Queue[0].NotBefore = metav1.Time{Time: start.Add(time.Hour)}
		terms := rules.Terms{Limit: 1, Now: start.Add(20 * time.Minute)}
		r := rules.Reserve(ledger, terms, nodes(calledOff, makeNode("b", needed)))
		Expect(holders(r.Slots)).To(Equal([]string{"b"}))
		Expect(queued(r.Queue)).To(Equal([]string{"a"}))
		Expect(r.After).To(Equal(40 * time.Minute))

		terms.Now = start.Add(time.Hour)
		r = rules.Reserve(ledger, terms, nodes(calledOff, makeNode("b", needed)))
		Expect(holders(r.Slots)).To(Equal([]string{"a"}))
		Expect(r.Slots[0].Epoch).To(BeEquivalentTo(2))
	})

	It("gives no slot to a node that it may not reboot, and the next one goes", func() {
		terms := rules.Terms{Limit: 1, Barred: map[string]string{"a": "another group selects it"}, Now: start}
		r := rules.Reserve(&api.RebootGroupStatus{Queue: queueOf("a", "b")}, terms, nodes(makeNode("a", needed), makeNode("b", needed)))
		Expect(holders(r.Slots)).To(Equal([]string{"b"}))
		Expect(queued(r.Queue)).To(Equal([]string{"a"}))
		Expect(r.Full).To(BeFalse(), "it does not wait because of the limit")
	})

	It("keeps the age of the requests", func() {
		old := api.Waiting{Node: "a", NodeUID: "uid-a", Since: metav1.Time{Time: start.Add(-time.Hour)}}
		r := rules.Reserve(&api.RebootGroupStatus{Queue: []api.Waiting{old}}, rules.Terms{Now: start}, nodes(makeNode("a", needed)))
		Expect(r.Queue).To(Equal([]api.Waiting{old}))
		Expect(r.Joined).To(BeEmpty())
	})
})

var _ = Describe("Limit", func() {
	group := func(v intstr.IntOrString) *api.RebootGroup {
		return &api.RebootGroup{ObjectMeta: metav1.ObjectMeta{Name: "g"}, Spec: api.RebootGroupSpec{MaxUnavailable: v}}
	}
	DescribeTable("a number, or a percentage rounded down but at least 1",
		func(v intstr.IntOrString, nodes, want int) { Expect(rules.Limit(group(v), nodes)).To(Equal(want)) },
		Entry("number", intstr.FromInt32(2), 12, 2),
		Entry("percent", intstr.FromString("25%"), 11, 2),
		Entry("at least one", intstr.FromString("1%"), 12, 1),
		Entry("no nodes", intstr.FromString("50%"), 0, 1),
		Entry("all", intstr.FromString("100%"), 12, 12),
	)
	DescribeTable("what allows none, or makes no sense, names field and remedy",
		func(v intstr.IntOrString, value string) {
			limit, err := rules.Limit(group(v), 12)
			Expect(limit).To(BeZero())
			Expect(err).To(MatchError(And(ContainSubstring(`"g"`), ContainSubstring("spec.maxUnavailable is "+value),
				ContainSubstring("set a number"))))
		},
		Entry("0", intstr.FromInt32(0), "0"),
		Entry("negative", intstr.FromInt32(-1), "-1"),
		Entry("0%", intstr.FromString("0%"), `"0%"`),
		Entry("more than all", intstr.FromString("101%"), `"101%"`),
		Entry("no percent", intstr.FromString("2"), `"2"`),
		Entry("words", intstr.FromString("two"), `"two"`),
		Entry("empty", intstr.FromString(""), `""`),
	)
})

var _ = Describe("Membership", func() {
	selecting := func(name string, selector *metav1.LabelSelector) *api.RebootGroup {
		return &api.RebootGroup{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: api.RebootGroupSpec{NodeSelector: selector}}
	}
	web := &metav1.LabelSelector{MatchLabels: map[string]string{"role": "web"}}
	broken := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "role", Operator: "In"}}}
	node := makeNode("n", func(n *corev1.Node) { n.Labels = map[string]string{"role": "web"} })
	lost := &metav1.LabelSelector{MatchLabels: map[string]string{}} // of {role: null} the server may keep this
	deleted := selecting("a", web)
	deleted.DeletionTimestamp = &metav1.Time{Time: start}

	DescribeTable("at most one group has the node",
		func(group string, rivals []string, groups ...*api.RebootGroup) {
			got, also := rules.NewMembership(groups).Group(node)
			Expect(got).To(Equal(group))
			Expect(also).To(Equal(rivals))
		},
		Entry("no group", "", nil),
		Entry("one that selects it", "web", nil, selecting("web", web)),
		Entry("one that does not", "", nil, selecting("db", &metav1.LabelSelector{MatchLabels: map[string]string{"role": "db"}})),
		Entry("no selector", "all", nil, selecting("all", nil)),
		Entry("two: none has it", "", []string{"a", "b"}, selecting("b", web), selecting("a", nil)),
		Entry("two and default: none has it", "", []string{"a", "b"}, selecting("b", web), selecting("default", nil), selecting("a", nil)),
		Entry("default comes last, and is no conflict", "web", nil, selecting("default", nil), selecting("web", web)),
		Entry("a broken selector selects nothing", "default", nil, selecting("a", broken), selecting("default", nil)),
		Entry("a selector without a condition selects nothing", "default", nil, selecting("a", lost), selecting("default", nil)),
		Entry("a group on its way out selects nothing", "b", nil, deleted, selecting("b", web)),
	)

	DescribeTable("a slot's node may have come to belong elsewhere",
		func(why string, groups ...*api.RebootGroup) {
			Expect(rules.NewMembership(groups).Stray("web", node)).To(Equal(why))
		},
		Entry("it has not", "", selecting("web", web), selecting("default", nil)),
		Entry("to another group", "it belongs to RebootGroup all now", selecting("all", nil), selecting("web", broken)),
		Entry("to default", "it belongs to RebootGroup default now", selecting("default", nil), selecting("web", broken)),
		Entry("to no group", "RebootGroup web no longer selects it", selecting("web", broken)),
		Entry("to several", "the RebootGroups all and web select it, and none of them may reboot it until only one selects it",
			selecting("all", nil), selecting("web", web)),
		Entry("several others", "RebootGroup web no longer selects it", selecting("a", web), selecting("b", web), selecting("web", broken)),
	)

	It("finds the group that holds a slot of the node, not of one of the same name", func() {
		a, b := selecting("a", nil), selecting("b", nil)
		b.Status.Slots = slotsOf("n")
		Expect(rules.HolderOf(node, []*api.RebootGroup{a, b})).To(Equal(b))
		recreated := node.DeepCopy()
		recreated.UID = "new"
		Expect(rules.HolderOf(recreated, []*api.RebootGroup{a, b})).To(BeNil())
	})

	It("doubts the nodes of the default group while a selector is not known", func() {
		groups := []*api.RebootGroup{selecting("web", web), selecting("default", nil)}
		Expect(rules.NewMembership(groups).Doubt("default")).To(BeEmpty())
		gone := selecting("gone", broken)
		gone.DeletionTimestamp = &metav1.Time{Time: start}
		Expect(rules.NewMembership(append(groups, gone)).Doubt("default")).To(BeEmpty(), "it selects no nodes")
		m := rules.NewMembership(append(groups, selecting("b", broken)), "a", "b")
		Expect(m.Doubt("default")).To(Equal("RebootGroup a or b may select it: its spec.nodeSelector or its slots cannot be read"))
		Expect(m.Doubt("web")).To(BeEmpty())
		other := makeNode("n", func(n *corev1.Node) { n.Labels = map[string]string{"role": "db"} })
		Expect(m.Stray("default", other)).To(Equal(m.Doubt("default")))
		Expect(rules.PlaceOf(other, append(groups, selecting("b", broken))).Doubt).To(ContainSubstring("RebootGroup b may select it"))
	})

	It("names the field of a broken selector", func() {
		_, err := rules.Selector(selecting("a", broken))
		Expect(err).To(MatchError(And(ContainSubstring(`"a"`), ContainSubstring("spec.nodeSelector"), ContainSubstring("correct it"))))
		_, err = rules.Selector(selecting("a", lost))
		Expect(err).To(MatchError(And(ContainSubstring(`"a"`), ContainSubstring("spec.nodeSelector"), ContainSubstring("it has no condition"))))
	})
})

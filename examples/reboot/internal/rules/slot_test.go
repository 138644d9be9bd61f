package rules_test

import (
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
	"github.com/homeostat/homeostat/examples/reboot/internal/rules"
)

var start = time.Unix(1_700_000_000, 0)

// A fixture is a node to be: Ready since start, in boot b1, unless changed.
type fixture func(*corev1.Node)

func makeNode(name string, changes ...fixture) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID("uid-" + name), Annotations: map[string]string{},
	}}
	n.Status.NodeInfo.BootID = "b1"
	ready(corev1.ConditionTrue)(n)
	for _, change := range changes {
		change(n)
	}
	return n
}

func annotated(key, value string) fixture {
	return func(n *corev1.Node) { n.Annotations[key] = value }
}

func ready(status corev1.ConditionStatus) fixture {
	return func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.Time{Time: start},
		}}
	}
}

func booted(id string) fixture {
	return func(n *corev1.Node) { n.Status.NodeInfo.BootID = id }
}

func rebooted(epoch int64, toBootID string, at time.Time) fixture {
	return func(n *corev1.Node) {
		err := protocol.Complete(n, protocol.Outcome{
			Request: protocol.Request{Request: "r", Epoch: epoch}, FromBootID: "b0", ToBootID: toBootID,
			At: metav1.Time{Time: at}, Result: protocol.Rebooted,
		}, false)
		if err != nil {
			panic(err) // A test without Ginkgo may be the one that makes it.
		}
	}
}

const (
	nowEpoch1        = `{"request":"r","epoch":1}`
	inProgressEpoch1 = `{"request":"r","epoch":1,"bootID":"b1"}`
)

var _ = Describe("ForSlot", func() {
	slot := api.Slot{Node: "n", NodeUID: "uid-n", Request: "r", Epoch: 1}
	unverified := api.Slot{Node: "n", NodeUID: "uid-n", Request: "r", Epoch: 2, Verify: true}
	open := rules.Situation{Now: start.Add(time.Minute)}
	paused := rules.Situation{Now: open.Now, Closed: "the group is paused"}
	stray := rules.Situation{Now: open.Now, Stray: "it belongs to RebootGroup b now"}
	over := rules.Situation{Now: open.Now, Over: true}
	contended := rules.Situation{Now: open.Now, Contended: true}
	patient := rules.Situation{Now: open.Now, MinReady: 90 * time.Second}
	needed, needed2 := annotated(protocol.Needed, "r"), annotated(protocol.Needed, "r2")
	nodePaused := annotated(protocol.Paused, "true")
	granted := annotated(protocol.Now, nowEpoch1)
	grantedAgain := annotated(protocol.Now, `{"request":"r","epoch":2}`)
	draining := annotated(protocol.InProgress, inProgressEpoch1)
	done := rebooted(1, "b1", start)
	void := annotated(protocol.Void, "1")
	calledOff := func(n *corev1.Node) {
		Expect(protocol.CallOff(n, protocol.Outcome{
			Request: protocol.Request{Request: "r", Epoch: 1}, FromBootID: "b1", ToBootID: "b1",
			At: metav1.Time{Time: start}, Result: protocol.CalledOff,
		}, false)).To(Succeed())
	}
	at := func(stage string, slot api.Slot) api.Slot {
		slot.Stage, slot.StageSince, slot.HeardAt = stage, metav1.Time{Time: start}, metav1.Time{Time: start}
		return slot
	}
	atGranted, atDraining, atTold := at(rules.StageGranted, slot), at(rules.StageDraining, slot), at(rules.StageTold, slot)
	const readySince = rules.StageReady + " in boot b1 since 2023-11-14T22:13:20Z"

	DescribeTable("the next step about a slot",
		func(s rules.Situation, slot api.Slot, node *corev1.Node, want rules.SlotStep, why string) {
			decision := rules.ForSlot(s, slot, node)
			Expect(decision.Step).To(Equal(want))
			Expect(decision.Why).To(ContainSubstring(why))
		},
		Entry("node deleted", open, slot, nil, rules.Release, "deleted"),
		Entry("node of another UID", open, slot, makeNode("n", granted, func(n *corev1.Node) { n.UID = "new" }),
			rules.Release, "deleted"),
		Entry("reserved", open, slot, makeNode("n", needed), rules.Grant, ""),
		Entry("reserved, other request", open, slot, makeNode("n", needed2), rules.Rewrite, ""),
		Entry("reserved, withdrawn", open, slot, makeNode("n"), rules.Void, "withdrawn"),
		Entry("reserved, node paused", open, slot, makeNode("n", needed, nodePaused), rules.Void, "node is paused"),
		Entry("reserved, pause garbled", open, slot, makeNode("n", needed, annotated(protocol.Paused, "?")),
			rules.Void, "node is paused"),
		Entry("reserved, group paused", paused, slot, makeNode("n", needed), rules.Void, "group is paused"),
		Entry("reserved, over the limit", over, slot, makeNode("n", needed), rules.Void, "the group has more slots than maxUnavailable allows"),
		Entry("void, withdrawn", open, slot, makeNode("n", void), rules.Release, "withdrawn"),
		Entry("void, group paused", paused, slot, makeNode("n", needed, void), rules.Release, "group is paused"),
		Entry("void, asked again", open, slot, makeNode("n", needed, void), rules.Rewrite, "again"),
		Entry("void, withdrawn, not back from the reboot before", open, unverified,
			makeNode("n", rebooted(1, "b1", start), ready(corev1.ConditionFalse), annotated(protocol.Void, "2")),
			rules.Wait, "withdrawn; not Ready"),
		Entry("void, withdrawn, back from the reboot before", open, unverified,
			makeNode("n", rebooted(1, "b1", start), annotated(protocol.Void, "2")), rules.Release, "withdrawn"),
		Entry("an earlier epoch is void", open, api.Slot{Node: "n", NodeUID: "uid-n", Request: "r", Epoch: 2},
			makeNode("n", needed, void), rules.Grant, ""),
		Entry("granted", open, atGranted, makeNode("n", granted), rules.Wait, "not accepted"),
		Entry("granted, needed again", open, atGranted, makeNode("n", granted, needed), rules.Wait, "not accepted"),
		Entry("granted, group paused", paused, slot, makeNode("n", granted), rules.Revoke, "group is paused"),
		Entry("granted, node paused", open, slot, makeNode("n", granted, nodePaused), rules.Revoke, "node is paused"),
		Entry("granted, over the limit", over, slot, makeNode("n", granted), rules.Revoke, "the group has more slots than maxUnavailable allows"),
		Entry("granted for another epoch", open, slot, makeNode("n", annotated(protocol.Now, `{"request":"r","epoch":7}`)),
			rules.Revoke, ""),
		Entry("draining", open, atDraining, makeNode("n", draining), rules.Wait, "draining"),
		Entry("draining, group paused", paused, atDraining, makeNode("n", draining), rules.Wait, "draining"),
		Entry("draining, needed again", open, atDraining, makeNode("n", draining, needed2), rules.Wait, "draining"),
		Entry("draining, refused", open, atDraining, makeNode("n", annotated(protocol.InProgress,
			`{"request":"r","epoch":1,"bootID":"b1","blocked":"Pod a/b: budget"}`)), rules.Wait, "blocked: Pod a/b: budget"),
		Entry("drained by an older agent", open, atTold, makeNode("n", annotated(protocol.InProgress,
			`{"request":"r","epoch":1,"bootID":"b1","drained":true}`)), rules.Wait, "rebooting"),
		Entry("called off", open, slot, makeNode("n", calledOff), rules.Release, "called-off"),
		Entry("called off, another request since", open, slot, makeNode("n", calledOff, needed2), rules.Release, "called-off"),
		Entry("called off, and not Ready", open, slot, makeNode("n", calledOff, ready(corev1.ConditionFalse)), rules.Release, ""),
		Entry("called off, not back from the reboot before", open, api.Slot{Node: "n", NodeUID: "uid-n", Request: "r", Epoch: 1, Verify: true},
			makeNode("n", calledOff, booted("b0")), rules.Wait, "new boot"),
		Entry("verified", open, slot, makeNode("n", done), rules.Release, "Ready"),
		Entry("verified, group paused", paused, slot, makeNode("n", done), rules.Release, "Ready"),
		Entry("verifying, NotReady", open, slot, makeNode("n", done, ready(corev1.ConditionFalse)), rules.Wait, "not Ready"),
		Entry("verifying, Unknown", open, slot, makeNode("n", done, ready(corev1.ConditionUnknown)), rules.Wait, "not Ready"),
		Entry("verifying, no condition", open, slot,
			makeNode("n", done, func(n *corev1.Node) { n.Status.Conditions = nil }), rules.Wait, "not Ready"),
		Entry("verifying, Ready from before the reboot", open, slot, makeNode("n", done, booted("b0")),
			rules.Wait, "new boot"),
		Entry("verifying, not Ready long enough", patient, at(readySince, slot), makeNode("n", done), rules.Wait, "long enough"),
		Entry("verified, needed again", open, slot, makeNode("n", done, needed2), rules.Rewrite, "needed again"),
		Entry("verified, needed again with the same id", open, slot, makeNode("n", done, needed), rules.Rewrite, "again"),
		Entry("verified, needed again, others wait", contended, slot, makeNode("n", done, needed2), rules.Release, ""),
		Entry("NotReady, needed again, others wait", contended, slot,
			makeNode("n", done, needed2, ready(corev1.ConditionFalse)), rules.Rewrite, "needed again"),
		Entry("verified, needed again, node paused", open, slot, makeNode("n", done, needed2, nodePaused),
			rules.Release, ""),
		Entry("reserved, of another group now", stray, slot, makeNode("n", needed), rules.Void, "belongs to RebootGroup b"),
		Entry("void, of another group now", stray, slot, makeNode("n", needed, void), rules.Release, "belongs to RebootGroup b"),
		Entry("granted, of another group now", stray, slot, makeNode("n", granted), rules.Revoke, "belongs to RebootGroup b"),
		Entry("draining, of another group now", stray, atDraining, makeNode("n", draining), rules.Wait, "draining"),
		Entry("verified, needed again, of another group now", stray, slot, makeNode("n", done, needed2), rules.Release, "Ready"),
		Entry("verifying, of another group now", stray, slot, makeNode("n", done, ready(corev1.ConditionFalse)), rules.Wait, "not Ready"),
		Entry("void, granted by another group", stray, slot, makeNode("n", grantedAgain, void), rules.Release, "belongs to RebootGroup b"),
		Entry("verified, granted by another group", stray, slot, makeNode("n", done, grantedAgain), rules.Release, "Ready"),
		Entry("verifying, granted by another group", stray, slot,
			makeNode("n", done, grantedAgain, ready(corev1.ConditionFalse)), rules.Wait, "not Ready"),
		Entry("not void yet, granted by another group", stray, slot, makeNode("n", grantedAgain), rules.Revoke, "belongs to RebootGroup b"),
		Entry("of this group, and granted for a later epoch", paused, slot, makeNode("n", grantedAgain, void), rules.Revoke, "paused"),
		Entry("garbled now", open, slot, makeNode("n", annotated(protocol.Now, "x"), needed), rules.Wait, protocol.Now),
		Entry("garbled in-progress", open, slot, makeNode("n", annotated(protocol.InProgress, "x"), needed),
			rules.Wait, protocol.InProgress),
		Entry("garbled void", open, slot, makeNode("n", annotated(protocol.Void, "x"), needed), rules.Wait, protocol.Void),
		Entry("garbled last-reboot", open, slot, makeNode("n", annotated(protocol.LastReboot, "x"), needed),
			rules.Wait, protocol.LastReboot),
	)

	It("rewrites a done slot for the next epoch", func() {
		decision := rules.ForSlot(open, slot, makeNode("n", done, needed2))
		Expect(decision.Next).To(Equal(api.Slot{
			Node: "n", NodeUID: "uid-n", Request: "r2", Epoch: 2, Since: metav1.Time{Time: open.Now},
		}))
	})

	It("remembers that the node was not back", func() {
		decision := rules.ForSlot(open, slot, makeNode("n", done, needed2, ready(corev1.ConditionFalse)))
		Expect(decision.Next.Verify).To(BeTrue())
		Expect(decision.Next.Epoch).To(BeEquivalentTo(2))
	})

	It("rewrites a slot for another request in the same epoch", func() {
		decision := rules.ForSlot(open, slot, makeNode("n", needed2))
		Expect(decision.Next).To(Equal(api.Slot{
			Node: "n", NodeUID: "uid-n", Request: "r2", Epoch: 1, Since: metav1.Time{Time: open.Now},
		}))
	})

	It("never uses a void epoch again", func() {
		Expect(rules.ForSlot(open, slot, makeNode("n", needed, void)).Next.Epoch).To(BeEquivalentTo(2))
	})

	It("tells how long a Ready node has to wait on", func() {
		Expect(rules.ForSlot(patient, at(readySince, slot), makeNode("n", done)).After).To(Equal(30 * time.Second))
	})

	It("counts from when the controller saw the node Ready, regardless of other clocks", func() {
		node := makeNode("n", rebooted(1, "b1", start.Add(2*time.Hour)), func(n *corev1.Node) {
			n.Status.Conditions[0].LastTransitionTime = metav1.Time{Time: start.Add(-14 * 24 * time.Hour)}
		})
		d := rules.ForSlot(patient, slot, node)
		Expect(d.Step).To(Equal(rules.Rewrite))
		Expect(d.Next.StageSince.Time).To(BeTemporally("==", patient.Now))
		Expect(rules.ForSlot(patient, d.Next, node).After).To(Equal(90 * time.Second))
		node.Status.NodeInfo.BootID, node.Annotations[protocol.LastReboot] = "b2", strings.Replace(node.Annotations[protocol.LastReboot], "b1", "b2", 1)
		Expect(rules.ForSlot(patient, d.Next, node).Step).To(Equal(rules.Rewrite), "another boot")
	})
})

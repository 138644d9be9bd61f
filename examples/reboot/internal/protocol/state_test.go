package protocol_test

import (
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
)

func nodeWith(key, value string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: map[string]string{key: value}}}
}

var _ = Describe("Read", func() {
	It("finds nothing on a node without annotations", func() {
		Expect(protocol.Read(&corev1.Node{})).To(Equal(protocol.State{}))
	})

	It("takes an empty request for a request", func() {
		Expect(protocol.Read(nodeWith(protocol.Needed, "")).Needed).To(HaveValue(BeEmpty()))
	})

	DescribeTable("names node, key and remedy of a value that cannot be read",
		func(key, value, problem, remedy string) {
			state := protocol.Read(nodeWith(key, value))
			Expect(state.Faults).To(HaveLen(1))
			Expect(state.Fault(key)).To(MatchError(And(
				ContainSubstring(key), ContainSubstring(`"n1"`), ContainSubstring(problem), ContainSubstring(remedy))))
			Expect(state.Fault(key + "-other")).To(Succeed())
			Expect(state.Needed).To(BeNil())
			Expect(state.Now).To(BeNil())
			Expect(state.InProgress).To(BeNil())
			Expect(state.Last).To(BeNil())
			Expect(state.Void).To(BeZero())
		},
		Entry("long request", protocol.Needed, strings.Repeat("x", protocol.MaxRequest+1), "254 bytes", "short request id"),
		Entry("line in request", protocol.Needed, "a\nb", "control characters", "short request id"),
		Entry("paused", protocol.Paused, "yes", `"yes"`, `set "true" or remove`),
		Entry("now: no JSON", protocol.Now, "please", `"please"`, "remove the annotation"),
		Entry("now: empty", protocol.Now, "", `""`, "remove the annotation"),
		Entry("now: other type", protocol.Now, `[1]`, "[1]", "remove the annotation"),
		Entry("now: no epoch", protocol.Now, `{"request":"r"}`, "epoch is 0", "remove the annotation"),
		Entry("in-progress: true", protocol.InProgress, "true", `"true"`, "remove the annotation"),
		Entry("in-progress: no boot", protocol.InProgress, `{"request":"r","epoch":1}`, "bootID is empty", "remove the annotation"),
		Entry("void: words", protocol.Void, "all", `"all"`, "remove the annotation"),
		Entry("void: zero", protocol.Void, "0", `"0"`, "remove the annotation"),
		Entry("last: no boot", protocol.LastReboot, `{"epoch":1}`, "toBootID is empty", "remove the annotation"),
		Entry("last: long garbage", protocol.LastReboot, strings.Repeat("z", 1000), "zzz\"…", "remove the annotation"),
	)

	It("takes a garbled pause for a pause", func() {
		Expect(protocol.Read(nodeWith(protocol.Paused, "True")).Paused).To(BeTrue())
		Expect(protocol.Read(nodeWith(protocol.Paused, "false")).Paused).To(BeFalse())
	})
})

var _ = Describe("the edits", func() {
	request := protocol.Request{Request: "kernel-6.12", Epoch: 3}
	progress := protocol.Progress{Request: request, BootID: "b1", AcceptedAt: metav1.Unix(1000, 0)}

	It("ask: a request is needed", func() {
		node := &corev1.Node{}
		protocol.Ask(node, "kernel-6.12")
		Expect(protocol.Read(node).Needed).To(HaveValue(Equal("kernel-6.12")))
	})

	It("revoke: the first epoch becomes void, too, and can be read", func() {
		node := nodeWith(protocol.Now, `{"request":"r","epoch":1}`)
		protocol.Revoke(node, "r", 1)
		Expect(protocol.Read(node)).To(And(HaveField("Void", int64(1)), HaveField("Faults", BeEmpty())))
	})

	It("grant: needed becomes now", func() {
		node := nodeWith(protocol.Needed, "kernel-6.12")
		grant := protocol.Grant{Request: request, Terms: protocol.Terms{Policy: protocol.PolicyForce, DrainSeconds: 60}}
		Expect(protocol.Allow(node, grant)).To(Succeed())
		Expect(protocol.Read(node)).To(Equal(protocol.State{Now: &grant}))
	})

	It("revoke: now becomes needed", func() {
		node := nodeWith(protocol.Now, `{"request":"r","epoch":1}`)
		protocol.Revoke(node, "r", 1)
		Expect(node.Annotations).To(Equal(map[string]string{protocol.Needed: "r", protocol.Void: "1"}))
	})

	It("revoke: a newer request stands", func() {
		node := nodeWith(protocol.Now, `{"request":"r","epoch":1}`)
		node.Annotations[protocol.Needed] = "newer"
		protocol.Revoke(node, "r", 1)
		Expect(node.Annotations).To(Equal(map[string]string{protocol.Needed: "newer", protocol.Void: "1"}))
	})

	It("accept: now becomes in-progress, and the node is cordoned", func() {
		node := nodeWith(protocol.Now, "")
		Expect(protocol.Accept(node, progress)).To(Succeed())
		Expect(node.Spec.Unschedulable).To(BeTrue())
		state := protocol.Read(node)
		Expect(state.Now).To(BeNil())
		Expect(state.InProgress.Request).To(Equal(request))
		Expect(state.InProgress.BootID).To(Equal("b1"))
		Expect(state.InProgress.CordonedByAgent).To(BeTrue())
		Expect(state.InProgress.AcceptedAt.Time).To(BeTemporally("==", time.Unix(1000, 0)))
	})

	It("accept: another client's cordon stays", func() {
		node := nodeWith(protocol.Now, "")
		node.Spec.Unschedulable = true
		Expect(protocol.Accept(node, progress)).To(Succeed())
		Expect(protocol.Read(node).InProgress.CordonedByAgent).To(BeFalse())
	})

	DescribeTable("complete: in-progress becomes last-reboot",
		func(uncordon bool) {
			node := nodeWith(protocol.InProgress, "")
			node.Spec.Unschedulable = true
			outcome := protocol.Outcome{Request: request, FromBootID: "b1", ToBootID: "b2", Result: protocol.Rebooted}
			Expect(protocol.Complete(node, outcome, uncordon)).To(Succeed())
			Expect(node.Spec.Unschedulable).To(Equal(!uncordon))
			Expect(protocol.Read(node).InProgress).To(BeNil())
			Expect(protocol.Read(node).Last).To(HaveValue(Equal(outcome)))
		},
		Entry("and uncordons", true), Entry("and leaves the cordon", false))
})

var _ = Describe("MayUncordon", func() {
	managed := func(manager, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	const unschedulable = `{"f:spec":{"f:unschedulable":{}}}`

	DescribeTable("it is allowed only for the agent's own cordon",
		func(cordonedByAgent, unschedulableNow bool, want bool, entries ...metav1.ManagedFieldsEntry) {
			node := &corev1.Node{Spec: corev1.NodeSpec{Unschedulable: unschedulableNow}}
			node.ManagedFields = entries
			Expect(protocol.MayUncordon(node, &protocol.Progress{CordonedByAgent: cordonedByAgent})).To(Equal(want))
		},
		Entry("ours", true, true, true, managed(protocol.AgentManager, unschedulable)),
		Entry("ours, without a recorded manager", true, true, true),
		Entry("ours, and others own other fields", true, true, true, managed("kubectl", `{"f:metadata":{}}`)),
		Entry("was cordoned before", false, true, false),
		Entry("is not cordoned any more", true, false, false),
		Entry("uncordoned and cordoned again by another client", true, true, false, managed("kubectl-cordon", unschedulable)),
		Entry("unreadable record", true, true, true, managed("kubectl", `]`)),
	)
})

package protocol_test

import (
	"maps"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
)

// Each edit starts from a node that has every annotation, so that one which it
// should remove, or leave alone, shows.
var _ = Describe("an edit of a node that has every annotation", func() {
	request := protocol.Request{Request: "r2", Epoch: 2}
	progress := protocol.Progress{Request: request, BootID: "b1", AcceptedAt: metav1.Unix(1000, 0)}
	outcome := protocol.Outcome{Request: request, FromBootID: "b1", ToBootID: "b2", At: metav1.Unix(2000, 0), Result: "x"}
	const (
		progressText = `{"request":"r2","epoch":2,"bootID":"b1","cordonedByAgent":false,"acceptedAt":"1970-01-01T00:16:40Z"}`
		cordonedText = `{"request":"r2","epoch":2,"bootID":"b1","cordonedByAgent":true,"acceptedAt":"1970-01-01T00:16:40Z"}`
		outcomeText  = `{"request":"r2","epoch":2,"fromBootID":"b1","toBootID":"b2","at":"1970-01-01T00:33:20Z","result":"x"}`
	)
	cordoned := progress
	cordoned.CordonedByAgent = true
	told := progress
	told.Asked = &protocol.Asked{Start: "s", At: metav1.Unix(1500, 0)}
	const toldText = `{"request":"r2","epoch":2,"bootID":"b1","cordonedByAgent":false,"acceptedAt":"1970-01-01T00:16:40Z",` +
		`"asked":{"start":"s","at":"1970-01-01T00:25:00Z"}}`
	const removed = ""

	DescribeTable("changes these and no others",
		func(edit func(node *corev1.Node) error, cordonedBefore, cordonedAfter bool, changes map[string]string) {
			node := &corev1.Node{Spec: corev1.NodeSpec{Unschedulable: cordonedBefore}}
			node.Annotations = map[string]string{
				"other": "x", protocol.Needed: "newer", protocol.Paused: "false", protocol.Now: "now",
				protocol.InProgress: "progress", protocol.Void: "1", protocol.LastReboot: "last", protocol.Permit: "permit",
				protocol.Recent: `[{"epoch":1,"at":"1970-01-01T00:00:10Z"},{"epoch":2,"at":"1970-01-01T00:00:20Z"}]`,
			}
			want := maps.Clone(node.Annotations)
			for key, value := range changes {
				if want[key] = value; value == removed {
					delete(want, key)
				}
			}
			Expect(edit(node)).To(Succeed())
			Expect(node.Annotations).To(Equal(want))
			Expect(node.Spec.Unschedulable).To(Equal(cordonedAfter))
		},
		Entry("ask", func(n *corev1.Node) error { protocol.Ask(n, "r"); return nil }, false, false,
			map[string]string{protocol.Needed: "r"}),
		Entry("allow", func(n *corev1.Node) error { return protocol.Allow(n, protocol.Grant{Request: request}) }, false, false,
			map[string]string{protocol.Needed: removed, protocol.Permit: removed, protocol.Now: `{"request":"r2","epoch":2}`}),
		Entry("void", func(n *corev1.Node) error { protocol.VoidEpoch(n, 7); return nil }, false, false,
			map[string]string{protocol.Void: "7"}),
		Entry("revoke", func(n *corev1.Node) error { protocol.Revoke(n, "r", 7); return nil }, false, false,
			map[string]string{protocol.Now: removed, protocol.Void: "7"}),
		Entry("accept", func(n *corev1.Node) error { return protocol.Accept(n, progress) }, false, true,
			map[string]string{protocol.Now: removed, protocol.InProgress: cordonedText}),
		Entry("accept, cordoned by others", func(n *corev1.Node) error { return protocol.Accept(n, cordoned) }, true, true,
			map[string]string{protocol.Now: removed, protocol.InProgress: progressText}),
		Entry("proceed", func(n *corev1.Node) error { return protocol.Proceed(n, cordoned) }, true, true,
			map[string]string{protocol.InProgress: cordonedText}),
		Entry("proceed, and tell the machine", func(n *corev1.Node) error { return protocol.Proceed(n, told) }, true, true,
			map[string]string{protocol.InProgress: toldText, protocol.Permit: removed}),
		Entry("permit", func(n *corev1.Node) error {
			return protocol.AllowNow(n, protocol.Permission{Request: request, Try: 3, Seconds: 60}, metav1.Unix(30, 0), metav1.Unix(10, 0))
		}, true, true, map[string]string{
			protocol.Permit: `{"request":"r2","epoch":2,"try":3,"seconds":60}`,
			protocol.Recent: `[{"epoch":1,"at":"1970-01-01T00:00:10Z"},{"epoch":2,"at":"1970-01-01T00:00:30Z","first":"1970-01-01T00:00:20Z"}]`,
		}),
		Entry("permit the first question, after a reboot of the same epoch that a person has removed", func(n *corev1.Node) error {
			return protocol.AllowNow(n, protocol.Permission{Request: request, Try: 1, Seconds: 60}, metav1.Unix(30, 0), metav1.Unix(10, 0))
		}, true, true, map[string]string{
			protocol.Permit: `{"request":"r2","epoch":2,"try":1,"seconds":60}`,
			protocol.Recent: `[{"epoch":1,"at":"1970-01-01T00:00:10Z"},{"epoch":2,"at":"1970-01-01T00:00:30Z"}]`,
		}),
		Entry("permit, long after the others", func(n *corev1.Node) error {
			return protocol.AllowNow(n, protocol.Permission{Request: request, Try: 3}, metav1.Unix(30, 0), metav1.Unix(25, 0))
		}, true, true, map[string]string{
			protocol.Permit: `{"request":"r2","epoch":2,"try":3,"seconds":0}`,
			protocol.Recent: `[{"epoch":2,"at":"1970-01-01T00:00:30Z","first":"1970-01-01T00:00:20Z"}]`,
		}),
		Entry("permit, after a first permission that a different clock has recorded in the future", func(n *corev1.Node) error {
			return protocol.AllowNow(n, protocol.Permission{Request: request, Try: 3}, metav1.Unix(15, 0), metav1.Unix(0, 0))
		}, true, true, map[string]string{
			protocol.Permit: `{"request":"r2","epoch":2,"try":3,"seconds":0}`,
			protocol.Recent: `[{"epoch":1,"at":"1970-01-01T00:00:10Z"},{"epoch":2,"at":"1970-01-01T00:00:15Z"}]`,
		}),
		Entry("forget", func(n *corev1.Node) error { return protocol.Forget(n, 2) }, true, true,
			map[string]string{protocol.Recent: `[{"epoch":1,"at":"1970-01-01T00:00:10Z"}]`}),
		Entry("forget none", func(n *corev1.Node) error { return protocol.Forget(n, 3) }, true, true, nil),
		Entry("decline", func(n *corev1.Node) error { return protocol.Decline(n, outcome) }, true, true,
			map[string]string{protocol.Now: removed, protocol.InProgress: removed, protocol.Permit: removed, protocol.LastReboot: outcomeText}),
		Entry("complete", func(n *corev1.Node) error { return protocol.Complete(n, outcome, true) }, true, false,
			map[string]string{protocol.InProgress: removed, protocol.Permit: removed, protocol.LastReboot: outcomeText}),
		Entry("complete, and leave the cordon", func(n *corev1.Node) error { return protocol.Complete(n, outcome, false) }, true, true,
			map[string]string{protocol.InProgress: removed, protocol.Permit: removed, protocol.LastReboot: outcomeText}),
		Entry("call off", func(n *corev1.Node) error { return protocol.CallOff(n, outcome, true) }, true, false,
			map[string]string{protocol.InProgress: removed, protocol.Permit: removed, protocol.LastReboot: outcomeText}),
		Entry("restamp", func(n *corev1.Node) error { return protocol.Restamp(n, outcome) }, true, true,
			map[string]string{protocol.LastReboot: outcomeText}),
	)

	DescribeTable("gives the request back where there is no newer one",
		func(edit func(node *corev1.Node) error) {
			node := &corev1.Node{}
			Expect(edit(node)).To(Succeed())
			Expect(node.Annotations).To(HaveKeyWithValue(protocol.Needed, "r2"))
			Expect(node.Spec.Unschedulable).To(BeFalse())
		},
		Entry("revoke", func(n *corev1.Node) error { protocol.Revoke(n, "r2", 7); return nil }),
		Entry("call off", func(n *corev1.Node) error { return protocol.CallOff(n, outcome, false) }),
	)
})

var _ = Describe("a state", func() {
	It("says which epochs are spent", func() {
		Expect(protocol.State{}.Spent()).To(BeZero())
		Expect(protocol.State{Void: 3}.Spent()).To(BeEquivalentTo(3))
		last := &protocol.Outcome{Request: protocol.Request{Epoch: 5}}
		Expect(protocol.State{Void: 3, Last: last}.Spent()).To(BeEquivalentTo(5))
		Expect(protocol.State{Void: 6, Last: last}.Spent()).To(BeEquivalentTo(6))
	})

	It("has the faults of the keys that are asked for, or all", func() {
		node := nodeWith(protocol.Now, "garbage")
		node.Annotations[protocol.Void] = "garbage"
		state := protocol.Read(node)
		Expect(state.Fault()).To(MatchError(And(ContainSubstring(protocol.Now), ContainSubstring(protocol.Void))))
		Expect(state.Fault(protocol.Now)).To(MatchError(Not(ContainSubstring(protocol.Void))))
		Expect(state.Fault(protocol.Needed, protocol.Void)).To(MatchError(ContainSubstring(protocol.Void)))
		Expect(state.Fault(protocol.Needed)).To(Succeed())
	})

	It("is claimed by a grant and by a reboot, readable or not", func() {
		Expect(protocol.Claimed(nodeWith(protocol.Now, ""))).To(BeTrue())
		Expect(protocol.Claimed(nodeWith(protocol.InProgress, "garbage"))).To(BeTrue())
		Expect(protocol.Claimed(nodeWith(protocol.Needed, "r"))).To(BeFalse())
	})

	It("quotes as much of a value as it shows", func() {
		shown := func(n int) string {
			return protocol.Read(nodeWith(protocol.Void, strings.Repeat("z", n))).Fault().Error()
		}
		Expect(shown(60)).To(ContainSubstring(`"` + strings.Repeat("z", 60) + `" is`))
		Expect(shown(61)).To(ContainSubstring(`"` + strings.Repeat("z", 60) + `"… is`))
	})

	It("takes a request of the greatest length", func() {
		longest := strings.Repeat("x", protocol.MaxRequest)
		Expect(protocol.Read(nodeWith(protocol.Needed, longest)).Needed).To(HaveValue(Equal(longest)))
	})
})

var _ = Describe("terms", func() {
	It("have defaults, and end with the window", func() {
		Expect(protocol.Terms{}.DrainTimeout()).To(Equal(protocol.DefaultDrainTimeout))
		Expect(protocol.Terms{DrainSeconds: 1}.DrainTimeout()).To(Equal(time.Second))
		Expect(protocol.Terms{}.Expired(time.Unix(1<<40, 0))).To(BeFalse())
		until := protocol.Terms{NotAfter: metav1.Unix(100, 0)}
		Expect(until.Expired(time.Unix(99, 0))).To(BeFalse())
		Expect(until.Expired(time.Unix(100, 0))).To(BeTrue())
	})
})

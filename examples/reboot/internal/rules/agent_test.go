package rules_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
	"github.com/homeostat/homeostat/examples/reboot/internal/rules"
)

var _ = Describe("Agent", func() {
	request := protocol.Request{Request: "r", Epoch: 1}
	inProgress := &protocol.Progress{Request: request, BootID: "b1"}
	grant := &protocol.Grant{Request: request, At: metav1.Time{Time: start}}
	older := &protocol.Grant{Request: request}
	closing := &protocol.Grant{Request: request, At: grant.At, Terms: protocol.Terms{NotAfter: metav1.Time{Time: start.Add(time.Second)}}}
	closed := &protocol.Grant{Request: request, At: grant.At, Terms: protocol.Terms{NotAfter: metav1.Time{Time: start}}}
	needed := "r"
	ago := func(d time.Duration) *protocol.Grant {
		return &protocol.Grant{Request: request, At: metav1.Time{Time: start.Add(-d)}}
	}

	DescribeTable("its next step follows from in-progress, now and the boot id",
		func(state protocol.State, bootID string, want rules.AgentStep) {
			Expect(rules.Agent(state, bootID, start)).To(Equal(want))
		},
		Entry("nothing", protocol.State{}, "b1", rules.Idle),
		Entry("only asked", protocol.State{Needed: &needed}, "b1", rules.Idle),
		Entry("now", protocol.State{Now: grant}, "b1", rules.Accept),
		Entry("now, although paused", protocol.State{Now: grant, Paused: true}, "b1", rules.Accept),
		Entry("now, a moment before the window closes", protocol.State{Now: closing}, "b1", rules.Accept),
		Entry("now, when the window closed", protocol.State{Now: closed}, "b1", rules.Idle),
		Entry("now, of an older controller", protocol.State{Now: older}, "b1", rules.Idle),
		Entry("now, a minute ago", protocol.State{Now: ago(time.Minute)}, "b1", rules.Accept),
		Entry("now, longer ago", protocol.State{Now: ago(time.Minute + 1)}, "b1", rules.Refuse),
		Entry("now, in the future", protocol.State{Now: ago(-time.Minute - 1)}, "b1", rules.Refuse),
		Entry("in progress, same boot", protocol.State{InProgress: inProgress}, "b1", rules.Resume),
		Entry("in progress, other boot", protocol.State{InProgress: inProgress}, "b2", rules.Complete),
		Entry("in progress before now", protocol.State{InProgress: inProgress, Now: grant}, "b1", rules.Resume),
		Entry("needed again meanwhile", protocol.State{InProgress: inProgress, Needed: &needed}, "b2", rules.Complete),
		Entry("after the reboot", protocol.State{Last: &protocol.Outcome{ToBootID: "b2"}}, "b2", rules.Idle),
		Entry("booted again by itself", protocol.State{Last: &protocol.Outcome{ToBootID: "b2"}}, "b3", rules.Restamp),
		Entry("a fault elsewhere", protocol.State{Now: grant, Faults: []*protocol.FaultError{{Key: protocol.Paused}}},
			"b1", rules.Accept),
	)

	DescribeTable("it asks for a reboot that a file requires",
		func(state protocol.State, file string, want bool) { Expect(rules.Asks(state, file)).To(Equal(want)) },
		Entry("a file", protocol.State{}, "f 1", true),
		Entry("no file", protocol.State{}, "", false),
		Entry("needed already", protocol.State{Needed: &needed}, "f 1", false),
		Entry("granted already", protocol.State{Now: grant}, "f 1", false),
		Entry("in progress already", protocol.State{InProgress: inProgress}, "f 1", false),
		Entry("a file that has outlived its reboot", protocol.State{Last: &protocol.Outcome{
			Request: protocol.Request{Request: "f 1"}, Result: protocol.Rebooted,
		}}, "f 1", false),
		Entry("a file that was made since", protocol.State{Last: &protocol.Outcome{
			Request: protocol.Request{Request: "f 1"}, Result: protocol.Rebooted,
		}}, "f 2", true),
		Entry("withdrawn after it was called off", protocol.State{Last: &protocol.Outcome{
			Request: protocol.Request{Request: "f 1"}, Result: protocol.CalledOff,
		}}, "f 1", true),
		Entry("something cannot be read", protocol.State{Faults: []*protocol.FaultError{{Key: protocol.Void}}}, "f 1", false),
	)

	DescribeTable("it does nothing on what it cannot read",
		func(state protocol.State, bootID, message string) {
			step, err := rules.Agent(state, bootID, start)
			Expect(step).To(Equal(rules.Idle))
			Expect(err).To(MatchError(ContainSubstring(message)))
		},
		Entry("garbled now", protocol.State{Faults: []*protocol.FaultError{{Key: protocol.Now}}}, "b1", protocol.Now),
		Entry("garbled in-progress, even with a good now",
			protocol.State{Now: grant, Faults: []*protocol.FaultError{{Key: protocol.InProgress}}}, "b1", protocol.InProgress),
		Entry("no boot id", protocol.State{Now: grant}, "", "boot id is empty"),
	)
})

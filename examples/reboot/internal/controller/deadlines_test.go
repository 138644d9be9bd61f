package controller_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
	"github.com/homeostat/homeostat/examples/reboot/internal/rules"
)

// Windows, virtual nodes, an image that cannot be pulled: such a node never
// answers.
func TestANodeWithoutAnAgentDoesNotBlockOtherNodesForLong(t *testing.T) {
	play(t, func(s *stage) {
		s.group("g", intstr.FromInt32(1), nil)
		s.asking("n1")
		s.pass(time.Second) // it has the slot
		s.asking("n2")
		s.pass(rules.AcceptTimeout + time.Second)
		s.Expect(s.holders("g")).To(gomega.Equal([]string{"n2"}))
		s.Expect(s.state("n1")).To(gomega.And(gomega.HaveField("Now", gomega.BeNil()),
			gomega.HaveField("Needed", gomega.HaveValue(gomega.Equal("r"))), gomega.HaveField("Last.Result", protocol.CalledOff)))
		s.Expect(s.condition("g", rules.ConditionWaiting)).To(gomega.ContainSubstring("n1: called off, and not tried again before"))
		s.change("n2", map[string]any{protocol.Now: nil})
		s.pass(api.DefaultRetry)
		s.Expect(s.holders("g")).To(gomega.Equal([]string{"n1"}), "it is tried again")
	})
}

// cordoned cordons as the agent does, so that the server has its field manager
// on record.
func (s *stage) cordoned(node string) {
	core := kubernetes.NewForConfigOrDie(s.sim.Config(protocol.AgentManager)).CoreV1().Nodes()
	n, err := core.Get(s.ctx, node, metav1.GetOptions{})
	s.Expect(err).NotTo(gomega.HaveOccurred())
	n.Spec.Unschedulable = true
	_, err = core.Update(s.ctx, n, metav1.UpdateOptions{FieldManager: protocol.AgentManager})
	s.Expect(err).NotTo(gomega.HaveOccurred())
}

func (s *stage) isCordoned(node string) bool {
	n, err := s.core.CoreV1().Nodes().Get(s.ctx, node, metav1.GetOptions{})
	s.Expect(err).NotTo(gomega.HaveOccurred())
	return n.Spec.Unschedulable
}

// recordon is another client, which lifts the cordon and makes one of its own.
func (s *stage) recordon(node string) {
	s.patch(node, `{"spec":{"unschedulable":null}}`)
	s.patch(node, `{"spec":{"unschedulable":true}}`)
}

// draining is a node whose agent has accepted, and is dead.
func (s *stage) draining(node, more string) {
	s.asking(node)
	s.pass(time.Second)
	s.change(node, accepted(`"cordonedByAgent":true`+more))
	s.cordoned(node)
}

func TestADrainEndsWithoutItsAgent(t *testing.T) {
	for policy, after := range map[string]time.Duration{"abort": 10 * time.Minute, "wait": 10 * time.Minute, "force": 10 * time.Minute} {
		t.Run(policy, func(t *testing.T) {
			play(t, func(s *stage) {
				s.group("g", intstr.FromInt32(1), nil)
				s.draining("n1", fmt.Sprintf(`,"drainPolicy":%q,"left":"Pod a/b: budget"`, policy))
				s.asking("n2")
				s.pass(after - time.Minute)
				s.Expect(s.holders("g")).To(gomega.Equal([]string{"n1"}))
				s.Expect(s.isCordoned("n1")).To(gomega.BeTrue())
				s.pass(2 * time.Minute)
				s.Expect(s.holders("g")).To(gomega.Equal([]string{"n2"}))
				s.Expect(s.isCordoned("n1")).To(gomega.BeFalse())
				s.Expect(s.state("n1")).To(gomega.And(gomega.HaveField("InProgress", gomega.BeNil()),
					gomega.HaveField("Needed", gomega.HaveValue(gomega.Equal("r"))), gomega.HaveField("Last.Result", protocol.CalledOff)))
				s.Expect(s.events.count("CalledOff")).To(gomega.Equal(1))
			})
		})
	}
}

func TestADrainThatIsCalledOffLeavesTheCordonOfOthers(t *testing.T) {
	play(t, func(s *stage) {
		s.group("g", intstr.FromInt32(1), nil)
		s.asking("n1")
		s.pass(time.Second)
		s.change("n1", accepted(`"cordonedByAgent":false`))
		s.cordoned("n1")
		s.pass(time.Hour)
		s.Expect(s.state("n1").Last).To(gomega.HaveValue(gomega.HaveField("Result", protocol.CalledOff)))
		s.Expect(s.isCordoned("n1")).To(gomega.BeTrue())
	})
}

func TestADrainThatIsCalledOffLeavesTheCordonThatAnotherClientHasPutThereSince(t *testing.T) {
	play(t, func(s *stage) {
		s.group("g", intstr.FromInt32(1), nil)
		s.draining("n1", "")
		s.recordon("n1")
		s.pass(time.Hour)
		s.Expect(s.state("n1").Last).To(gomega.HaveValue(gomega.HaveField("Result", protocol.CalledOff)))
		s.Expect(s.isCordoned("n1")).To(gomega.BeTrue())
	})
}

func TestADrainUnderWaitIsStuckOnceItsTimeIsOver(t *testing.T) {
	play(t, func(s *stage) {
		s.groupOf("g", api.RebootGroupSpec{
			MaxUnavailable: intstr.FromInt32(1), Drain: api.Drain{Policy: protocol.PolicyWait, TimeoutSeconds: 120},
		})
		s.asking("n1")
		s.pass(time.Second)
		for beat := range 10 {
			s.change("n1", accepted(fmt.Sprintf(`"try":%d,"drainPolicy":"wait","drainSeconds":120`, beat)))
			s.patch("n1", fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, protocol.InProgress,
				fmt.Sprintf(`{"request":"r","epoch":1,"bootID":"b1","start":"s","beat":%d,"drainPolicy":"wait","drainSeconds":120}`, beat+2)))
			s.pass(30 * time.Second)
			want := "False"
			if beat >= 3 {
				want = "True"
			}
			s.Expect(s.condition("g", rules.ConditionStuck)).To(gomega.HavePrefix(want), "%d", beat)
		}
		s.Expect(s.holders("g")).To(gomega.Equal([]string{"n1"}), "its agent is alive")
	})
}

func TestTheMachineIsPermittedToGoDownOnlyInsideAWindow(t *testing.T) {
	play(t, func(s *stage) {
		s.groupOf("g", api.RebootGroupSpec{MaxUnavailable: intstr.FromInt32(1), Windows: []api.Window{{Start: "00:00", End: "00:05"}}})
		s.asking("n1")
		s.pass(time.Second)
		s.change("n1", accepted(`"drained":true,"try":1,"waits":true`))
		s.pass(time.Second)
		s.Expect(s.state("n1").Permit).To(gomega.HaveValue(gomega.And(
			gomega.HaveField("Try", gomega.BeEquivalentTo(1)), gomega.HaveField("Seconds", gomega.BeEquivalentTo(60)))))
		s.Expect(s.state("n1").Recent).To(gomega.ConsistOf(gomega.HaveField("Epoch", gomega.BeEquivalentTo(1))))
		s.pass(4*time.Minute + 30*time.Second)
		s.change("n1", map[string]any{protocol.Permit: nil, protocol.InProgress: `{"request":"r","epoch":1,"bootID":"b1","start":"s",` +
			`"beat":3,"drained":true,"try":2,"waits":true}`})
		s.pass(time.Second)
		s.Expect(s.state("n1").Permit).To(gomega.HaveValue(gomega.HaveField("Seconds", gomega.BeNumerically("<", 30))))
		s.pass(time.Minute)
		s.Expect(s.state("n1")).To(gomega.And(gomega.HaveField("InProgress", gomega.BeNil()), gomega.HaveField("Permit", gomega.BeNil()),
			gomega.HaveField("Recent", gomega.BeEmpty()), gomega.HaveField("Last.Why", gomega.ContainSubstring("window closed"))))
		s.Expect(s.holders("g")).To(gomega.BeEmpty())
	})
}

func TestAMachineThatReportsTheSameBootIsGivenUpAndNotToldAgain(t *testing.T) {
	play(t, func(s *stage) {
		s.group("g", intstr.FromInt32(1), nil)
		s.draining("n1", `,"drained":true,"asked":{"start":"s","at":"2000-01-01T00:00:00Z"}`)
		s.pass(rules.AnswerTimeout - 2*time.Second)
		s.Expect(s.holders("g")).To(gomega.Equal([]string{"n1"}))
		s.pass(10 * time.Second)
		s.Expect(s.holders("g")).To(gomega.BeEmpty())
		s.Expect(s.isCordoned("n1")).To(gomega.BeFalse())
		s.pass(50 * time.Hour)
		s.Expect(s.events.count("Granted")).To(gomega.Equal(1))
		s.Expect(s.events.count("RebootUnproven")).To(gomega.Equal(1))
		s.Expect(s.events.count("HeldBack")).To(gomega.Equal(1))
		s.Expect(s.state("n1").Needed).To(gomega.HaveValue(gomega.Equal("r")), "no request is lost")
		s.Expect(s.condition("g", rules.ConditionHeldBack)).To(gomega.HavePrefix("True RebootsDoNotHelp n1: not tried again"))
		s.Expect(s.measured()).To(gomega.HaveKeyWithValue("reboot_group_held_back", 1.0))
		s.change("n1", map[string]any{protocol.Needed: "another"})
		s.pass(time.Second)
		s.Expect(s.granted("n1")).To(gomega.BeTrue())
	})
}

// The machine takes a few seconds to refuse, in which the controller sees that
// it was told.
func TestAMachineThatRefusesAgainAndAgainIsCalledOff(t *testing.T) {
	play(t, func(s *stage) {
		s.group("g", intstr.FromInt32(1), nil)
		s.draining("n1", "")
		s.asking("n2")
		told := 0
		for beat := 2; s.state("n1").InProgress != nil && told < 30; beat += 3 {
			now := func(more string) {
				s.change("n1", map[string]any{protocol.InProgress: fmt.Sprintf(
					`{"request":"r","epoch":1,"bootID":"b1","start":"s","cordonedByAgent":true,"drained":true,"beat":%d,"try":%d%s}`, beat, told+1, more)})
				s.pass(20 * time.Second)
			}
			now(`,"waits":true,"refused":"inhibited"`)
			if s.state("n1").InProgress == nil {
				break
			}
			s.Expect(s.state("n1").Permit).To(gomega.HaveValue(gomega.HaveField("Try", gomega.BeEquivalentTo(told+1))))
			s.change("n1", map[string]any{protocol.Permit: nil})
			now(`,"asked":{"start":"s","at":"2000-01-01T00:00:00Z"}`)
			told++
			now(`,"refused":"inhibited"`)
		}
		s.Expect(told).To(gomega.Equal(10), "once a minute for ten minutes")
		s.Expect(s.state("n1").Last).To(gomega.HaveValue(gomega.And(gomega.HaveField("Result", protocol.CalledOff),
			gomega.HaveField("Why", "the machine has not begun to reboot within 10m0s: inhibited"))))
		s.Expect(s.isCordoned("n1")).To(gomega.BeFalse())
		s.pass(time.Second)
		s.Expect(s.holders("g")).To(gomega.Equal([]string{"n2"}))
		s.Expect(s.condition("g", rules.ConditionWaiting)).To(gomega.ContainSubstring("n1: called off, and not tried again before"))
	})
}

// Its agent's Pod does not start any more after the reboot.
func TestAMachineThatHasRebootedWithoutAnAgentIsBack(t *testing.T) {
	play(t, func(s *stage) {
		s.group("g", intstr.FromInt32(1), nil)
		s.draining("n1", `,"drained":true,"asked":{"start":"s","at":"2000-01-01T00:00:00Z"}`)
		s.pass(time.Minute)
		s.boot("n1", "b2")
		s.pass(time.Hour)
		s.Expect(s.holders("g")).To(gomega.BeEmpty())
		s.Expect(s.isCordoned("n1")).To(gomega.BeFalse())
		s.Expect(s.state("n1").Last).To(gomega.HaveValue(gomega.And(gomega.HaveField("Result", protocol.Rebooted), gomega.HaveField("ToBootID", "b2"))))
	})
}

// A machine that was told to reboot, and is away, keeps its slot, however long.
func TestAMachineThatDoesNotComeBackKeepsItsSlot(t *testing.T) {
	play(t, func(s *stage) {
		s.group("g", intstr.FromInt32(1), nil)
		s.draining("n1", `,"drained":true,"asked":{"start":"s","at":"2000-01-01T00:00:00Z"}`)
		s.unready("n1")
		s.pass(50 * time.Hour)
		s.Expect(s.holders("g")).To(gomega.Equal([]string{"n1"}))
		s.Expect(s.condition("g", rules.ConditionStuck)).To(gomega.HavePrefix("True"))
	})
}

func (s *stage) unready(node string) {
	_, err := s.core.CoreV1().Nodes().Patch(s.ctx, node, "application/strategic-merge-patch+json",
		[]byte(`{"status":{"conditions":[{"type":"`+string(corev1.NodeReady)+`","status":"Unknown"}]}}`), metav1.PatchOptions{}, "status")
	s.Expect(err).NotTo(gomega.HaveOccurred())
}

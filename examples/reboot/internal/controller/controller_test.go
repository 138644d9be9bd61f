package controller_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/examples/reboot/internal/controller"
	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
	"github.com/homeostat/homeostat/examples/reboot/internal/rules"
)

func TestItGrantsAsManyAsTheLimitAllowsOldestFirst(t *testing.T) {
	play(t, func(s *stage) {
		s.group("g", intstr.FromString("50%"), nil)
		s.node("n1", nil)
		s.node("n5", nil)
		for _, name := range []string{"n4", "n2", "n3"} {
			s.asking(name)
			s.pass(time.Second)
		}
		s.Expect(s.holders("g")).To(gomega.Equal([]string{"n2", "n4"}))
		s.Expect(s.state("n4").Now).To(gomega.HaveValue(gomega.HaveField("Request", protocol.Request{Request: "r", Epoch: 1})))
		s.Expect(s.state("n4").Needed).To(gomega.BeNil())
		s.Expect(s.state("n3").Needed).NotTo(gomega.BeNil())
		s.Expect(s.condition("g", rules.ConditionWaiting)).To(gomega.Equal(
			"True MaxUnavailableReached oldest first: n3; 2 of 2 may be unavailable: n4; n2"))
	})
}

// accepted moves reboot-now to reboot-in-progress, as an agent does, with these
// fields besides.
func accepted(more string) map[string]any {
	return map[string]any{
		protocol.Now: nil, protocol.InProgress: `{"request":"r","epoch":1,"bootID":"b1","start":"s","beat":1,` + more + `}`,
	}
}

// standby never leads.
type standby struct{}

func (standby) Run(ctx context.Context, _ func(context.Context) error) error {
	<-ctx.Done()
	return nil
}

func TestAStandbyGrantsNothing(t *testing.T) {
	playAs(t, standby{}, func(s *stage) {
		s.asking("n1")
		s.pass(time.Minute)
		s.Expect(s.state("n1").Needed).NotTo(gomega.BeNil())
	})
}

func TestItRestsWhenThereIsNothingToDo(t *testing.T) {
	play(t, func(s *stage) {
		s.group("g", intstr.FromInt32(1), nil)
		s.asking("n1", "n2", "n3")
		s.pass(time.Second)
		before := s.sim.Version()
		s.pass(rules.AcceptTimeout - 5*time.Second)
		s.Expect(s.sim.Version()).To(gomega.Equal(before), "it writes although nothing changes")
	})
}

func TestAnIdleGroupIsNotReconciled(t *testing.T) {
	play(t, func(s *stage) {
		s.group("g", intstr.FromInt32(1), nil)
		s.node("n1", nil)
		s.pass(time.Minute)
		before := s.controller.Control().Stats().Reconciles
		s.pass(10 * time.Minute)
		s.Expect(s.controller.Control().Stats().Reconciles).To(gomega.Equal(before))
	})
}

func TestItDoesNotAskAgainAndAgainWhileItsCacheIsBehind(t *testing.T) {
	play(t, func(s *stage) {
		s.group("g", intstr.FromInt32(1), nil)
		s.asking("n1")
		s.pass(time.Minute)
		s.groups.shut.Store(true)
		change := func(json string, subresource ...string) {
			_, err := s.groups.Patch(s.ctx, "g", types.MergePatchType, []byte(json), metav1.PatchOptions{}, subresource...)
			s.Expect(err).NotTo(gomega.HaveOccurred())
		}
		change(`{"status":{"slots":[]}}`, "status") // by another controller, since the node is deleted
		s.Expect(s.core.CoreV1().Nodes().Delete(s.ctx, "n1", metav1.DeleteOptions{})).To(gomega.Succeed())
		before := s.groups.reads.Load()
		s.pass(time.Minute)
		s.Expect(s.groups.reads.Load() - before).To(gomega.BeNumerically("~", 1, 1))

		s.groups.shut.Store(false)
		change(`{"metadata":{"labels":{"a":"b"}}}`)
		s.asking("n2")
		s.pass(time.Minute)
		s.Expect(s.holders("g")).To(gomega.Equal([]string{"n2"}), "it goes on when the cache has seen it")
	})
}

func TestItTellsOfAFullGroupOnceInAWhile(t *testing.T) {
	play(t, func(s *stage) {
		s.group("g", intstr.FromInt32(1), nil)
		s.asking("n1")
		s.pass(time.Second) // it has the slot
		s.asking("n2")
		s.pass(time.Minute)
		s.asking("n3", "n4")
		s.pass(time.Minute)
		s.Expect(s.events.count("MaxUnavailableReached")).To(gomega.Equal(1))
		s.change("n1", accepted(`"drainPolicy":"wait","drainSeconds":6000`))
		s.pass(controller.DefaultEventInterval)
		s.asking("n5")
		s.pass(time.Minute)
		s.Expect(s.events.count("MaxUnavailableReached")).To(gomega.Equal(2))
		s.Expect(s.events.count("Requested")).To(gomega.Equal(5))
		s.Expect(s.events.count("Granted")).To(gomega.Equal(1))
	})
}

func TestItSaysWhoIsStuck(t *testing.T) {
	play(t, func(s *stage) {
		s.group("g", intstr.FromInt32(1), nil)
		s.asking("n1")
		s.pass(time.Minute)
		s.Expect(s.condition("g", rules.ConditionStuck)).To(gomega.HavePrefix("False"))
		s.Expect(s.events.count("Stuck")).To(gomega.BeZero())
		s.change("n1", accepted(`"drainSeconds":6000`))
		s.pass(controller.DefaultStuckAfter)
		s.Expect(s.condition("g", rules.ConditionStuck)).To(gomega.And(gomega.HavePrefix("True SlotHeldTooLong n1 since"),
			gomega.HaveSuffix("draining")))
		s.Expect(s.events.count("Stuck")).To(gomega.Equal(1))
	})
}

func TestItMakesTheDefaultGroupOnlyWhenItIsMissed(t *testing.T) {
	play(t, func(s *stage) {
		s.group("g", intstr.FromInt32(1), &metav1.LabelSelector{MatchLabels: map[string]string{"name": "n1"}})
		s.asking("n1")
		s.node("n2", nil)
		s.pass(time.Minute)
		_, err := s.groups.Get(s.ctx, api.DefaultName, metav1.GetOptions{})
		s.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("not found")))
		s.ask("n2")
		s.pass(time.Minute)
		s.Expect(s.holders(api.DefaultName)).To(gomega.Equal([]string{"n2"}))
		s.Expect(s.holders("g")).To(gomega.Equal([]string{"n1"}))
		s.Expect(s.condition("g", rules.ConditionOverlap)).To(gomega.HavePrefix("False"), "default is no rival")
	})
}

func TestItMakesNoDefaultGroupBecauseItsCacheIsBehind(t *testing.T) {
	play(t, func(s *stage) {
		s.pass(time.Second)
		s.groups.shut.Store(true)
		s.group("g", intstr.FromInt32(1), nil)
		s.asking("n1")
		s.pass(time.Minute)
		_, err := s.groups.Get(s.ctx, api.DefaultName, metav1.GetOptions{})
		s.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("not found")))
	})
}

func TestANodeThatTwoGroupsSelectIsRebootedByNeither(t *testing.T) {
	play(t, func(s *stage) {
		s.group("b", intstr.FromString("100%"), nil)
		s.group("a", intstr.FromInt32(1), only("n1"))
		s.asking("n1", "n2")
		s.pass(time.Minute)
		s.Expect(s.holders("a")).To(gomega.BeEmpty())
		s.Expect(s.holders("b")).To(gomega.Equal([]string{"n2"}))
		s.Expect(s.status("b").Limit).To(gomega.BeEquivalentTo(1), "n1 does not belong to it")
		for _, group := range []string{"a", "b"} {
			s.Expect(s.condition(group, rules.ConditionOverlap)).To(gomega.Equal("True SelectedByOthers " +
				"a node that several groups select is not rebooted: narrow a nodeSelector: n1 (a, b)"))
			s.Expect(s.condition(group, rules.ConditionWaiting)).To(gomega.Equal("True NodesHeldBack oldest first: n1; " +
				"n1: the RebootGroups a and b select it, and none of them may reboot it until only one selects it"))
		}
		s.Expect(s.events.count("Requested")).To(gomega.Equal(1), "of n2")
		_, err := s.groups.Get(s.ctx, api.DefaultName, metav1.GetOptions{})
		s.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("not found")), "the built-in group does not have it, either")

		s.Expect(s.groups.Delete(s.ctx, "a", metav1.DeleteOptions{})).To(gomega.Succeed())
		s.pass(time.Minute)
		s.Expect(s.holders("b")).To(gomega.Equal([]string{"n1", "n2"}))
		s.Expect(s.condition("b", rules.ConditionOverlap)).To(gomega.HavePrefix("False"))
	})
}

func TestAnOverlapTakesBackWhatHasNotBegun(t *testing.T) {
	play(t, func(s *stage) {
		s.group("b", intstr.FromInt32(2), nil)
		s.asking("n1", "n2")
		s.pass(time.Minute)
		s.change("n2", map[string]any{protocol.Now: nil, protocol.InProgress: `{"request":"r","epoch":1,"bootID":"b1"}`})
		s.group("a", intstr.FromInt32(1), nil)
		s.pass(time.Minute)
		s.Expect(s.holders("b")).To(gomega.Equal([]string{"n2"}), "it is being rebooted")
		s.Expect(s.state("n1")).To(gomega.And(gomega.HaveField("Now", gomega.BeNil()),
			gomega.HaveField("Needed", gomega.HaveValue(gomega.Equal("r"))), gomega.HaveField("Void", gomega.BeEquivalentTo(1))))
		s.Expect(s.condition("b", rules.ConditionWaiting)).To(gomega.HavePrefix("True NodesHeldBack oldest first: n1;"))
	})
}

// only selects the node of that name.
func only(node string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"name": node}}
}

func TestANodeThatMovesGetsASlotOfItsNewGroupWhenTheOldOneIsReleased(t *testing.T) {
	play(t, func(s *stage) {
		s.group("a", intstr.FromInt32(1), only("n1"))
		s.group("b", intstr.FromInt32(1), only("moved"))
		s.asking("n1")
		s.pass(time.Minute)
		s.Expect(s.holders("a")).To(gomega.Equal([]string{"n1"}))
		s.label("n1", "moved") // granted, and not accepted
		s.pass(time.Minute)
		s.Expect(s.holders("a")).To(gomega.BeEmpty())
		s.Expect(s.holders("b")).To(gomega.Equal([]string{"n1"}))
		s.Expect(s.state("n1").Now).To(gomega.HaveValue(gomega.HaveField("Epoch", gomega.BeEquivalentTo(2))))
	})
}

func TestANodeThatMovesDuringItsRebootKeepsItsSlotUntilItIsBack(t *testing.T) {
	play(t, func(s *stage) {
		s.group("a", intstr.FromInt32(1), only("n1"))
		s.group("b", intstr.FromInt32(1), only("moved"))
		s.asking("n1")
		s.pass(time.Minute)
		s.change("n1", map[string]any{
			protocol.Now: nil, protocol.InProgress: `{"request":"r","epoch":1,"bootID":"b1"}`, protocol.Needed: "again",
		})
		s.label("n1", "moved")
		s.pass(time.Minute)
		s.Expect(s.holders("a")).To(gomega.Equal([]string{"n1"}))
		s.Expect(s.holders("b")).To(gomega.BeEmpty())
		s.change("n1", map[string]any{
			protocol.InProgress: nil, protocol.LastReboot: `{"request":"r","epoch":1,"fromBootID":"b1","toBootID":"b2","result":"rebooted"}`,
		})
		s.pass(time.Minute)
		s.Expect(s.holders("a")).To(gomega.Equal([]string{"n1"}), "its kubelet has not reported the boot")
		s.Expect(s.condition("b", rules.ConditionWaiting)).To(gomega.HaveSuffix("n1: RebootGroup a still holds a slot for it"))
		s.boot("n1", "b2")
		s.pass(time.Minute)
		s.Expect(s.holders("a")).To(gomega.BeEmpty())
		s.Expect(s.holders("b")).To(gomega.Equal([]string{"n1"}))
	})
}

func TestItStartsNothingWithALimitThatMakesNoSense(t *testing.T) {
	play(t, func(s *stage) {
		s.group("g", intstr.FromInt32(0), nil)
		s.asking("n1")
		s.pass(time.Minute)
		s.Expect(s.holders("g")).To(gomega.BeEmpty())
		s.Expect(s.condition("g", rules.ConditionValid)).To(gomega.HavePrefix(
			`False InvalidSpec RebootGroup "g": spec.maxUnavailable is 0: set a number of at least 1`))
		s.Expect(s.condition("g", rules.ConditionWaiting)).To(gomega.ContainSubstring("until the spec is corrected"))
		s.Expect(s.state("n1").Needed).NotTo(gomega.BeNil())
	})
}

func TestItRevokesWhenTheLimitIsLowered(t *testing.T) {
	play(t, func(s *stage) {
		s.group("g", intstr.FromInt32(2), nil)
		s.asking("n1", "n2")
		s.pass(time.Second)
		s.Expect(s.holders("g")).To(gomega.HaveLen(2))
		_, err := s.groups.Patch(s.ctx, "g", types.MergePatchType, []byte(`{"spec":{"maxUnavailable":1}}`), metav1.PatchOptions{})
		s.Expect(err).NotTo(gomega.HaveOccurred())
		s.pass(time.Second)
		s.Expect(s.holders("g")).To(gomega.Equal([]string{"n1"}))
		s.Expect(s.state("n2")).To(gomega.And(gomega.HaveField("Now", gomega.BeNil()),
			gomega.HaveField("Needed", gomega.HaveValue(gomega.Equal("r"))), gomega.HaveField("Void", gomega.BeEquivalentTo(1))))
	})
}

func TestTheSlotOfADeletedNodeIsReleased(t *testing.T) {
	play(t, func(s *stage) {
		s.group("g", intstr.FromInt32(1), nil)
		s.asking("n1", "n2")
		s.pass(time.Second)
		s.Expect(s.core.CoreV1().Nodes().Delete(s.ctx, "n1", metav1.DeleteOptions{})).To(gomega.Succeed())
		s.pass(time.Second)
		s.Expect(s.holders("g")).To(gomega.Equal([]string{"n2"}))
	})
}

func TestBothClientsAreNeeded(t *testing.T) {
	play(t, func(s *stage) {
		s.pass(time.Second) // a stop before the first list is an error
		none := gomega.MatchError("making the reboot controller: the client for nodes or for groups is nil")
		_, err := controller.New(nil, s.groups, nil)
		s.Expect(err).To(none)
		_, err = controller.New(s.core.CoreV1().Nodes(), nil, nil)
		s.Expect(err).To(none)
		_, err = controller.New(s.core.CoreV1().Nodes(), s.groups, nil)
		s.Expect(err).NotTo(gomega.HaveOccurred())
	})
}

func TestOptionsAreChecked(t *testing.T) {
	g := gomega.NewWithT(t)
	_, err := controller.New(nil, nil, &controller.Options{StuckAfter: -1, EventInterval: -1})
	g.Expect(err).To(gomega.MatchError(gomega.And(gomega.ContainSubstring("the client for nodes or for groups is nil"),
		gomega.ContainSubstring("Options.StuckAfter is -1ns"), gomega.ContainSubstring("Options.EventInterval is -1ns"))))
}

// A closed gate has a reason, an open one none.
type switchable struct {
	mu    sync.Mutex // guards the fields below
	why   string
	asked int
	next  []string // what it answers first
}

func (g *switchable) Blocked(context.Context) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked++
	if len(g.next) > 0 {
		why := g.next[0]
		g.next = g.next[1:]
		return why
	}
	return g.why
}

// set sets what the gate answers, after the answers that are next.
func (g *switchable) set(why string, next ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.why, g.next = why, next
}

func TestNothingBeginsWhileTheGateIsClosed(t *testing.T) {
	gate := &switchable{why: "Prometheus has NodeDown"}
	playWith(t, &controller.Options{Gate: gate}, func(s *stage) {
		s.group("g", intstr.FromInt32(1), nil)
		s.node("n1", nil)
		s.pass(time.Hour)
		s.Expect(gate.asked).To(gomega.BeZero(), "no node requests a reboot")
		s.node("n2", map[string]string{protocol.Needed: "r"})
		s.pass(10 * time.Minute)
		s.Expect(s.state("n2").Now).To(gomega.BeNil())
		s.Expect(s.condition("g", rules.ConditionWaiting)).To(gomega.And(gomega.HavePrefix("True "+rules.ReasonBlocked),
			gomega.HaveSuffix("n2; Prometheus has NodeDown")))
		s.Expect(gate.asked).To(gomega.BeNumerically("~", 10, 4), "once a minute")
		gate.set("")
		s.pass(controller.DefaultGatePeriod)
		s.Expect(s.state("n2").Now).NotTo(gomega.BeNil())
	})
}

// The controller asks before it reads the groups and nodes live, and once more
// after that.
func TestAGateThatClosesBetweenTwoQuestionsIsAskedAgain(t *testing.T) {
	gate := &switchable{why: "Prometheus has NodeDown"}
	playWith(t, &controller.Options{Gate: gate}, func(s *stage) {
		s.group("g", intstr.FromInt32(1), nil)
		s.asking("n1")
		s.pass(time.Second)
		gate.set("", "", "Prometheus has NodeDown")
		s.pass(controller.DefaultGatePeriod)
		s.Expect(s.state("n1").Now).To(gomega.BeNil())
		s.pass(controller.DefaultGatePeriod)
		s.Expect(s.state("n1").Now).NotTo(gomega.BeNil())
	})
}

func TestNothingBeginsOutsideAWindow(t *testing.T) {
	play(t, func(s *stage) { // it begins at midnight of a Saturday
		s.groupOf("g", api.RebootGroupSpec{
			MaxUnavailable: intstr.FromInt32(1), Drain: api.Drain{Policy: "wait", TimeoutSeconds: 60},
			Windows: []api.Window{{Days: []string{"Sun"}, Start: "22:00", End: "02:00"}},
		})
		s.node("n1", map[string]string{protocol.Needed: "r"})
		s.pass(45 * time.Hour)
		s.Expect(s.state("n1").Now).To(gomega.BeNil())
		s.Expect(s.condition("g", rules.ConditionWaiting)).To(gomega.And(gomega.HavePrefix("True "+rules.ReasonWindow),
			gomega.HaveSuffix("the next maintenance window opens at 2000-01-02T22:00:00Z")))
		s.pass(time.Hour + time.Minute)
		s.Expect(s.state("n1").Now).To(gomega.HaveValue(gomega.HaveField("Terms", gomega.And(
			gomega.HaveField("Policy", "wait"), gomega.HaveField("DrainSeconds", gomega.BeEquivalentTo(60)),
			gomega.HaveField("NotAfter.Time", gomega.BeTemporally("==", time.Date(2000, 1, 3, 2, 0, 0, 0, time.UTC)))))))

		// Its agent is away, and the window closes.
		s.change("n1", map[string]any{protocol.Now: nil}) // withdrawn
		s.pass(4*time.Hour - 2*time.Minute)
		s.change("n1", map[string]any{protocol.Needed: "r"})
		s.pass(time.Second)
		s.Expect(s.granted("n1")).To(gomega.BeTrue())
		s.pass(2 * time.Minute)
		s.Expect(s.state("n1")).To(gomega.And(gomega.HaveField("Now", gomega.BeNil()),
			gomega.HaveField("Needed", gomega.HaveValue(gomega.Equal("r")))))
		s.Expect(s.holders("g")).To(gomega.BeEmpty())
		s.Expect(s.logged(`"revoked the grant"`)).To(gomega.ConsistOf(
			gomega.ContainSubstring(`"why"="no maintenance window is open"`)))
	})
}

func TestNothingBeginsInAPausedGroup(t *testing.T) {
	play(t, func(s *stage) {
		s.groupOf("g", api.RebootGroupSpec{MaxUnavailable: intstr.FromInt32(1), Paused: true})
		s.asking("n1")
		s.pass(time.Hour)
		s.Expect(s.holders("g")).To(gomega.BeEmpty())
		s.Expect(s.condition("g", rules.ConditionWaiting)).To(gomega.HavePrefix("True Paused "))
		s.groupPatch("g", `{"spec":{"paused":false}}`)
		s.pass(time.Second)
		s.Expect(s.granted("n1")).To(gomega.BeTrue())
		s.groupPatch("g", `{"spec":{"paused":true}}`)
		s.pass(time.Second)
		s.Expect(s.granted("n1")).To(gomega.BeFalse(), "what has not begun is taken back")
		s.Expect(s.holders("g")).To(gomega.BeEmpty())
		s.Expect(s.logged(`"revoked the grant"`)).To(gomega.ConsistOf(gomega.ContainSubstring(`"why"="the group is paused"`)))
	})
}

func TestTheFinalizerKeepsALedgerUntilItIsEmpty(t *testing.T) {
	play(t, func(s *stage) {
		s.group("g", intstr.FromInt32(1), nil)
		s.pass(time.Minute)
		s.Expect(s.finalizers("g")).To(gomega.BeEmpty(), "a group without slots may go at any time")
		s.node("n1", map[string]string{protocol.Needed: "r"})
		s.pass(time.Minute)
		s.Expect(s.finalizers("g")).To(gomega.Equal([]string{"reboot.homeostat.dev/ledger"}))
		s.change("n1", map[string]any{protocol.Now: nil, protocol.InProgress: `{"request":"r","epoch":1,"bootID":"b1","drainPolicy":"wait"}`})
		s.Expect(s.groups.Delete(s.ctx, "g", metav1.DeleteOptions{})).To(gomega.Succeed())
		s.pass(time.Hour)
		s.Expect(s.finalizers("g")).To(gomega.HaveLen(1))
		s.Expect(s.core.CoreV1().Nodes().Delete(s.ctx, "n1", metav1.DeleteOptions{})).To(gomega.Succeed())
		s.pass(time.Minute)
		_, err := s.groups.Client.Get(s.ctx, "g", metav1.GetOptions{})
		s.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("not found")))
	})
}

func TestAGroupThatIsDeletedRevokesWhatWasNotAccepted(t *testing.T) {
	play(t, func(s *stage) {
		s.group("g", intstr.FromInt32(1), nil)
		s.node("n1", map[string]string{protocol.Needed: "r"})
		s.pass(time.Minute)
		s.Expect(s.state("n1").Now).NotTo(gomega.BeNil())
		s.Expect(s.groups.Delete(s.ctx, "g", metav1.DeleteOptions{})).To(gomega.Succeed())
		s.pass(time.Minute)
		_, err := s.groups.Client.Get(s.ctx, "g", metav1.GetOptions{})
		s.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("not found")))
		s.Expect(s.state("n1")).To(gomega.And(gomega.HaveField("Void", gomega.BeEquivalentTo(1)),
			gomega.HaveField("Now", gomega.HaveValue(gomega.HaveField("Epoch", gomega.BeEquivalentTo(2))))),
			"the built-in group has taken it over, and its grant stands")
		s.Expect(s.logged(`"revoked the grant"`)).To(gomega.ConsistOf(gomega.ContainSubstring(`"why"="the group is being deleted"`)))
		s.Expect(s.holders(api.DefaultName)).To(gomega.Equal([]string{"n1"}))
	})
}

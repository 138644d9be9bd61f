package agent_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"github.com/homeostat/homeostat/examples/reboot/internal/agent"
	"github.com/homeostat/homeostat/examples/reboot/internal/machine"
	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
)

// In a container with the host's /proc, and after a soft-reboot or kexec, a
// reboot does not change the boot id: the agent is started again, and again.
func TestALaterStartUnderTheSameBootDoesNotTellTheMachineAgain(t *testing.T) {
	told := map[string]string{protocol.InProgress: `{"request":"r","epoch":1,"bootID":"n-boot-1","drained":true,"start":"before",` +
		`"try":1,"asked":{"start":"before","at":"2000-01-01T00:00:00Z"}}`}
	play(t, told, func(s *stage) {
		before := s.sim.Version()
		s.pass(24 * time.Hour)
		s.Expect(s.machine.Off()).To(gomega.BeFalse())
		s.Expect(s.sim.Version()).To(gomega.Equal(before), "the controller ends it")
		s.Expect(s.events.texts("RebootUnproven")).To(gomega.ConsistOf(gomega.And(
			gomega.ContainSubstring("2000-01-01T00:00:00Z"), gomega.ContainSubstring("the same boot n-boot-1"))))
	})
}

// It is not known whether an agent of an older release has told the machine.
func TestAMachineThatAnOlderAgentMayHaveToldIsNotToldAgain(t *testing.T) {
	told := map[string]string{protocol.InProgress: `{"request":"r","epoch":1,"bootID":"n-boot-1","drained":true}`}
	play(t, told, func(s *stage) {
		s.pass(24 * time.Hour)
		s.Expect(s.machine.Off()).To(gomega.BeFalse())
		s.Expect(protocol.Read(s.node()).InProgress.Asked).To(gomega.HaveValue(gomega.HaveField("Start", "of an older release")))
		s.Expect(s.events.count("RebootUnproven")).To(gomega.Equal(1))
	})
}

func TestTheMachineIsToldOnlyAfterThatIsWritten(t *testing.T) {
	play(t, nil, func(s *stage) {
		s.grant()
		s.pass(time.Second)
		s.Expect(s.machine.Off()).To(gomega.BeTrue())
		s.Expect(protocol.Read(s.node()).InProgress).To(gomega.HaveValue(gomega.And(
			gomega.HaveField("Asked", gomega.Not(gomega.BeNil())), gomega.HaveField("Start", gomega.Not(gomega.BeEmpty())))))
		s.Expect(protocol.Read(s.node()).Permit).To(gomega.BeNil(), "it is used once")
	})
}

func TestWithoutTheControllersPermissionTheMachineStaysUp(t *testing.T) {
	play(t, nil, func(s *stage) {
		s.silent.Store(true)
		s.grant()
		s.pass(24 * time.Hour)
		s.Expect(s.machine.Off()).To(gomega.BeFalse())
		s.Expect(protocol.Read(s.node()).InProgress).To(gomega.HaveValue(gomega.And(
			gomega.HaveField("Drained", true), gomega.HaveField("Try", gomega.BeEquivalentTo(1)))))

		late := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, protocol.Permit, `{"request":"r","epoch":1,"try":1,"seconds":60}`)
		s.change(late)
		s.pass(time.Minute)
		s.Expect(s.machine.Off()).To(gomega.BeFalse(), "the answer may be as old as the question")
		s.Expect(protocol.Read(s.node()).InProgress).To(gomega.HaveValue(gomega.HaveField("Try", gomega.BeEquivalentTo(2))))
	})
}

// The agent writes now and then, so that the controller sees that it is alive.
func TestAnAgentThatWaitsGivesSigns(t *testing.T) {
	play(t, nil, func(s *stage) {
		s.silent.Store(true)
		s.grant()
		s.pass(time.Second)
		before := protocol.Read(s.node()).InProgress.Beat
		s.pass(protocol.DefaultDrainTimeout)
		s.Expect(protocol.Read(s.node()).InProgress.Beat).To(gomega.BeNumerically("~", before+4, 1))
	})
}

// clock is the wall clock of a node, which may be wrong, and may be set.
type clock struct{ off atomic.Int64 }

func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.off.Load())) }

func TestWhileTheClocksDifferNothingBegins(t *testing.T) {
	for name, off := range map[string]time.Duration{"behind": -14 * 24 * time.Hour, "ahead": 2 * time.Hour, "a little": 61 * time.Second} {
		t.Run(name, func(t *testing.T) {
			c := &clock{}
			c.off.Store(int64(off))
			playWith(t, nil, &agent.Options{Now: c.now}, func(s *stage) {
				s.grant()
				s.pass(time.Hour)
				s.Expect(s.machine.Off()).To(gomega.BeFalse())
				s.Expect(s.node().Spec.Unschedulable).To(gomega.BeFalse())
				state := protocol.Read(s.node())
				s.Expect(state.Needed).To(gomega.HaveValue(gomega.Equal("r")))
				s.Expect(state.Last).To(gomega.HaveValue(gomega.And(gomega.HaveField("Result", protocol.CalledOff),
					gomega.HaveField("Why", gomega.ContainSubstring("the controller's clock showed 2000-01-01T00:00:00Z")))))
				s.Expect(s.events.count("ClocksApart")).To(gomega.Equal(1))
			})
		})
	}
}

func TestAClockThatIsSetDoesNotShortenADrain(t *testing.T) {
	c := &clock{}
	playWith(t, nil, &agent.Options{Now: c.now}, func(s *stage) {
		s.guarded("web", 0)
		s.accept(terms(protocol.PolicyForce))
		s.pass(30 * time.Second)
		c.off.Store(int64(2 * time.Hour))
		s.pass(20 * time.Second)
		s.Expect(s.machine.Off()).To(gomega.BeFalse())
		s.pass(20 * time.Second)
		s.Expect(s.machine.Off()).To(gomega.BeTrue())
	})
}

// inhibited is a machine on which programs may forbid a reboot.
type inhibited struct {
	machine.Machine
	why atomic.Value
	err error
}

func (i *inhibited) Inhibitors(context.Context) (string, error) { return i.why.Load().(string), i.err }

func TestInhibitorsAreReadBeforeARebootBegins(t *testing.T) {
	m := &inhibited{Machine: machine.NewSimulated("n", nil)}
	m.why.Store("backup blocks a shutdown: it runs")
	playWith(t, nil, &agent.Options{Machine: m}, func(s *stage) {
		s.grant()
		s.pass(time.Minute)
		s.Expect(s.node().Spec.Unschedulable).To(gomega.BeFalse())
		s.Expect(protocol.Read(s.node())).To(gomega.And(gomega.HaveField("InProgress", gomega.BeNil()),
			gomega.HaveField("Needed", gomega.HaveValue(gomega.Equal("r"))), gomega.HaveField("Last.Why", "backup blocks a shutdown: it runs")))
		s.Expect(s.events.texts("RebootInhibited")).To(gomega.ConsistOf("backup blocks a shutdown: it runs"))
	})
	m.err = errors.New("no bus")
	playWith(t, granted(), &agent.Options{Machine: m}, func(s *stage) {
		s.pass(time.Minute)
		s.Expect(protocol.Read(s.node()).Now).NotTo(gomega.BeNil(), "unknown is neither")
	})
}

// A grant without a time was made by an older controller, which gives no
// permission.
func TestTheGrantOfAnOlderControllerIsNotAccepted(t *testing.T) {
	play(t, map[string]string{protocol.Now: `{"request":"r","epoch":1}`}, func(s *stage) {
		before := s.sim.Version()
		s.pass(time.Hour)
		s.Expect(s.sim.Version()).To(gomega.Equal(before))
	})
}

// A person calls a reboot off by removing reboot-in-progress, and its epoch may
// be granted once more.
func TestADrainThatBeginsAgainInTheSameEpochHasItsTime(t *testing.T) {
	play(t, nil, func(s *stage) {
		s.guarded("web", 0)
		s.accept(terms(protocol.PolicyForce))
		s.pass(50 * time.Second)
		s.change(fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, protocol.InProgress))
		s.pass(time.Second)
		s.accept(terms(protocol.PolicyForce))
		s.pass(50 * time.Second)
		s.Expect(s.machine.Off()).To(gomega.BeFalse())
		s.pass(20 * time.Second)
		s.Expect(s.machine.Off()).To(gomega.BeTrue())
	})
}

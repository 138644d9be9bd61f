package agent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/homeostat/homeostat/examples/reboot/internal/agent"
	"github.com/homeostat/homeostat/examples/reboot/internal/machine"
	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
	"github.com/homeostat/homeostat/queue"
)

// nodes is the agent's client of nodes, which may refuse to read or to write
// one, and whose node may differ from that in the agent's cache.
type nodes struct {
	typedcorev1.NodeInterface
	noReads, noWrites atomic.Bool
	ahead             atomic.Pointer[func(n *corev1.Node) error]
	meanwhile         atomic.Pointer[func()] // called once, before a patch is sent
	patched           func(n *corev1.Node)   // called after one
}

func (n *nodes) Get(ctx context.Context, name string, o metav1.GetOptions) (*corev1.Node, error) {
	if n.noReads.Load() {
		return nil, errors.New("not now")
	}
	node, err := n.NodeInterface.Get(ctx, name, o)
	if change := n.ahead.Load(); change != nil && err == nil {
		err = (*change)(node)
	}
	return node, err
}

func (n *nodes) Patch(
	ctx context.Context, name string, as types.PatchType, data []byte, o metav1.PatchOptions, subresources ...string,
) (*corev1.Node, error) {
	if n.noWrites.Load() {
		return nil, errors.New("not now")
	}
	if act := n.meanwhile.Swap(nil); act != nil {
		(*act)()
	}
	node, err := n.NodeInterface.Patch(ctx, name, as, data, o, subresources...)
	if err == nil {
		n.patched(node)
	}
	return node, err
}

// refuseAMinute refuses writes for a minute. No event follows one: only the
// error makes the agent try again.
func (s *stage) refuseAMinute() {
	s.nodes.noWrites.Store(true)
	s.pass(time.Minute)
	s.nodes.noWrites.Store(false)
}

func TestAGrantThatCannotBeAcceptedIsAcceptedLater(t *testing.T) {
	play(t, nil, func(s *stage) {
		s.pass(time.Second)
		s.nodes.noWrites.Store(true)
		s.grant()
		s.pass(4 * time.Second) // the next attempt is then well within rules.MaxApart of the grant
		s.nodes.noWrites.Store(false)
		s.Expect(protocol.Read(s.node()).Now).NotTo(gomega.BeNil())
		s.Expect(s.events.count("Draining")).To(gomega.BeZero())
		s.pass(10 * time.Minute)
		s.Expect(s.machine.Off()).To(gomega.BeTrue())
		s.Expect(s.events.texts("Draining")).To(gomega.ConsistOf(gomega.ContainSubstring(`"r"`)))
	})
}

func TestARebootThatCannotBeCompletedIsCompletedLater(t *testing.T) {
	play(t, granted(), func(s *stage) {
		s.pass(time.Second)
		s.machine.PowerOn()
		s.nodes.noWrites.Store(true)
		s.pass(5 * time.Minute)
		s.refuseAMinute()
		s.Expect(protocol.Read(s.node()).Last).To(gomega.BeNil())
		s.Expect(s.events.count("Rebooted")).To(gomega.BeZero())
		s.pass(10 * time.Minute)
		s.Expect(protocol.Read(s.node()).Last).To(gomega.HaveValue(gomega.HaveField("Result", protocol.Rebooted)))
		s.Expect(s.events.texts("Rebooted")).To(gomega.ConsistOf(gomega.ContainSubstring("boot n-boot-2 follows n-boot-1")))
	})
}

func TestABootThatCannotBeNotedIsNotedLater(t *testing.T) {
	last := map[string]string{protocol.LastReboot: `{"request":"r","epoch":1,"fromBootID":"n-boot-0","toBootID":"n-boot-1"}`}
	play(t, last, func(s *stage) {
		s.pass(time.Second)
		s.nodes.noWrites.Store(true)
		s.machine.Crash()
		s.machine.PowerOn()
		s.change(`{"metadata":{"labels":{"kubelet":"is-back"}}}`)
		s.refuseAMinute()
		s.pass(10 * time.Minute)
		s.Expect(protocol.Read(s.node()).Last).To(gomega.HaveValue(gomega.HaveField("ToBootID", "n-boot-2")))
	})
}

func TestAFileThatCannotBeReadOrAskedForIsAskedForLater(t *testing.T) {
	var broken atomic.Bool
	broken.Store(true)
	sentinel := func() (string, error) {
		if broken.Load() {
			return "", errors.New("stale file handle")
		}
		return "reboot-required 1", nil
	}
	playWith(t, nil, &agent.Options{Sentinel: sentinel}, func(s *stage) {
		s.pass(time.Minute)
		s.nodes.noWrites.Store(true)
		broken.Store(false)
		s.pass(10 * time.Minute)
		s.Expect(protocol.Read(s.node()).Needed).To(gomega.BeNil())
		s.Expect(s.events.count("RebootRequired")).To(gomega.BeZero())
		s.nodes.noWrites.Store(false)
		s.pass(10 * time.Minute)
		s.Expect(protocol.Read(s.node()).Needed).To(gomega.HaveValue(gomega.Equal("reboot-required 1")))
	})
}

func TestWithoutALiveReadNothingIsRebooted(t *testing.T) {
	play(t, nil, func(s *stage) {
		s.nodes.noReads.Store(true)
		s.grant()
		s.pass(time.Minute)
		s.Expect(protocol.Read(s.node()).InProgress).To(gomega.HaveValue(gomega.HaveField("Drained", true)))
		s.Expect(s.machine.Off()).To(gomega.BeFalse())
		s.nodes.noReads.Store(false)
		s.pass(10 * time.Minute)
		s.Expect(s.machine.Off()).To(gomega.BeTrue())
	})
}

// The agent's cache is behind: the reboot that it has accepted is no longer in
// progress.
func TestTheMachineIsNotToldIfTheRebootIsNoLongerInProgress(t *testing.T) {
	progress := func(old, now string) func(n *corev1.Node) error {
		return func(n *corev1.Node) error {
			n.Annotations[protocol.InProgress] = strings.Replace(n.Annotations[protocol.InProgress], old, now, 1)
			return nil
		}
	}
	for name, ahead := range map[string]func(n *corev1.Node) error{
		"deleted": func(n *corev1.Node) error { return apierrors.NewNotFound(corev1.Resource("nodes"), n.Name) },
		"recreated": func(n *corev1.Node) error {
			n.UID = "of another node"
			return nil
		},
		"called off": func(n *corev1.Node) error {
			delete(n.Annotations, protocol.InProgress)
			return nil
		},
		"another request": progress(`"request":"r"`, `"request":"other"`),
		"another epoch":   progress(`"epoch":1`, `"epoch":2`),
		"another boot":    progress("n-boot-1", "n-boot-0"),
		"not told":        progress(`"asked":`, `"other":`),
		"another start":   progress(`"asked":{"start":"`, `"asked":{"start":"other-`),
	} {
		t.Run(name, func(t *testing.T) {
			play(t, nil, func(s *stage) {
				s.nodes.ahead.Store(&ahead)
				s.grant()
				s.pass(time.Hour)
				s.Expect(protocol.Read(s.node()).InProgress).To(gomega.HaveValue(gomega.HaveField("Drained", true)))
				s.Expect(s.machine.Off()).To(gomega.BeFalse())
				s.nodes.ahead.Store(nil)
				s.change(`{"metadata":{"labels":{"looks":"again"}}}`)
				s.pass(5 * time.Minute) // its permission has expired, and it asks for another
				s.Expect(s.machine.Off()).To(gomega.BeTrue())
			})
		})
	}
}

func TestEventsTellOfWhatCannotBeReadAndOfRefusedReboots(t *testing.T) {
	play(t, map[string]string{protocol.Now: "garbage"}, func(s *stage) {
		s.pass(time.Hour)
		s.Expect(s.events.texts("InvalidAnnotation")).To(gomega.ConsistOf(gomega.ContainSubstring(protocol.Now)))
	})
	play(t, nil, func(s *stage) {
		s.machine.Refuse(errors.New("inhibited"))
		s.grant()
		s.pass(time.Second)
		s.Expect(s.events.texts("RebootRefused")).To(gomega.ContainElement(gomega.ContainSubstring("inhibited")))
		s.machine.Refuse(machine.ErrOtherBoot)
		s.pass(time.Hour)
		s.Expect(s.events.texts("RebootRefused")).NotTo(gomega.ContainElement(gomega.ContainSubstring("another boot")),
			"the next look sees it")
	})
}

// stubborn is a machine that stays up, whatever it answers.
type stubborn struct {
	*machine.Simulated
	calls  atomic.Int32
	silent bool // it does not answer at all
	err    error
}

func (m *stubborn) Reboot(ctx context.Context, _ string) error {
	m.calls.Add(1)
	if m.silent {
		<-ctx.Done()
		return ctx.Err()
	}
	return m.err
}

// It may still go down at any time, so the record that it was told stays, and
// the controller decides when to give up.
func TestAMachineThatDoesNotGoDownIsToldOnce(t *testing.T) {
	for name, m := range map[string]*stubborn{
		"accepted": {}, "not answered": {silent: true}, "the answer is lost": {err: fmt.Errorf("bus: %w", machine.ErrUnanswered)},
	} {
		t.Run(name, func(t *testing.T) {
			m.Simulated = machine.NewSimulated("n", nil)
			playWith(t, nil, &agent.Options{Machine: m}, func(s *stage) {
				s.grant()
				s.pass(24 * time.Hour)
				s.Expect(m.calls.Load()).To(gomega.BeEquivalentTo(1))
				s.Expect(protocol.Read(s.node()).InProgress).To(gomega.HaveValue(gomega.And(
					gomega.HaveField("Asked", gomega.Not(gomega.BeNil())), gomega.HaveField("Refused", gomega.BeEmpty()))))
				s.Expect(s.events.count("RebootRefused")).To(gomega.BeZero())
			})
		})
	}
}

func TestAllOptionsAreChecked(t *testing.T) {
	g := gomega.NewWithT(t)
	_, err := agent.New(nil, nil, &agent.Options{DrainPeriod: -1, AskPeriod: -1})
	g.Expect(err).To(gomega.MatchError(gomega.And(
		gomega.ContainSubstring("Options.DrainPeriod is -1ns"), gomega.ContainSubstring("Options.AskPeriod is -1ns"))))
	play(t, nil, func(s *stage) {
		s.pass(time.Second) // a stop before the first list is an error
		_, err := agent.New(s.nodes, s.pods, &agent.Options{Node: "n", Machine: s.machine, Backoff: queue.Backoff{Base: -1}})
		s.Expect(err).To(gomega.MatchError(gomega.HavePrefix("making the reboot agent: ")))
	})
}

// The agent's write is of the node that it has looked at: a grant that is taken
// back before the write arrives is not accepted, so nothing reboots without a
// slot.
func TestAGrantThatIsRevokedMeanwhileIsNotAccepted(t *testing.T) {
	play(t, nil, func(s *stage) {
		s.pass(time.Second)
		revoke := func() {
			s.change(fmt.Sprintf(`{"metadata":{"annotations":{%q:null,%q:"r",%q:"1"}}}`, protocol.Now, protocol.Needed, protocol.Void))
		}
		s.nodes.meanwhile.Store(&revoke)
		s.grant()
		s.pass(time.Hour)
		s.Expect(s.nodes.meanwhile.Load()).To(gomega.BeNil())
		s.Expect(s.machine.Off()).To(gomega.BeFalse())
		s.Expect(s.node().Spec.Unschedulable).To(gomega.BeFalse())
		s.Expect(protocol.Read(s.node())).To(gomega.And(
			gomega.HaveField("InProgress", gomega.BeNil()), gomega.HaveField("Needed", gomega.HaveValue(gomega.Equal("r")))))
	})
}

package agent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/examples/reboot/internal/agent"
	"github.com/homeostat/homeostat/examples/reboot/internal/drain"
	"github.com/homeostat/homeostat/examples/reboot/internal/machine"
	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
	"github.com/homeostat/homeostat/internal/apisim"
)

// A stage is one node with its agent, in a bubble.
type stage struct {
	*gomega.WithT
	ctx     context.Context
	core    kubernetes.Interface
	sim     *apisim.Server
	machine *machine.Simulated
	events  *notebook
	pods    *pods
	nodes   *nodes
	silent  atomic.Bool // the controller

	mu    sync.Mutex // guards lines
	lines []string   // of the log
}

// A notebook keeps the events.
type notebook struct {
	mu  sync.Mutex // guards all
	all map[string][]string
}

func (n *notebook) Eventf(_, _ runtime.Object, _, reason, _, format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all[reason] = append(n.all[reason], fmt.Sprintf(format, args...))
}

func (n *notebook) texts(reason string) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.all[reason]
}

func (n *notebook) count(reason string) int { return len(n.texts(reason)) }

// pods is the client of all Pods, which may fail.
type pods struct {
	drain.Client
	err atomic.Pointer[error]
}

func (p *pods) fail(err error) { p.err.Store(&err) }

func (p *pods) List(ctx context.Context, o metav1.ListOptions) (*corev1.PodList, error) {
	if err := p.err.Load(); err != nil && *err != nil {
		return nil, *err
	}
	return p.Client.List(ctx, o)
}

func play(t *testing.T, annotations map[string]string, f func(s *stage)) {
	playWith(t, annotations, &agent.Options{}, f)
}

// playWith is play with an agent that has these options besides.
func playWith(t *testing.T, annotations map[string]string, o *agent.Options, f func(s *stage)) {
	synctest.Test(t, func(t *testing.T) {
		s := &stage{WithT: gomega.NewWithT(t), machine: machine.NewSimulated("n", nil), events: &notebook{all: map[string][]string{}}}
		ctx, stop := context.WithCancel(logr.NewContext(t.Context(), funcr.New(s.log, funcr.Options{})))
		s.ctx = ctx
		var err error
		s.sim, err = apisim.New(&apisim.Options{ManagedFields: true})
		s.Expect(err).NotTo(gomega.HaveOccurred())
		s.core = kubernetes.NewForConfigOrDie(s.sim.Config("agent"))
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: annotations}}
		_, err = s.core.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
		s.Expect(err).NotTo(gomega.HaveOccurred())
		s.pods = &pods{Client: drain.Pods(s.core.CoreV1())}
		options := *o
		options.Node, options.Events = "n", s.events
		if options.Machine == nil {
			options.Machine = s.machine
		}
		s.nodes = &nodes{NodeInterface: s.core.CoreV1().Nodes(), patched: s.permit}
		a, err := agent.New(s.nodes, s.pods, &options)
		s.Expect(err).NotTo(gomega.HaveOccurred())
		s.Expect(a.Control().Name()).To(gomega.Equal(protocol.AgentManager))
		ended := make(chan error, 1)
		go func() { ended <- a.Run(ctx) }()
		f(s)
		stop()
		s.Expect(<-ended).To(gomega.Succeed())
	})
}

func (s *stage) pass(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
	synctest.Wait()
}

func (s *stage) log(_, line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, line)
}

// logged returns the lines with that text.
func (s *stage) logged(text string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.lines), func(line string) bool { return !strings.Contains(line, text) })
}

func (s *stage) node() *corev1.Node {
	n, err := s.core.CoreV1().Nodes().Get(s.ctx, "n", metav1.GetOptions{})
	s.Expect(err).NotTo(gomega.HaveOccurred())
	return n
}

func (s *stage) change(patch string) {
	_, err := s.core.CoreV1().Nodes().Patch(s.ctx, "n", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	s.Expect(err).NotTo(gomega.HaveOccurred())
}

func (s *stage) grant() { s.accept(granted()) }

// accept grants what the annotations say, now.
func (s *stage) accept(annotations map[string]string) {
	at := fmt.Sprintf(`"at":%q`, time.Now().UTC().Format(time.RFC3339))
	s.change(fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, protocol.Now,
		strings.Replace(annotations[protocol.Now], `"at":"2000-01-01T00:00:00Z"`, at, 1)))
}

// granted is a grant as of the start of the bubble.
func granted() map[string]string {
	return map[string]string{protocol.Now: `{"request":"r","epoch":1,"at":"2000-01-01T00:00:00Z"}`}
}

// permit answers the agent's question, as the controller does.
func (s *stage) permit(n *corev1.Node) {
	p := protocol.Read(n).InProgress
	if s.silent.Load() || p == nil || !p.Waits {
		return
	}
	s.change(fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, protocol.Permit,
		fmt.Sprintf(`{"request":%q,"epoch":%d,"try":%d,"seconds":60}`, p.Request.Request, p.Epoch, p.Try)))
}

func TestItRebootsOnceAndTellsHowItWent(t *testing.T) {
	play(t, granted(), func(s *stage) {
		s.pass(time.Second)
		s.Expect(s.machine.Off()).To(gomega.BeTrue())
		s.Expect(s.node().Spec.Unschedulable).To(gomega.BeTrue())
		s.machine.PowerOn()
		s.pass(5 * time.Minute)
		state := protocol.Read(s.node())
		s.Expect(state.Last).To(gomega.HaveValue(gomega.And(gomega.HaveField("FromBootID", "n-boot-1"),
			gomega.HaveField("ToBootID", "n-boot-2"), gomega.HaveField("Result", protocol.Rebooted))))
		s.Expect(state.InProgress).To(gomega.BeNil())
		s.Expect(s.node().Spec.Unschedulable).To(gomega.BeFalse())
		s.pass(time.Hour)
		s.Expect(s.machine.BootID(s.ctx)).To(gomega.Equal("n-boot-2"))
	})
}

func TestItAsksAgainWhenTheMachineRefuses(t *testing.T) {
	play(t, nil, func(s *stage) {
		s.machine.Refuse(errors.New("inhibited"))
		s.grant()
		s.pass(time.Minute)
		s.Expect(s.machine.Off()).To(gomega.BeFalse())
		s.Expect(protocol.Read(s.node()).InProgress).NotTo(gomega.BeNil())
		s.machine.Refuse(nil)
		s.pass(10 * time.Minute)
		s.Expect(s.machine.Off()).To(gomega.BeTrue())
	})
}

func TestItLeavesAloneWhatItCannotRead(t *testing.T) {
	for _, key := range []string{protocol.Now, protocol.InProgress} {
		play(t, map[string]string{key: "garbage"}, func(s *stage) {
			before := s.sim.Version()
			s.pass(time.Hour)
			s.Expect(s.sim.Version()).To(gomega.Equal(before))
			s.Expect(s.machine.Off()).To(gomega.BeFalse())
		})
	}
}

func TestABootWithoutARequestIsRecorded(t *testing.T) {
	last := map[string]string{protocol.LastReboot: `{"request":"r","epoch":1,"fromBootID":"n-boot-0","toBootID":"n-boot-1"}`}
	play(t, last, func(s *stage) {
		s.pass(time.Second)
		s.machine.Crash()
		s.machine.PowerOn()
		s.change(`{"metadata":{"labels":{"kubelet":"is-back"}}}`)
		s.pass(time.Second)
		s.Expect(protocol.Read(s.node()).Last).To(gomega.HaveValue(gomega.And(
			gomega.HaveField("ToBootID", "n-boot-2"), gomega.HaveField("Epoch", gomega.BeEquivalentTo(1)))))
	})
}

func TestTheAgentForgetsACordonThatAnotherClientHasLifted(t *testing.T) {
	play(t, nil, func(s *stage) {
		s.machine.Refuse(errors.New("inhibited"))
		s.grant()
		s.pass(time.Second)
		s.change(`{"spec":{"unschedulable":null}}`)
		s.pass(time.Minute)
		s.Expect(protocol.Read(s.node()).InProgress.CordonedByAgent).To(gomega.BeFalse())
		s.Expect(s.node().Spec.Unschedulable).To(gomega.BeFalse())
	})
}

// The server has on record which field manager cordons a node.
func TestItLeavesTheCordonThatAnotherClientHasPutThereSince(t *testing.T) {
	play(t, granted(), func(s *stage) {
		s.pass(time.Second)
		s.Expect(s.machine.Off()).To(gomega.BeTrue())
		s.Expect(s.node().ManagedFields).To(gomega.ContainElement(gomega.And(
			gomega.HaveField("Manager", protocol.AgentManager),
			gomega.HaveField("FieldsV1.GetRawString()", gomega.ContainSubstring("f:unschedulable")))))
		s.change(`{"spec":{"unschedulable":null}}`)
		s.change(`{"spec":{"unschedulable":true}}`)
		s.machine.PowerOn()
		s.pass(5 * time.Minute)
		s.Expect(protocol.Read(s.node()).Last).To(gomega.HaveValue(gomega.HaveField("Result", protocol.Rebooted)))
		s.Expect(s.node().Spec.Unschedulable).To(gomega.BeTrue())
	})
}

func TestItAsksForARebootThatItsHostRequires(t *testing.T) {
	var file atomic.Value
	file.Store("")
	sentinel := func() (string, error) { return file.Load().(string), nil }
	playWith(t, nil, &agent.Options{Sentinel: sentinel}, func(s *stage) {
		s.pass(time.Hour)
		s.Expect(protocol.Read(s.node()).Needed).To(gomega.BeNil())
		file.Store("reboot-required 1")
		s.pass(agent.DefaultAskPeriod)
		s.Expect(protocol.Read(s.node()).Needed).To(gomega.HaveValue(gomega.Equal("reboot-required 1")))
		s.Expect(s.events.texts("RebootRequired")).To(gomega.ConsistOf(gomega.ContainSubstring("reboot-required 1")))

		// The file is still there after the reboot.
		s.change(fmt.Sprintf(`{"metadata":{"annotations":{%q:null,%q:%q}}}`, protocol.Needed, protocol.Now,
			fmt.Sprintf(`{"request":"reboot-required 1","epoch":1,"at":%q}`, time.Now().UTC().Format(time.RFC3339))))
		s.pass(time.Second)
		s.machine.PowerOn()
		s.pass(time.Hour)
		s.Expect(protocol.Read(s.node()).Last).To(gomega.HaveValue(gomega.HaveField("Result", protocol.Rebooted)))
		s.Expect(protocol.Read(s.node()).Needed).To(gomega.BeNil())
		file.Store("reboot-required 2")
		s.pass(agent.DefaultAskPeriod)
		s.Expect(protocol.Read(s.node()).Needed).To(gomega.HaveValue(gomega.Equal("reboot-required 2")))
	})
}

func TestOptionsAreChecked(t *testing.T) {
	g := gomega.NewWithT(t)
	_, err := agent.New(nil, nil, &agent.Options{CallTimeout: -1})
	g.Expect(err).To(gomega.MatchError(gomega.And(gomega.ContainSubstring("the client for nodes or for Pods is nil"),
		gomega.ContainSubstring("Options.Node is empty"), gomega.ContainSubstring("Options.Machine is nil"),
		gomega.ContainSubstring("Options.CallTimeout is -1ns"))))
}

package model_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/examples/reboot/internal/agent"
	"github.com/homeostat/homeostat/examples/reboot/internal/controller"
	"github.com/homeostat/homeostat/examples/reboot/internal/drain"
	"github.com/homeostat/homeostat/examples/reboot/internal/machine"
	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/internal/test/stage"
)

// scenario describes a world.
type scenario struct {
	nodes, limit int
	odds         apisim.Odds
	steps        int
	requests     int // that the administrator makes
	minReady     int32
	kubelet      time.Duration // how late a kubelet is after a boot, at least
	drain        string        // the policy
	away         time.Duration // how long an agent that was killed stays away
	late         float64       // the share of steps at which calls that are late may arrive
	// Which chaos there is.
	withdraw, pause, cordon, flap, replace, limits, abort, refuse, kill, pods, windows bool
	pools                                                                              bool // two groups, among which nodes move
	gate                                                                               bool // that opens and closes
}

// A world is a cluster in a bubble.
type world struct {
	scenario
	g        *gomega.WithT
	sim      *apisim.Server
	sched    *apisim.Scheduler
	core     kubernetes.Interface
	groups   *api.Client
	monitor  *monitor
	machines map[string]*box
	procs    map[string]*proc
	ran      sync.WaitGroup // all processes, those that were killed as well
	asked    int
	starts   int // of agents
	bound    int // Pods so far
	barrier  barrier
}

// A box is a machine with its kubelet.
type box struct {
	*machine.Simulated
	boots    int
	bootedAt time.Time
	reported string // the boot that the kubelet has reported
	ready    bool
}

// A proc is one process that can die and be started again.
type proc struct {
	name    string
	start   func(c *cluster.Cluster, alive func() bool) (func(context.Context) error, error)
	cancel  context.CancelFunc
	running bool
	died    time.Time
}

// The groups: the second is there only with pools.
const (
	groupName = "g"
	rivalName = "h"
)

// A barrier is the gate of the controllers.
type barrier struct {
	mu     sync.Mutex // guards closed
	closed bool
}

func (b *barrier) Blocked(context.Context) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return "the gate is closed"
	}
	return ""
}

func (w *world) setGate(closed bool) {
	w.barrier.mu.Lock()
	w.barrier.closed = closed
	w.barrier.mu.Unlock()
	w.monitor.closed = closed
	w.monitor.note()
}

func newWorld(t *testing.T, s scenario) *world {
	g := gomega.NewWithT(t)
	sim, err := apisim.New(&apisim.Options{Resources: []apisim.Resource{{
		Group: api.GroupVersion().Group, Version: api.GroupVersion().Version, Resource: api.Resource,
		Kind: "RebootGroup", Status: true,
	}}})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	w := &world{scenario: s, g: g, sim: sim, machines: map[string]*box{}, procs: map[string]*proc{}}
	w.core = kubernetes.NewForConfigOrDie(sim.Admin())
	w.groups, err = api.NewClient(stage.Reach(sim.Admin()))
	g.Expect(err).NotTo(gomega.HaveOccurred())
	w.monitor = newMonitor(func(node string) int { return w.machines[node].boots })
	sim.OnCommit(w.monitor.commit)
	w.furnish(t.Context())
	w.sched = sim.Schedule(400)
	w.sched.OnCrash(func(client string) { w.procs[client].die() })
	w.processes()
	w.chaos(t.Context())
	return w
}

func (w *world) furnish(ctx context.Context) {
	w.createGroup(ctx, groupName)
	if w.pools {
		w.createGroup(ctx, rivalName)
	}
	w.createBudget(ctx)
	for i := range w.nodes {
		name := fmt.Sprintf("n%d", i+1)
		b := &box{boots: 1}
		b.Simulated = machine.NewSimulated(name, func(string) { w.goesDown(name) })
		w.machines[name] = b
		w.createNode(ctx, name)
		w.report(ctx, name)
	}
}

func (w *world) createGroup(ctx context.Context, name string) {
	group := &api.RebootGroup{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: api.RebootGroupSpec{
			MaxUnavailable: intstr.FromInt(w.limit), MinReadySeconds: w.minReady,
			MaxReboots: api.MaxReboots{Count: 1000},
			Drain:      api.Drain{Policy: w.drain, TimeoutSeconds: 15, RetrySeconds: int32(retry / time.Second)},
		},
	}
	if w.pools {
		group.Spec.NodeSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: pool, Operator: metav1.LabelSelectorOpIn, Values: []string{name, both}},
		}}
	}
	_, err := w.groups.Create(ctx, group, metav1.CreateOptions{})
	w.g.Expect(err).NotTo(gomega.HaveOccurred())
}

// pool is the label by which the groups select nodes: it names one, or both.
const (
	pool = "pool"
	both = "both"
)

func (w *world) move(ctx context.Context, name, to string) {
	w.patchNode(ctx, name, map[string]any{"metadata": map[string]any{"labels": map[string]any{pool: to}}})
}

func (w *world) names() []string {
	var names []string
	for i := range w.nodes {
		names = append(names, fmt.Sprintf("n%d", i+1))
	}
	return names
}

func (w *world) createNode(ctx context.Context, name string) {
	_, err := w.core.CoreV1().Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{pool: groupName}},
	}, metav1.CreateOptions{})
	w.g.Expect(err).NotTo(gomega.HaveOccurred())
}

// goesDown is called by an agent's reboot: the agent dies with its machine.
func (w *world) goesDown(name string) {
	w.sched.Note("%s goes down", name)
	w.monitor.down(name)
	w.kill("agent-" + name)
}

// report is the kubelet: Ready, in the boot that runs.
func (w *world) report(ctx context.Context, name string) {
	b := w.machines[name]
	id, err := b.BootID(ctx)
	w.g.Expect(err).NotTo(gomega.HaveOccurred())
	w.status(ctx, name, corev1.ConditionTrue, id)
	b.reported, b.ready = id, true
}

func (w *world) status(ctx context.Context, name string, ready corev1.ConditionStatus, bootID string) {
	w.machines[name].ready = ready == corev1.ConditionTrue
	if w.machines[name].ready {
		w.monitor.reported(name)
	}
	status := map[string]any{"conditions": []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: ready, LastTransitionTime: metav1.Now(),
	}}}
	if bootID != "" {
		status["nodeInfo"] = map[string]any{"bootID": bootID}
	}
	w.patchNode(ctx, name, map[string]any{"status": status}, "status")
}

func (w *world) patchNode(ctx context.Context, name string, change map[string]any, subresource ...string) {
	data, err := json.Marshal(change)
	w.g.Expect(err).NotTo(gomega.HaveOccurred())
	_, err = w.core.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, data, metav1.PatchOptions{}, subresource...)
	w.g.Expect(err).NotTo(gomega.HaveOccurred())
}

func (w *world) annotate(ctx context.Context, name, key string, value any) {
	w.patchNode(ctx, name, map[string]any{"metadata": map[string]any{"annotations": map[string]any{prefix + key: value}}})
}

// gated is a machine that a dead process cannot reach.
type gated struct {
	machine.Machine
	alive func() bool
}

var errDead = errors.New("the process is dead")

func (m gated) Reboot(ctx context.Context, bootID string) error {
	if !m.alive() {
		return errDead
	}
	return m.Machine.Reboot(ctx, bootID)
}

func (w *world) processes() {
	for _, name := range []string{"controller-1", "controller-2"} {
		w.add(&proc{name: name, start: func(c *cluster.Cluster, _ func() bool) (func(context.Context) error, error) {
			groups, err := api.NewClient(c)
			if err != nil {
				return nil, err
			}
			options := &controller.Options{}
			if w.gate {
				options.Gate, options.GatePeriod = &w.barrier, 5*time.Second
			}
			control, err := controller.New(c.Client().CoreV1().Nodes(), groups, options)
			if err != nil {
				return nil, err
			}
			return control.Run, nil
		}}, nil)
	}
	for _, node := range w.names() {
		b := w.machines[node]
		w.add(&proc{name: "agent-" + node, start: func(c *cluster.Cluster, alive func() bool) (func(context.Context) error, error) {
			w.starts++
			a, err := agent.New(c.Client().CoreV1().Nodes(), drain.Pods(c.Client().CoreV1()), &agent.Options{
				Node: node, Machine: gated{b, alive}, DrainPeriod: 2 * time.Second,
				Start: fmt.Sprintf("start-%d", w.starts),
			})
			if err != nil {
				return nil, err
			}
			return a.Run, nil
		}}, func() bool { return !b.Off() && time.Since(w.procs["agent-"+node].died) >= w.away })
	}
}

// add makes a process that is started whenever it does not run and may.
func (w *world) add(p *proc, may func() bool) {
	w.procs[p.name] = p
	w.sched.Add(&apisim.Extra{
		Name:    "start " + p.name,
		Enabled: func() bool { return !p.running && (may == nil || may()) },
		Do:      func() { w.start(p) },
	})
	if w.scenario.kill {
		w.sched.Add(&apisim.Extra{
			Name: "kill " + p.name, Chaos: true, Enabled: func() bool { return p.running },
			Do: func() { w.kill(p.name) },
		})
	}
}

func (w *world) start(p *proc) {
	dead := &atomic.Bool{}
	ctx, cancel := context.WithCancel(context.Background())
	run, err := p.start(stage.Reach(w.sim.Config(p.name)), func() bool { return !dead.Load() })
	w.g.Expect(err).NotTo(gomega.HaveOccurred())
	p.running = true
	p.cancel = func() {
		dead.Store(true)
		cancel()
	}
	w.ran.Go(func() { _ = run(ctx) }) // A dead process reports nothing.
}

func (p *proc) die() {
	p.running, p.died = false, time.Now()
	p.cancel()
}

func (w *world) kill(name string) {
	if p := w.procs[name]; p.running {
		w.sim.Fence(name)
		p.die()
	}
}

// stop ends everything, so that the bubble can end.
func (w *world) stop() {
	for _, p := range w.procs {
		if p.running {
			p.die()
		}
	}
	w.sched.Stop()
	w.ran.Wait()
}

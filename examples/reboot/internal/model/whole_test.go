package model_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/examples/reboot/internal/agent"
	"github.com/homeostat/homeostat/examples/reboot/internal/controller"
	"github.com/homeostat/homeostat/examples/reboot/internal/drain"
	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/internal/test/stage"
)

// A whole is a cluster with the whole operator in virtual time, whose parts run
// as they like: two controllers, an agent and a kubelet for each node, and
// machines with clocks of their own. What is the case follows from the seed
// alone, the order of what happens at the same time does not.
type whole struct {
	*gomega.WithT
	ctx     context.Context
	rng     *rand.Rand
	sim     *apisim.Server
	core    kubernetes.Interface // of the administrator
	groups  *api.Client
	judge   *judge
	names   []string
	hulls   map[string]*hull
	clocks  map[string]*clock
	proxies map[string]*proxy
	procs   map[string]*process
	traits  map[string]*traits
	start   int       // of agents
	bound   int       // Pods
	limited time.Time // since when maxReboots is what it is
	quiet   time.Time // since when the controllers can work

	misfortunes []misfortune // that happen, with their frequency

	ran sync.WaitGroup // all processes, and what machines do
	mu  sync.Mutex     // guards booting
	// booting has the machines that are off, and when they boot; zero while
	// that is not decided.
	booting map[string]time.Time
}

// traits are how a node is, for as long as it is not healed.
type traits struct {
	noAgent  bool // it never starts
	looping  bool // it dies again and again
	sentinel bool // a file asks after each boot
	tolerant bool // Pods come back
}

// A process is a controller or an agent.
type process struct {
	name   string
	begin  func(c *rest.Config) (func(context.Context) error, error)
	cancel context.CancelFunc // nil while it does not run
	until  time.Time          // it stays away
}

func newWhole(t *testing.T, seed uint64) *whole {
	w := &whole{
		WithT: gomega.NewWithT(t), ctx: t.Context(), rng: rand.New(rand.NewPCG(seed, 42)),
		hulls: map[string]*hull{}, clocks: map[string]*clock{}, proxies: map[string]*proxy{}, procs: map[string]*process{},
		traits: map[string]*traits{}, booting: map[string]time.Time{}, limited: time.Now(), quiet: time.Now(),
		misfortunes: allMisfortunes(),
	}
	var err error
	w.sim, err = apisim.New(&apisim.Options{ManagedFields: true, Seed: seed, Resources: []apisim.Resource{{
		Group: api.GroupVersion().Group, Version: api.GroupVersion().Version, Resource: api.Resource,
		Kind: "RebootGroup", Status: true,
	}}})
	w.Expect(err).NotTo(gomega.HaveOccurred())
	w.core = kubernetes.NewForConfigOrDie(w.sim.Admin())
	w.groups, err = api.NewClient(stage.Reach(w.sim.Admin()))
	w.Expect(err).NotTo(gomega.HaveOccurred())
	w.judge = newJudge(w)
	w.sim.OnCommit(w.judge.commit)
	w.makeGroup()
	for i := range 3 + w.rng.IntN(4) {
		w.makeNode(fmt.Sprintf("n%d", i+1))
	}
	for _, name := range []string{"controller-1", "controller-2"} {
		w.process(name, func(c *rest.Config) (func(context.Context) error, error) {
			reached := stage.Reach(c)
			groups, err := api.NewClient(reached)
			if err != nil {
				return nil, err
			}
			control, err := controller.New(reached.Client().CoreV1().Nodes(), groups, nil)
			if err != nil {
				return nil, err
			}
			return control.Run, nil
		})
	}
	return w
}

// often reports whether something happens that has that probability.
func (w *whole) often(p float64) bool { return w.rng.Float64() < p }

func pick[T any](w *whole, all ...T) T { return all[w.rng.IntN(len(all))] }

func (w *whole) makeGroup() {
	group := &api.RebootGroup{
		ObjectMeta: metav1.ObjectMeta{Name: groupName},
		Spec: api.RebootGroupSpec{
			MaxUnavailable: intstr.FromInt(1 + w.rng.IntN(2)), MinReadySeconds: pick(w, int32(0), 30),
			MaxReboots: api.MaxReboots{Count: pick(w, int32(1), 3, 5), Hours: pick(w, int32(2), 6, 24)},
			Drain: api.Drain{
				Policy: pick(w, "abort", "wait", "force"), TimeoutSeconds: pick(w, int32(60), 300, 600), RetrySeconds: pick(w, int32(60), 600, 1800),
			},
		},
	}
	if w.often(0.4) {
		start := w.rng.IntN(24)
		group.Spec.Windows = []api.Window{{Start: fmt.Sprintf("%02d:00", start), End: fmt.Sprintf("%02d:%02d", (start+1+w.rng.IntN(6))%24, w.rng.IntN(60))}}
	}
	_, err := w.groups.Create(w.ctx, group, metav1.CreateOptions{})
	w.Expect(err).NotTo(gomega.HaveOccurred())
}

func (w *whole) makeNode(name string) {
	w.names = append(w.names, name)
	h := &hull{name: name, boots: 1, blind: w.often(0.12)}
	h.away = func(asked bool) { w.away(name, asked) }
	w.judge.monitor.blind[name] = h.blind
	if w.often(0.2) {
		h.slow = time.Duration(w.rng.IntN(240)) * time.Second
	}
	w.judge.monitor.slow[name] = h.slow
	w.judge.monitor.files = true
	c := &clock{}
	if w.often(0.2) {
		c.set(pick(w, -14*24*time.Hour, 2*time.Hour, 61*time.Second, -59*time.Second, 30*time.Second))
	}
	w.hulls[name], w.clocks[name] = h, c
	w.traits[name] = &traits{noAgent: w.often(0.12), looping: w.often(0.1), sentinel: w.often(0.15), tolerant: w.often(0.2)}
	_, err := w.core.CoreV1().Nodes().Create(w.ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{pool: groupName}},
	}, metav1.CreateOptions{})
	w.Expect(err).NotTo(gomega.HaveOccurred())
	w.report(name, corev1.ConditionTrue)
	w.process("agent-"+name, func(config *rest.Config) (func(context.Context) error, error) {
		core := kubernetes.NewForConfigOrDie(config).CoreV1()
		w.start++
		a, err := agent.New(core.Nodes(), drain.Pods(core), &agent.Options{
			Node: name, Machine: h, Now: c.now, Start: fmt.Sprintf("start-%d", w.start), Sentinel: w.sentinel(name),
		})
		if err != nil {
			return nil, err
		}
		return a.Run, nil
	})
}

// sentinel is a file that each boot creates.
func (w *whole) sentinel(name string) func() (string, error) {
	return func() (string, error) {
		h, asks := w.hulls[name], w.traits[name].sentinel
		h.mu.Lock()
		defer h.mu.Unlock()
		if !asks {
			return "", nil
		}
		return fmt.Sprintf("reboot-required %d", h.boots), nil
	}
}

func (w *whole) process(name string, begin func(*rest.Config) (func(context.Context) error, error)) {
	w.proxies[name] = &proxy{evicted: w.judge.evicted, rng: rand.New(rand.NewPCG(w.rng.Uint64(), 1))}
	w.procs[name] = &process{name: name, begin: begin}
}

// run starts a process.
func (w *whole) run(p *process) {
	config := w.sim.Config(p.name)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return lying{w.proxies[p.name], next} })
	run, err := p.begin(config)
	w.Expect(err).NotTo(gomega.HaveOccurred())
	ctx, cancel := context.WithCancel(logr.NewContext(context.Background(), logr.Discard()))
	p.cancel = cancel
	w.ran.Go(func() { _ = run(ctx) }) // A dead process reports nothing.
}

// kill ends a process, whose requests have no effect from now on.
func (w *whole) kill(name string, away time.Duration) {
	p := w.procs[name]
	p.until = time.Now().Add(away)
	if p.cancel != nil {
		w.sim.Fence(name)
		p.cancel()
		p.cancel = nil
	}
}

// away is called when a machine stops: the judge looks, before anything else
// happens.
func (w *whole) away(name string, asked bool) {
	if asked {
		w.judge.down(name)
	} else {
		w.judge.power(name)
	}
	w.sim.Fence("agent-" + name)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.booting[name] = time.Time{}
}

// report is the kubelet, or the control plane that misses it.
func (w *whole) report(name string, ready corev1.ConditionStatus) {
	status := map[string]any{"conditions": []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: ready, LastTransitionTime: metav1.Time{Time: w.clocks[name].now()},
	}}}
	if ready == corev1.ConditionTrue {
		id, err := w.hulls[name].BootID(w.ctx)
		if err != nil {
			return // It has gone down at this moment.
		}
		status["nodeInfo"] = map[string]any{"bootID": id}
		w.judge.reported(name)
	}
	w.patchNode(name, map[string]any{"status": status}, "status")
}

func (w *whole) patchNode(name string, change map[string]any, subresource ...string) {
	data, err := json.Marshal(change)
	w.Expect(err).NotTo(gomega.HaveOccurred())
	_, err = w.core.CoreV1().Nodes().Patch(w.ctx, name, types.StrategicMergePatchType, data, metav1.PatchOptions{}, subresource...)
	w.Expect(err).NotTo(gomega.HaveOccurred())
}

func (w *whole) patchGroup(change string) {
	_, err := w.groups.Patch(w.ctx, groupName, types.MergePatchType, []byte(change), metav1.PatchOptions{})
	w.Expect(err).NotTo(gomega.HaveOccurred())
}

func (w *whole) ask(name, request string) {
	w.patchNode(name, map[string]any{"metadata": map[string]any{"annotations": map[string]any{prefix + "reboot-needed": request}}})
}

// stop ends everything, so that the bubble can end.
func (w *whole) stop() {
	for name := range w.procs {
		w.kill(name, 0)
	}
	w.ran.Wait()
	<-time.After(time.Hour) // machines that are on their way down
}

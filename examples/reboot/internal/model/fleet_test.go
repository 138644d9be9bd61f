package model_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/examples/reboot/internal/machine"
	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
	"github.com/homeostat/homeostat/examples/reboot/internal/rules"
	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// fleet is the part of an exploration outside the API server: the machines, and
// the monitor that knows the truth about them.
type fleet struct {
	names    []string
	machines map[string]*machine.Simulated

	mu      sync.Mutex // guards the fields below
	monitor *monitor
	boots   map[string]int       // of each machine
	dark    map[string]bool      // machines that have no power
	fuse    map[string]int       // how many reboots of a machine end with that
	told    map[string]time.Time // when a machine went down because it was told to
	lost    map[string]bool      // nodes that the cluster has given up hearing from
	away    bool                 // the agents of the world
	seen    map[string]*unstructured.Unstructured
	nodes   map[string]*corev1.Node // as of the last look, with their annotations
	states  map[string]protocol.State
	who     string // writes
	reboots map[string]int
	starts  int // of agents
}

// start names a start of an agent.
func (f *fleet) start() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.starts++
	return fmt.Sprintf("start-%d", f.starts)
}

func newFleet(names ...string) *fleet {
	f := &fleet{
		names: names, machines: map[string]*machine.Simulated{}, boots: map[string]int{}, dark: map[string]bool{},
		fuse: map[string]int{}, told: map[string]time.Time{}, lost: map[string]bool{},
		seen: map[string]*unstructured.Unstructured{}, nodes: map[string]*corev1.Node{},
		states: map[string]protocol.State{}, who: operator, reboots: map[string]int{},
	}
	f.monitor = newMonitor(func(node string) int { return f.boots[node] })
	for _, n := range names {
		f.boots[n] = 1
		f.machines[n] = machine.NewSimulated(n, func(string) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.reboots[n]++
			f.told[n] = time.Now()
			f.dark[n] = f.dark[n] || f.reboots[n] == f.fuse[n]
			f.monitor.down(n)
		})
	}
	return f
}

func fleetOf(w *reconciletest.World) *fleet { return w.Outside().(*fleet) }

// The writers, for the monitor.
const (
	operator      = "operator"
	administrator = "admin"
)

// watched are the resources whose every commit the monitor sees: nodes first,
// as it counts them when a group changes.
func watched() []schema.GroupVersionResource {
	return []schema.GroupVersionResource{
		corev1.SchemeGroupVersion.WithResource("nodes"), api.GroupVersion().WithResource(api.Resource),
	}
}

// look shows the monitor the commits since the last look: one write, as it is
// called before the first and after each. Errors: a broken invariant.
func (f *fleet) look(w *reconciletest.World) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, resource := range watched() {
		objects, err := w.Objects(resource.GroupResource().String())
		if err != nil {
			return err
		}
		for _, o := range objects {
			key := resource.Resource + "/" + o.GetName()
			before := f.seen[key]
			if before != nil && before.GetResourceVersion() == o.GetResourceVersion() {
				continue
			}
			f.seen[key] = o
			if resource.Resource == "nodes" {
				n := decoded(o)
				f.nodes[n.Name], f.states[n.Name] = n, protocol.Read(n)
			}
			f.monitor.commit(apisim.Event{
				Resource: resource, Key: types.NamespacedName{Name: o.GetName()}, Call: apisim.Call{Client: f.who},
				Old: before, New: o,
			})
		}
	}
	if v := f.monitor.broken(""); v != nil {
		return fmt.Errorf("%s: %s", v.invariant, v.what)
	}
	return nil
}

// settled describes the leftovers of all requests.
func (f *fleet) settled() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if left := f.monitor.settled(); left != "" {
		return fmt.Errorf("L1: %s", left)
	}
	return nil
}

// power switches a machine off, or lets it have power again.
func (f *fleet) power(name string, on bool) {
	if !on {
		f.machines[name].Crash()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dark[name] = !on
}

func (f *fleet) awayNow() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.away
}

// first returns the first node for which holds returns true, or "" if there is
// no such node.
func (f *fleet) first(holds func(name string) bool) string {
	for _, n := range f.names {
		if holds(n) {
			return n
		}
	}
	return ""
}

// actor is one that does something for the first node that is due.
func actor(
	name string, due func(w *reconciletest.World, node string) bool, do func(w *reconciletest.World, node string) error,
) reconciletest.Actor {
	next := func(w *reconciletest.World) string {
		f := fleetOf(w)
		return f.first(func(name string) bool {
			n, _ := f.node(name) // a smaller case may have fewer
			return n != nil && due(w, name)
		})
	}
	return reconciletest.Actor{
		Name: name,
		Enabled: func(w *reconciletest.World) bool {
			// Always looks after each write. The state before the first write, and
			// after a restore of the server, is looked at here.
			_ = fleetOf(w).look(w)
			return next(w) != ""
		},
		Do: func(w *reconciletest.World) {
			if err := do(w, next(w)); err != nil {
				panic(err)
			}
		},
	}
}

// power is a switch that is always on: it boots a machine that is off.
func power() reconciletest.Actor {
	return actor("power", func(w *reconciletest.World, node string) bool {
		f := fleetOf(w)
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.machines[node].Off() && !f.dark[node]
	}, func(w *reconciletest.World, node string) error {
		f := fleetOf(w)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.boots[node]++
		f.machines[node].PowerOn()
		return nil
	})
}

// grace is how long a kubelet may be silent before its node is Unknown.
const grace = 40 * time.Second

// lifecycle is the node controller of the cluster: a node whose machine was
// told to reboot, and is off for longer than grace, is not Ready until its
// kubelet reports again. For example, a machine that does not come back counts
// as Unknown before the controller could take it for one that has not rebooted.
func lifecycle() reconciletest.Actor {
	silent := func(f *fleet, node string) bool {
		return f.machines[node].Off() && !f.told[node].IsZero() && !f.lost[node]
	}
	a := actor("lifecycle", func(w *reconciletest.World, node string) bool {
		f := fleetOf(w)
		f.mu.Lock()
		defer f.mu.Unlock()
		return silent(f, node) && time.Since(f.told[node]) >= grace
	}, func(w *reconciletest.World, node string) error {
		f := fleetOf(w)
		f.mu.Lock()
		f.lost[node] = true
		f.mu.Unlock()
		return ready(node, "Unknown").Do(context.Background(), w)
	})
	a.Due = func(w *reconciletest.World) (first time.Time) {
		f := fleetOf(w)
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, node := range f.names {
			if at := f.told[node].Add(grace); silent(f, node) && (first.IsZero() || at.Before(first)) {
				first = at
			}
		}
		return first
	}
	return a
}

// kubelet reports the boot that runs; a late one when the agent has noted it.
func kubelet(late bool) reconciletest.Actor {
	return actor("kubelet", func(w *reconciletest.World, node string) bool {
		boot := fleetOf(w).boot(node)
		n, state := fleetOf(w).node(node)
		noted := state.Last != nil && state.Last.ToBootID == boot || !protocol.Claimed(n)
		return boot != "" && n.Status.NodeInfo.BootID != boot && (noted || !late)
	}, func(w *reconciletest.World, node string) error {
		f := fleetOf(w)
		f.mu.Lock()
		f.monitor.reported(node)
		conditions := ""
		if f.lost[node] {
			conditions = `,"conditions":[{"type":"Ready","status":"True"}]`
		}
		f.told[node], f.lost[node] = time.Time{}, false
		f.mu.Unlock()
		_, err := w.Client().CoreV1().Nodes().Patch(context.Background(), node, types.MergePatchType,
			[]byte(`{"status":{"nodeInfo":{"bootID":"`+f.boot(node)+`"}`+conditions+`}}`), metav1.PatchOptions{}, "status")
		return err
	})
}

// person requests reboots again, with a new request, if it is not known whether
// they took place. Until the controller has given up, the person waits for a
// machine that was told to reboot and has not. For example, an agent has
// crashed after it has recorded that it tells the machine.
func person() reconciletest.Actor {
	p := actor("person", func(w *reconciletest.World, node string) bool {
		_, state := fleetOf(w).node(node)
		return state.Last != nil && state.Last.Result == protocol.Unproven && state.Needed != nil &&
			*state.Needed == state.Last.Request.Request
	}, func(w *reconciletest.World, node string) error {
		_, state := fleetOf(w).node(node)
		again := need(node, fmt.Sprintf("%s, %d", state.Last.Request.Request, state.Last.Epoch))
		return byAdmin("ask again", again).Do(context.Background(), w)
	})
	p.Due = func(w *reconciletest.World) time.Time { return fleetOf(w).givenUp() }
	return p
}

// givenUp returns when the controller has given up on all machines that were
// told to reboot and still run the same boot. It returns the zero time if there
// is no such machine.
func (f *fleet) givenUp() time.Time {
	var last time.Time
	for _, name := range f.names {
		_, state := f.node(name)
		p := state.InProgress
		if p == nil || p.Asked == nil || f.boot(name) != p.BootID {
			continue
		}
		at := p.Asked.At.Add(rules.AnswerTimeout + time.Minute)
		if overdue := f.overdue(name); overdue.Add(rules.SettleTime + time.Minute).After(at) {
			at = overdue.Add(rules.SettleTime + time.Minute)
		}
		if at.After(last) {
			last = at
		}
	}
	return last
}

// overdue returns since when a machine is overdue by the ledger, or the zero
// time. For example, after an hour of sleep that is later than the machine was
// told.
func (f *fleet) overdue(node string) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, g := range f.monitor.groups {
		for _, s := range g.Status.Slots {
			if s.Node == node && s.Stage == rules.StageOverdue {
				return s.StageSince.Time
			}
		}
	}
	return time.Time{}
}

// boot returns the boot that runs, "" if the machine is off.
func (f *fleet) boot(node string) string {
	id, err := f.machines[node].BootID(context.Background())
	if err != nil {
		return ""
	}
	return id
}

func decoded(o *unstructured.Unstructured) *corev1.Node {
	n := &corev1.Node{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, n); err != nil {
		panic(err)
	}
	return n
}

// node returns a node as it was at the last look, shared and read-only, with
// its state.
func (f *fleet) node(name string) (*corev1.Node, protocol.State) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.nodes[name], f.states[name]
}

// agents are the agents of all nodes. They follow the rules of the real ones,
// and each step is one write that no fault strikes.
func agents() reconciletest.Actor {
	return actor("agent", func(w *reconciletest.World, node string) bool {
		f := fleetOf(w)
		boot := f.boot(node)
		if boot == "" || f.awayNow() {
			return false
		}
		_, state := f.node(node)
		next, err := rules.Agent(state, boot, time.Now())
		return err == nil && next != rules.Idle && (next != rules.Resume || moves(state))
	}, func(w *reconciletest.World, node string) error {
		f := fleetOf(w)
		n, state := f.node(node)
		n = n.DeepCopy()
		if err := step(n, state, f.machines[node], f.boot(node)); err != nil {
			return err
		}
		_, err := w.Client().CoreV1().Nodes().Update(context.Background(), n, metav1.UpdateOptions{})
		return err
	})
}

// worldly identifies the only run of the agents that are in the world.
const worldly = "worldly"

// moves reports whether an accepted reboot does not wait for the controller.
func moves(state protocol.State) bool {
	return rules.ForProgress(state.InProgress, state.Permit, worldly) != rules.Await
}

// step performs the agent's next step.
func step(n *corev1.Node, state protocol.State, m machine.Machine, boot string) error {
	next, err := rules.Agent(state, boot, time.Now())
	if err != nil {
		return err
	}
	switch next {
	case rules.Accept:
		return protocol.Accept(n, protocol.Progress{
			Request: state.Now.Request, Terms: state.Now.Terms, BootID: boot, AcceptedAt: metav1.Now(), Start: worldly,
		})
	case rules.Refuse:
		return protocol.Decline(n, protocol.Outcome{
			Request: state.Now.Request, FromBootID: boot, ToBootID: boot, At: metav1.Now(), Result: protocol.CalledOff,
		})
	case rules.Resume:
		return progress(n, *state.InProgress, state.Permit, m)
	case rules.Complete:
		p := state.InProgress
		return protocol.Complete(n, protocol.Outcome{
			Request: p.Request, FromBootID: p.BootID, ToBootID: boot, At: metav1.Now(), Result: protocol.Rebooted,
		}, protocol.MayUncordon(n, p))
	default:
		o := *state.Last
		o.ToBootID = boot
		return protocol.Restamp(n, o)
	}
}

// progress performs the agent's next step of an accepted reboot. There are no
// Pods.
func progress(n *corev1.Node, p protocol.Progress, permit *protocol.Permission, m machine.Machine) error {
	switch rules.ForProgress(&p, permit, worldly) {
	case rules.Evict, rules.Ask:
		p.Drained, p.Waits, p.Try = true, true, p.Try+1
	case rules.Tell:
		p.Waits, p.Asked = false, &protocol.Asked{Start: worldly, At: metav1.Now()}
	case rules.Told:
		err := m.Reboot(context.Background(), p.BootID)
		if err == nil || errors.Is(err, machine.ErrOtherBoot) {
			return nil
		}
		p.Asked, p.Refused = nil, err.Error()
	}
	return protocol.Proceed(n, p)
}

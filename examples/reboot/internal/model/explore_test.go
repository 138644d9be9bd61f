package model_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/examples/reboot/internal/agent"
	"github.com/homeostat/homeostat/examples/reboot/internal/controller"
	"github.com/homeostat/homeostat/examples/reboot/internal/drain"
	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
	"github.com/homeostat/homeostat/internal/test/stage"
	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/queue"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// There are several explorations, so each gets less than usual by itself.
var budget = flag.Duration("budget", 2*time.Second, "how long an exploration may take")

// The invariants are the Always of all explorations. The kit calls it after
// every commit; fleet.look finds the object that has changed, and the monitor
// compares it with what it was before:
//
//	I1  a commit of a group that adds a slot: not more of them than the limit of its spec
//	I2  every commit: a node with reboot-now or reboot-in-progress has a slot of its UID
//	I3  every commit: so has a node whose machine went down for its agent, and whose
//	    kubelet has not reported the new boot; and when it goes down, in-progress is there
//	I4  a commit that adds a slot: at some moment since the group was written before,
//	    slots and other unavailable nodes were fewer than the limit
//	I5  when a machine goes down: the first time in this epoch of this node's UID
//	I6  a commit of a node by another client than the administrator: a key goes only where
//	    the other of its pair comes, with the same request; in-progress goes only after a
//	    boot that the machine had since it was accepted
//	I7  such a commit uncordons only what such a commit has cordoned
//	I8  when a machine goes down: no Pod is left that was there when the reboot was
//	    accepted and must be evicted, unless the policy is force and its time is over
//	I9  a commit that accepts a reboot or ends a drain: the maintenance window has not
//	    closed
//	I10 a commit that adds a slot: at some moment since the group was written before, no
//	    other group selected the node, or held a slot for it
//	I11 such a commit: at some moment since then the gate was open
//	L1  a commit that adds a slot: nobody older could have had it all the time; and the
//	    Goal: in the end no key, slot or place in the queue is left, and who was asked
//	    for was rebooted
//
// I8 to I11 are for the model, which has Pods, windows, two groups and a gate.
// Events are not judged.
func always(w *reconciletest.World) error { return fleetOf(w).look(w) }

func node(name string, cordoned bool) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.NodeSpec{Unschedulable: cordoned},
		Status: corev1.NodeStatus{
			NodeInfo:   corev1.NodeSystemInfo{BootID: name + "-boot-1"},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

// group is the default group: one at a time.
func group() *api.RebootGroup {
	return &api.RebootGroup{
		TypeMeta:   metav1.TypeMeta{APIVersion: api.GroupVersion().String(), Kind: "RebootGroup"},
		ObjectMeta: metav1.ObjectMeta{Name: api.DefaultName},
		Spec: api.RebootGroupSpec{
			MaxUnavailable: intstr.FromInt32(1), MaxReboots: api.MaxReboots{Count: 100},
			Drain: api.Drain{RetrySeconds: 60}, // sooner than an exploration takes for rest
		},
	}
}

func resources() []metav1.APIResource {
	gv := api.GroupVersion()
	return []metav1.APIResource{{
		Group: gv.Group, Version: gv.Version, Name: api.Resource, Kind: "RebootGroup",
	}}
}

// byAdmin is several writes that an administrator makes at once.
func byAdmin(name string, all ...reconciletest.Step) reconciletest.Step {
	return reconciletest.Step{Name: name, Do: func(ctx context.Context, w *reconciletest.World) error {
		f := fleetOf(w)
		write := func(who string) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.who = who
		}
		write(administrator)
		defer write(operator)
		var errs []error
		for _, s := range all {
			errs = append(errs, s.Do(ctx, w))
		}
		return errors.Join(errs...)
	}}
}

func annotated(name, key, json string) reconciletest.Step {
	return reconciletest.Patch("nodes", name, `{"metadata":{"annotations":{"`+key+`":`+json+`}}}`)
}

func need(name, request string) reconciletest.Step {
	return annotated(name, protocol.Needed, `"`+request+`"`)
}

func cordon(name, json string) reconciletest.Step {
	return reconciletest.Patch("nodes", name, `{"spec":{"unschedulable":`+json+`}}`)
}

func ready(name, status string) reconciletest.Step {
	return reconciletest.Patch("nodes/status", name, `{"status":{"conditions":[{"type":"Ready","status":"`+status+`"}]}}`)
}

func paused(json string) reconciletest.Step {
	return reconciletest.Patch(api.Resource, api.DefaultName, `{"spec":{"paused":`+json+`}}`)
}

// calledOff takes a reboot in progress away, unless it has happened.
func calledOff(name string) reconciletest.Step {
	return reconciletest.Step{Name: "call off " + name, Do: func(ctx context.Context, w *reconciletest.World) error {
		f := fleetOf(w)
		f.mu.Lock()
		n := f.monitor.nodes[name]
		fresh := n != nil && n.inProgress != nil && !f.machines[name].Off() &&
			f.monitor.truth(name).acceptedAt[epochOf(n.uid, n.inProgress)] == f.boots[name]
		f.mu.Unlock()
		if !fresh {
			return nil
		}
		return annotated(name, protocol.InProgress, "null").Do(ctx, w)
	}}
}

// machines is a step about machines.
func machines(name string, do func(f *fleet)) reconciletest.Step {
	return reconciletest.Step{Name: name, Do: func(_ context.Context, w *reconciletest.World) error {
		do(fleetOf(w))
		return nil
	}}
}

func newController(env *reconciletest.Env, lead bool) (*controller.Controller, error) {
	reached := stage.Reach(env.Config())
	options := controller.Options{Backoff: queue.Backoff{Cap: time.Minute}}
	if lead {
		elector, err := leader.New(leader.Lease{
			Client: env.Client().CoordinationV1(), Namespace: metav1.NamespaceDefault, Name: controller.DefaultName,
			Identity: fmt.Sprintf("replica-%d", env.Replica()),
		}, &leader.Options{LeaseDuration: 30 * time.Second, RenewDeadline: 20 * time.Second, RetryPeriod: 5 * time.Second})
		if err != nil {
			return nil, err
		}
		reached, options.Leader = stage.Reach(elector.Fence(env.Config())), elector
	}
	groups, err := api.NewClient(reached)
	if err != nil {
		return nil, err
	}
	return controller.New(reached.Client().CoreV1().Nodes(), groups, &options)
}

// cordonsLeft says whose cordon is not as the administrator has left it.
func cordonsLeft(w *reconciletest.World, want map[string]bool) error {
	for name, cordoned := range want {
		if n, _ := fleetOf(w).node(name); n.Spec.Unschedulable != cordoned {
			return fmt.Errorf("I7: %s: cordoned is %t, want %t", name, !cordoned, cordoned)
		}
	}
	return nil
}

// oneLeads has two controllers, one of which leads, as in a Deployment of two
// replicas with --leader-elect. The agents are in the world, as only the leader
// may write: reconciletest compares that with the Lease. The state at each rest
// is the same, whatever went wrong before: one reboot is requested for each
// node.
func oneLeads() *reconciletest.Case {
	return &reconciletest.Case{
		Resources: resources(),
		Objects:   []runtime.Object{node("n1", false), node("n2", true), node("n3", false), group()},
		Outside:   func() any { return newFleet("n1", "n2", "n3") },
		Replicas:  2,
		Run: func(env *reconciletest.Env) error {
			c, err := newController(env, true)
			if err != nil {
				return err
			}
			return c.Run(env.Context())
		},
		Actors: []reconciletest.Actor{power(), person(), kubelet(false), agents()},
		Always: always,
		Workload: []reconciletest.Step{
			byAdmin("pause; n2 fails; ask for n1 and n3",
				paused("true"), ready("n2", "Unknown"), need("n1", "kernel"), need("n3", "kernel")),
			byAdmin("resume", paused("false")),
			byAdmin("n2 recovers", ready("n2", "True")),
			byAdmin("ask for n2", need("n2", "kernel")),
		},
		// The number of epochs spent without a reboot depends on a race.
		Ignore: []string{"metadata.annotations." + protocol.Void, bootIDs},
		Goal: func(w *reconciletest.World) error {
			return errors.Join(fleetOf(w).settled(),
				cordonsLeft(w, map[string]bool{"n1": false, "n2": true, "n3": false}))
		},
	}
}

// bothWork has two controllers that both believe that they lead, forever, and
// the real agents of all nodes except the first.
func bothWork() *reconciletest.Case {
	return &reconciletest.Case{
		Resources: resources(),
		Objects:   []runtime.Object{node("n1", false), node("n2", true), node("n3", false), group()},
		Outside:   func() any { return newFleet("n1", "n2", "n3") },
		Replicas:  2,
		Run:       func(env *reconciletest.Env) error { return runWithAgents(env, env.Replica() == 0) },
		Actors:    []reconciletest.Actor{power(), person(), kubelet(true)},
		Always:    always,
		Unwatched: polled(),
		Workload: []reconciletest.Step{
			byAdmin("n1 loses its power; ask for n1 and n2",
				machines("", func(f *fleet) { f.power("n1", false) }), need("n1", "kernel"), need("n2", "kernel")),
			byAdmin("pause; n1 has power again",
				paused("true"), machines("", func(f *fleet) { f.power("n1", true) })),
			byAdmin("resume", paused("false")),
			byAdmin("n3 fails; n1 is cordoned, and needed again",
				ready("n3", "Unknown"), cordon("n1", "true"), need("n1", "firmware")),
			byAdmin("n3 recovers", ready("n3", "True")),
			byAdmin("n2 does not reboot when it is told to; ask for n2",
				machines("", func(f *fleet) { f.machines["n2"].Refuse(errors.New("inhibited")) }), need("n2", "firmware")),
			byAdmin("call it off; n2 would reboot now; uncordon n1",
				calledOff("n2"),
				machines("", func(f *fleet) { f.machines["n2"].Refuse(nil) }), cordon("n1", "null")),
		},
		Ignore: everyField(),
		Goal: func(w *reconciletest.World) error {
			return errors.Join(fleetOf(w).settled(),
				cordonsLeft(w, map[string]bool{"n1": false, "n2": true, "n3": false}))
		},
	}
}

// polled is the resource that the agents list repeatedly while they drain,
// instead of watching it.
func polled() []string { return []string{"pods"} }

// everyField is for cases in which the winner of a race, and so the state at
// rest, may differ from run to run: only the invariants and the goal count
// there.
func everyField() []string { return []string{"metadata", "spec", "status"} }

// runWithAgents is one process with a controller, and with the agents of all
// nodes.
func runWithAgents(env *reconciletest.Env, withAgents bool) error {
	c, err := newController(env, false)
	if err != nil {
		return err
	}
	all := []*reconcile.Controller{c.Control()}
	f := env.Outside().(*fleet)
	for _, n := range f.names {
		if !withAgents {
			break
		}
		core := stage.Client(env.Config()).CoreV1()
		a, err := agent.New(core.Nodes(), drain.Pods(core), &agent.Options{
			Node: n, Start: f.start(), Machine: gated{f.machines[n], func() bool { return env.Context().Err() == nil }},
			Backoff: queue.Backoff{Cap: time.Minute},
		})
		if err != nil {
			return err
		}
		all = append(all, a.Control())
	}
	ended := make(chan error)
	for i, c := range all {
		go func() {
			select { // one after the other, so that their watches are numbered in the same order each time
			case <-time.After(time.Duration(i)*time.Second + 1): // never zero: see CONTRIBUTING.md
			case <-env.Context().Done():
			}
			ended <- c.Run(env.Context())
		}()
	}
	var errs []error
	for range all {
		errs = append(errs, <-ended)
	}
	return errors.Join(errs...)
}

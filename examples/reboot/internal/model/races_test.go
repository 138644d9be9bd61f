package model_test

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// The cases of this file are small, and stop in the middle of a reboot: then
// one call that is late, or one event, arrives in another world.

// duel has two controllers that both work. The agents are in the world, and the
// kubelets report a boot after the agents have noted it.
func duel() *reconciletest.Case {
	return &reconciletest.Case{
		Resources: resources(),
		Objects:   []runtime.Object{node("n1", false), node("n2", true), node("n3", false), group()},
		Outside: func() any {
			f := newFleet("n1", "n2", "n3")
			f.power("n2", false)
			f.power("n3", false)
			return f
		},
		Replicas: 2,
		Run:      func(env *reconciletest.Env) error { return runWithAgents(env, false) },
		Actors:   []reconciletest.Actor{power(), person(), agents(), kubelet(true)},
		Always:   always,
		Workload: []reconciletest.Step{
			byAdmin("ask for all; n2 and n3 have no power", need("n1", "kernel"), need("n2", "kernel"), need("n3", "kernel")),
			byAdmin("n2 has power; it and n1 are needed again",
				need("n2", "firmware"), need("n1", "firmware"), machines("", func(f *fleet) { f.power("n2", true) })),
			byAdmin("n2 fails; n3 has power", ready("n2", "Unknown"), machines("", func(f *fleet) { f.power("n3", true) })),
			byAdmin("n2 recovers", ready("n2", "True")),
		},
		Ignore: everyField(),
		Goal: func(w *reconciletest.World) error {
			return errors.Join(fleetOf(w).settled(),
				cordonsLeft(w, map[string]bool{"n1": false, "n2": true, "n3": false}))
		},
	}
}

// revoking has one controller. Its group is paused after a grant, just when the
// agents come back: the winner differs from run to run.
func revoking() *reconciletest.Case {
	away := func(away bool) reconciletest.Step {
		return machines("", func(f *fleet) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.away = away
		})
	}
	return &reconciletest.Case{
		Resources: resources(),
		Objects:   []runtime.Object{node("n1", false), group()},
		Outside:   func() any { return newFleet("n1") },
		Run:       func(env *reconciletest.Env) error { return runWithAgents(env, false) },
		Actors:    []reconciletest.Actor{power(), person(), agents(), kubelet(false)},
		Always:    always,
		Workload: []reconciletest.Step{
			byAdmin("ask for n1, whose agent is away", away(true), need("n1", "kernel")),
			byAdmin("pause; the agent is back", paused("true"), away(false)),
			byAdmin("resume", paused("false")),
		},
		Ignore: everyField(),
		Goal:   func(w *reconciletest.World) error { return fleetOf(w).settled() },
	}
}

// bootIDs are the fields that a restore of the server may change: a server that
// is restored to its state of before a reboot does not know that the node has
// rebooted. So the node reboots once more.
const bootIDs = "nodes status.nodeInfo.bootID"

// failing has no group, and a node that fails just after the reboot of a
// different node was requested. The controller makes the default group.
func failing() *reconciletest.Case {
	return &reconciletest.Case{
		Resources: resources(),
		Objects:   []runtime.Object{node("n1", false), node("n2", false)},
		Outside:   func() any { return newFleet("n1", "n2") },
		Run:       func(env *reconciletest.Env) error { return runWithAgents(env, false) },
		Actors:    []reconciletest.Actor{power(), person(), agents(), kubelet(false)},
		Always:    always,
		Workload: []reconciletest.Step{
			byAdmin("ask for n1; n2 fails", need("n1", "kernel"), ready("n2", "Unknown")),
			byAdmin("n2 recovers", ready("n2", "True")),
		},
		Ignore: []string{bootIDs},
		Goal:   func(w *reconciletest.World) error { return fleetOf(w).settled() },
	}
}

// twins has everything twice, the agent of a node, too: the second is the
// first, which did not end when it should have. The node does not come back
// from its second reboot.
func twins() *reconciletest.Case {
	return &reconciletest.Case{
		Resources: resources(),
		Objects:   []runtime.Object{node("n1", false), group()},
		Outside:   func() any { return newFleet("n1") },
		Replicas:  2,
		Run:       func(env *reconciletest.Env) error { return runWithAgents(env, true) },
		Actors:    []reconciletest.Actor{power(), person(), lifecycle(), kubelet(false)},
		Always:    always,
		Unwatched: polled(),
		Workload: []reconciletest.Step{
			byAdmin("n1 does not reboot when it is told to; ask for n1",
				machines("", func(f *fleet) { f.machines["n1"].Refuse(errors.New("inhibited")) }), need("n1", "kernel")),
			byAdmin("n1 is needed again, and does reboot now, but stays off the second time",
				need("n1", "firmware"), machines("", func(f *fleet) {
					f.machines["n1"].Refuse(nil)
					f.mu.Lock()
					defer f.mu.Unlock()
					f.fuse["n1"] = 2
				})),
			byAdmin("n1 has power again", machines("", func(f *fleet) {
				f.mu.Lock()
				defer f.mu.Unlock()
				f.fuse["n1"], f.dark["n1"] = 0, false
			})),
		},
		Ignore: everyField(),
		Goal: func(w *reconciletest.World) error {
			return errors.Join(fleetOf(w).settled(), cordonsLeft(w, map[string]bool{"n1": false}))
		},
	}
}

// meddling has an administrator who cordons a node and cancels its reboot, at
// any possible time.
func meddling() *reconciletest.Case {
	return &reconciletest.Case{
		Resources: resources(),
		Objects:   []runtime.Object{node("n1", false), group()},
		Outside:   func() any { return newFleet("n1") },
		Run:       func(env *reconciletest.Env) error { return runWithAgents(env, true) },
		Actors:    []reconciletest.Actor{power(), person(), kubelet(true)},
		Always:    always,
		Unwatched: polled(),
		Workload: []reconciletest.Step{
			byAdmin("ask for n1", need("n1", "kernel")),
			byAdmin("cordon n1, and call it off", cordon("n1", "true"), calledOff("n1")),
			byAdmin("uncordon n1", cordon("n1", "null")),
		},
		Ignore: everyField(),
		Goal: func(w *reconciletest.World) error {
			return errors.Join(fleetOf(w).settled(), cordonsLeft(w, map[string]bool{"n1": false}))
		},
	}
}

// alone has one reboot and no further step. So no step ends a reboot that an
// agent has left half done.
func alone() *reconciletest.Case {
	c := meddling()
	c.Workload = c.Workload[:1]
	return c
}

const groups = "rebootgroups.reboot.homeostat.dev"

// Calls that only some cases make: where the agents are in the world they list
// no Pods, and where there is a group none is made.
const noPods, noGroup = "list pods", "create " + groups

// explore also compares a case with the manifest of the programs. Only all
// cases together, and evictions, which none of them has, need all permissions:
// make verify-deploy checks that none is granted in vain.
func explore(t *testing.T, c *reconciletest.Case, unneeded ...string) {
	t.Helper()
	c.Roles = []string{"../../deploy/rbac.yaml"}
	c.Unneeded = append([]string{"create pods/eviction", "get " + groups}, unneeded...)
	reconciletest.Explore(t, c, options())
}

func options() *reconciletest.Options {
	return &reconciletest.Options{
		Budget:    *budget,
		SkipDrift: true, // the default group is made again only when it is needed
		// The kit makes a copy of the group that cannot be read. It has no
		// selector, so it selects all nodes, and they wait until it is mended.
		KnownFindings: []string{"nothing to do with the undecodable object differs"},
	}
}

func TestExploreOneLeads(t *testing.T) { explore(t, oneLeads(), noPods, noGroup) }
func TestExploreBothWork(t *testing.T) { explore(t, bothWork(), noGroup) }
func TestExploreDuel(t *testing.T)     { explore(t, duel(), noPods, noGroup) }
func TestExploreRevoking(t *testing.T) { explore(t, revoking(), noPods, noGroup) }
func TestExploreFailing(t *testing.T)  { explore(t, failing(), noPods) }
func TestExploreTwins(t *testing.T)    { explore(t, twins(), noGroup) }
func TestExploreMeddling(t *testing.T) { explore(t, meddling(), noGroup) }

// The crashes are the first deviations that are tried.
func TestACrashAfterTheMachineIsToldIsNoFinding(t *testing.T) {
	if r := reconciletest.Search(t, alone(), options()); r.Failure != "" {
		t.Error(r.Failure)
	}
}

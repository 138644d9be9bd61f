package reconciletest

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/internal/option"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/backend"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/state"
)

// Case is a program under test and the world that it runs in. Each run starts
// from it afresh, and does not modify it.
//
// Goal and Always are the only expectations to write: a run is correct if it
// ends like the run without faults. A case without them finds what faults
// change; a case with them also finds what is wrong in every run.
//
// Concurrency: the functions of a case are called by one goroutine at a time,
// in a testing/synctest bubble: time is virtual, and a function that waits for
// something outside the bubble hangs the run.
type Case struct {
	// Objects are in the cluster before the program starts, including their
	// status. Their namespaces are created.
	Objects []runtime.Object
	// Resources are the custom resources that the server serves, in addition to
	// the usual built-in ones: Group, Version, Name (the plural), Kind and
	// Namespaced. Each has the status subresource. Their objects have no
	// schema: every field is stored as sent.
	Resources []metav1.APIResource
	// Definitions are custom resources with a schema, by which the server
	// prunes, defaults and validates their objects: crd.Read makes them of the
	// manifests of CustomResourceDefinitions. Package crd is a module of its
	// own.
	Definitions Definitions
	// Outside makes the state that is not in the API server and survives a
	// crash, such as machines. It is called once per run, before the first
	// boot; [Env.Outside] and [World.Outside] return its result. Defaults to
	// nil.
	Outside func() any
	// Run starts the program and returns after the context of env has ended and
	// every goroutine that it started has returned. It is called for each boot:
	// only package variables survive a crash. Required.
	Run func(env *Env) error
	// Before starts the version of the program that Run replaces. Each run begins
	// with it: when it has come to rest it is stopped, without a fault, and Run
	// finds what it has left behind, such as fields that cannot be changed. With
	// several Replicas there is also a run in which one replica is of the new
	// version while the others are still of the old one. Defaults to none.
	Before func(env *Env) error
	// Replicas is the number of replicas, from 1 to 10. Of several, only the
	// one that holds the Lease may write. Defaults to 1.
	Replicas int
	// Workload lists the steps of other clients, which happen one after the
	// other, each when the program has come to rest. Defaults to none: then the
	// program only starts, and comes to rest with Objects.
	Workload []Step
	// Actors are the other controllers of the cluster. The garbage collector is
	// always present. See package actors for those of Pods and Deployments.
	Actors []Actor
	// Always must hold after every write, in every run; its error describes the
	// violation. It is called when the write is committed, before the writer
	// gets its answer, and must not write. It returns errors and does not call
	// FailNow. nil allows everything.
	Always func(w *World) error
	// Goal must hold at rest after the workload, with faults and without; its
	// error describes the violation. It returns errors and does not call
	// FailNow. If the program writes nothing, and there is no Outside, Goal is
	// also called after a run in which only the workload and the Actors act,
	// and the context of Run has ended from the beginning: a Goal that also
	// holds then is a finding. If Goal reads state that the program keeps in
	// memory, put that state into Outside. nil means that the end of the run
	// without faults is the goal.
	Goal func(w *World) error
	// Ignore lists fields that may differ from the run without faults and may
	// be written at any time, such as "status.lastProbeTime", each with
	// everything below it. An element of a list is "spec.rules[0]", all of them
	// "spec.rules[*]"; in a status, where order does not count,
	// "status.conditions[Ready]" is an element by its type or name. "secrets
	// data.token" is the field of one resource, "jobs.batch *" covers whole
	// objects, and "secrets metadata.name" means that the program generates
	// their names.
	Ignore []string
	// Roles are the YAML files with the Roles and ClusterRoles of the program,
	// such as "../../deploy/rbac.yaml". A call that they do not grant is a
	// finding. So is a right that they grant and no run needs, once every
	// single deviation was tried; Events, Leases and the finalizers of owners
	// may be granted without being used. Defaults to all rights.
	Roles []string
	// Unneeded lists further rights that Roles may grant without their being
	// used, such as "delete pods" or "get jobs.batch/status".
	Unneeded []string
	// Unwatched lists resources, such as "pods" or "jobs.batch", that the
	// program may write or read without a watch: it need not notice when
	// another client changes them, so in no run does one delete or edit objects
	// there.
	Unwatched []string
}

const mostReplicas = 10

// Validate returns all errors of the case, joined, or nil if it can be run.
// [Explore], [Search], [Replay] and [Fuzz] call it, and end the test if it
// returns an error.
func (c *Case) Validate() error {
	check := option.Of("reconciletest.Case")
	check.That(c.Run != nil, "Run", nil, "must be the program")
	check.That(c.Replicas >= 0 && c.Replicas <= mostReplicas, "Replicas", c.Replicas, "must be from 0 to %d", mostReplicas)
	for i, s := range c.Workload {
		check.That(s.Do != nil && s.Name != "", fmt.Sprintf("Workload[%d]", i), s.Name, "must have Name and Do")
	}
	for i, a := range c.Actors {
		check.That(a.Do != nil && a.Enabled != nil && a.Name != "", fmt.Sprintf("Actors[%d]", i), a.Name,
			"must have Name, Enabled and Do")
	}
	return check.Err()
}

// Definitions are what crd.Read and crd.Parse return.
type Definitions interface{ Parts() []apisim.Resource }

// resources are the custom resources as the simulated server takes them.
func (c *Case) resources() []apisim.Resource {
	var all []apisim.Resource
	for _, r := range c.Resources {
		all = append(all, apisim.Resource{
			Group: r.Group, Version: r.Version, Resource: r.Name, Kind: r.Kind, Namespaced: r.Namespaced, Status: true,
			Singular: r.SingularName, ShortNames: r.ShortNames, Categories: r.Categories,
		})
	}
	if c.Definitions != nil {
		all = append(all, c.Definitions.Parts()...)
	}
	return all
}

// custom reports whether the case itself defines a resource, such as
// "widgets.example.com".
func (c *Case) custom(resource string) bool {
	is := func(r apisim.Resource) bool { return r.GVR().GroupResource().String() == resource }
	return slices.ContainsFunc(c.resources(), is)
}

// Parts returns what only other packages of this module need, such as live:
// they make the server and the boots.
func (c *Case) Parts() backend.Parts[*World] { return parts{c} }

// parts implements [backend.Parts].
type parts struct{ *Case }

// On returns the World of the case on a server, and calls Case.Outside for it.
func (p parts) On(server backend.Server) *World {
	w := &World{server: server, found: map[string]apisim.Resource{}}
	if p.Outside != nil {
		w.outside = p.Outside()
	}
	return w
}

// Boot calls Run with an Env of b, and returns its error.
func (p parts) Boot(b backend.Boot) error { return p.Run(&Env{boot: b}) }

// Env is the environment of one boot of the program: one process, from its
// start to its stop or crash.
//
// Concurrency: its methods may be called from any goroutine of that boot.
type Env struct{ boot backend.Boot }

// Context returns the context of this boot. It ends when the program has to
// stop, and when it has crashed. Run must return within two minutes after that,
// in virtual time. Errors that its logger gets appear in the trace; it discards
// all other messages, because the logs of hundreds of runs would drown it. To
// read those of a [Replay], put your own logger into it.
func (e *Env) Context() context.Context { return e.boot.Context }

// Outside returns the value that Case.Outside made for this run, or nil if the
// case has none.
func (e *Env) Outside() any { return e.boot.Outside }

// Cache registers a cache of the program, with its resource and a function that
// lists its objects: at rest these must be the server's. The function returns
// them like the List of a client-go Store. A field that a transformer has
// removed from an object counts as modified. Informers of package informer need
// not be registered. If a cache ends before the process, as with a term of
// leadership, its function returns nil from then on: informers of client-go
// have IsStopped for that.
//
// Concurrency: list is called at each rest, while every goroutine of the
// program is blocked: it must not wait for one.
//
//	env.Cache("secrets", factory.Core().V1().Secrets().Informer().GetStore().List)
func (e *Env) Cache(resource string, list func() []any) {
	e.boot.Remember(state.Cache{Resource: resource, List: list})
}

// Replica returns the number of this replica, from 0 to Case.Replicas - 1. It
// stays the same across crashes and restarts.
func (e *Env) Replica() int { return e.boot.Replica }

// Config returns the program's configuration for the API server. The server
// speaks JSON only and does not throttle; the configuration is set up for both.
// The caller owns it.
func (e *Env) Config() *rest.Config { return rest.CopyConfig(e.boot.Config) }

// Client returns a new clientset on [Env.Config]. Its watches do not stream
// lists, like those of an older server.
func (e *Env) Client() kubernetes.Interface { return kubernetes.NewForConfigOrDie(e.Config()) }

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

// Case is a program under test and the world in which it runs. Each run starts
// with a new copy of that world, and does not modify the Case.
//
// Goal and Always are the only expectations that you may have to write. Without
// them, a run is correct if it ends like the run without faults, so the
// exploration finds what faults change. With them, it also finds what is wrong
// in every run.
//
// Concurrency: the functions of a case are called by one goroutine at a time,
// in a testing/synctest bubble. Time is virtual there. A function that waits
// for something outside the bubble hangs the run.
type Case struct {
	// Objects are in the cluster before the program starts, including their
	// status. Their namespaces are created.
	Objects []runtime.Object
	// Resources are the custom resources that the server serves, in addition to
	// the usual built-in ones. Set Group, Version, Name (the plural), Kind and
	// Namespaced. Each resource has the status subresource. There is no schema,
	// so the server stores every field as it was sent.
	Resources []metav1.APIResource
	// Definitions are custom resources with a schema. The server uses the
	// schema to prune, default and validate their objects. crd.Read makes
	// Definitions from the manifests of CustomResourceDefinitions. Package crd
	// is a module of its own.
	Definitions Definitions
	// Outside makes the state that is outside the API server and survives a
	// crash, such as machines. It is called once per run, before the first
	// boot; [Env.Outside] and [World.Outside] return its result. Defaults to
	// nil.
	Outside func() any
	// Run runs the program. It returns after the context of env has ended and
	// every goroutine that it started has returned. It is called once for each
	// boot. Of the program's memory, only package variables survive a crash.
	// Required.
	Run func(env *Env) error
	// Before runs the previous version of the program, which Run replaces. Each
	// run of the exploration begins with Before, without faults. When the old
	// version has come to rest, it is stopped, and Run finds the objects that
	// it has left behind, for example with fields that cannot be changed. With
	// several Replicas there is also a run in which one replica runs the new
	// version while the others still run the old one. Defaults to nil, which
	// means that there is no previous version.
	Before func(env *Env) error
	// Replicas is the number of replicas, from 1 to 10. If the program uses one
	// Lease, only the replica that holds the Lease may write. Defaults to 1.
	Replicas int
	// Workload lists the steps of other clients. They happen one after the
	// other, each when the program has come to rest. In some runs, one of them
	// happens earlier. Defaults to none: the program only starts and comes to
	// rest with Objects.
	Workload []Step
	// Actors are the other controllers of the cluster. The garbage collector is
	// always present. Package actors has actors for Pods and Deployments.
	Actors []Actor
	// Always checks an invariant after every write. It returns an error that
	// describes the violation; it must not call FailNow. It is called when the
	// write is committed, before the writer gets its answer, and must not
	// write. It is not called while Before runs, or after the exploration
	// itself has edited or recreated an object that only other clients write.
	// Its error does not count in a run with an object that Go cannot decode.
	// Defaults to no invariant.
	Always func(w *World) error
	// Goal checks the state at rest after the workload, with faults and
	// without. It returns an error that describes what is wrong; it must not
	// call FailNow. It is not called in a run in which a fault lasts to the
	// end, or in which the exploration itself has edited or recreated an object
	// that only other clients write. If the program writes nothing, and there
	// is neither Outside nor Before, Goal is also called after a run in which
	// the context of Run has ended before Run is called, so that only the
	// workload and the Actors act. It is a finding if Goal holds after that
	// run, too, because the program is then not needed. If Goal reads state
	// that the program keeps in memory, put that state into Outside. Defaults
	// to the end of the run without faults.
	Goal func(w *World) error
	// Ignore lists fields that may differ from the run without faults and may
	// be written at any time. Each entry includes all fields below it:
	//
	//   - "status.lastProbeTime" is a field of any resource, and
	//     "secrets data.token" is a field of one resource.
	//   - "spec.rules[0]" is an element of a list, and "spec.rules[*]" stands
	//     for all elements. In a status, where order does not count,
	//     "status.conditions[Ready]" is an element by its type or name.
	//   - "jobs.batch *" covers whole objects, and "secrets metadata.name"
	//     means that the program generates their names.
	Ignore []string
	// Roles are the YAML files with the Roles and ClusterRoles of the program,
	// such as "../../deploy/rbac.yaml". A call that they do not grant is a
	// finding. A right that they grant and that no run needs is a finding, too,
	// if one process has tried every single deviation. Rights for Events,
	// Leases and the finalizers of owners may remain unused. Defaults to all
	// rights.
	Roles []string
	// Unneeded lists further rights that Roles may grant although no run uses
	// them, such as "delete pods" or "get jobs.batch/status".
	Unneeded []string
	// Unwatched lists resources, such as "pods" or "jobs.batch", that the
	// program may write or read without a watch. It need not notice when
	// another client changes them, so there are no runs in which another client
	// deletes or edits their objects.
	Unwatched []string
}

const mostReplicas = 10

// Validate returns the errors in Run, Replicas, Workload and Actors, joined. It
// does not look at the other fields: for example, it does not read Roles.
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

// Definitions is implemented by the results of crd.Read and crd.Parse.
type Definitions interface{ Parts() []apisim.Resource }

// resources returns the custom resources of the case in the form that the
// simulated server accepts.
func (c *Case) resources() []apisim.Resource {
	var resources []apisim.Resource
	for _, r := range c.Resources {
		resources = append(resources, apisim.Resource{
			Group: r.Group, Version: r.Version, Resource: r.Name, Kind: r.Kind, Namespaced: r.Namespaced, Status: true,
			Singular: r.SingularName, ShortNames: r.ShortNames, Categories: r.Categories,
		})
	}
	if c.Definitions != nil {
		resources = append(resources, c.Definitions.Parts()...)
	}
	return resources
}

// custom reports whether the case itself defines a resource, such as
// "widgets.example.com".
func (c *Case) custom(resource string) bool {
	isNamed := func(r apisim.Resource) bool { return r.GVR().GroupResource().String() == resource }
	return slices.ContainsFunc(c.resources(), isNamed)
}

// Parts returns methods that are only for other packages of this module, such
// as package live. That package provides its own server and boots.
func (c *Case) Parts() backend.Parts[*World] { return parts{c} }

// parts implements [backend.Parts].
type parts struct{ *Case }

// World returns the World of the case on a server, and calls Case.Outside for
// it.
func (p parts) World(server backend.Server) *World {
	w := &World{server: server, found: map[string]apisim.Resource{}}
	if p.Outside != nil {
		w.outside = p.Outside()
	}
	return w
}

// Boot calls Run with an Env for b, and returns its error.
func (p parts) Boot(b backend.Boot) error { return p.Run(&Env{boot: b}) }

// Env is the environment of one boot of the program. A boot is one process,
// from its start to its stop or crash.
//
// Concurrency: its methods may be called from any goroutine of that boot.
type Env struct{ boot backend.Boot }

// Context returns the context of this boot. It ends when the program has to
// stop, and when it has crashed. Run must return within 30 seconds after that,
// in virtual time.
//
// The logger of the context writes errors to the trace. It discards all other
// messages, because the trace would be full of them. To read the messages of a
// [Replay], put your own logger into the context.
func (e *Env) Context() context.Context { return e.boot.Context }

// Outside returns the value that Case.Outside made for this run, or nil if
// Case.Outside is nil.
func (e *Env) Outside() any { return e.boot.Outside }

// Cache registers a cache of the program, with its resource and a function that
// lists its objects as the List of a client-go Store does. At rest, the cache
// must have the same objects as the server. A field that a transformer has
// removed from an object counts as modified. Informers of package informer need
// not be registered.
//
// If a cache ends before the process, for example with a term of leadership,
// the function must return nil from then on. Informers of client-go have the
// method IsStopped for that.
//
// Concurrency: list is called at each rest, while every goroutine of the
// program is blocked, so it must not wait for one of them.
//
//	env.Cache("secrets", factory.Core().V1().Secrets().Informer().GetStore().List)
func (e *Env) Cache(resource string, list func() []any) {
	e.boot.Remember(state.Cache{Resource: resource, List: list})
}

// Transform is a transform function for informers of client-go and for caches
// of controller-runtime. It returns obj unchanged, and records its content. If
// the program later modifies the object in place, for example an object that a
// lister has returned, that is a finding at the next rest. Informers of package
// informer need no such function.
//
// A program that transforms its objects itself calls Transform last, with the
// transformed object. The error is always nil.
//
// One line covers all informers of a factory, or all caches of a manager:
//
//	informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(env.Transform))
//	manager.Options{Cache: cache.Options{DefaultTransform: env.Transform}}
func (e *Env) Transform(obj any) (any, error) {
	e.boot.Originals.Add(obj)
	return obj, nil
}

// Replica returns the number of this replica, from 0 to Case.Replicas - 1. It
// stays the same across crashes and restarts.
func (e *Env) Replica() int { return e.boot.Replica }

// Config returns the program's configuration for the API server. The simulated
// server speaks only JSON and does not throttle, and the configuration is set
// up accordingly. The caller owns it.
func (e *Env) Config() *rest.Config { return rest.CopyConfig(e.boot.Config) }

// Client returns a new clientset for [Env.Config]. Like an older server, the
// simulated one does not stream lists in watches.
func (e *Env) Client() kubernetes.Interface { return kubernetes.NewForConfigOrDie(e.Config()) }

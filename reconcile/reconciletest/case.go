package reconciletest

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/internal/apisim"
)

// Case is a program under test and the world that it runs in.
type Case struct {
	// Objects are there before the program starts, status and all, and so are their namespaces.
	Objects []runtime.Object
	// Resources are the custom resources that the server knows beside the built-in ones.
	Resources []Resource
	// Outside makes what is not in the API server and outlives a crash, such as machines: once for each run, before the
	// first boot. [Env.Outside] and [World.Outside] return it.
	Outside func() any
	// Run starts the program and returns when the context of env has ended, with every goroutine that it started.
	// It is called once for each boot: in memory nothing but package variables outlives a crash.
	Run func(env *Env) error
	// Replicas is how many run at once; 1. With more, the one that holds the Lease may write, the others may not.
	Replicas int
	// Workload is what others do, one step after the other, each when the program has come to rest.
	Workload []Step
	// Actors are what else lives in the cluster; the garbage collector is always there.
	Actors []Actor
	// Always must hold after every single write, in every run.
	Always func(w *World) error
	// Goal must hold when the program has come to rest after the workload, without faults and with them.
	Goal func(w *World) error
	// Ignore lists fields that may differ at the end from the run without faults: "status.lastProbeTime".
	Ignore []string
	// Unwatched lists resources ("pods", "jobs.batch") that the program may write without watching them.
	Unwatched []string
}

const mostReplicas = 10

func (c *Case) validate() error {
	var faults []error
	if c.Run == nil {
		faults = append(faults, errors.New("Run: must be set"))
	}
	if c.Replicas < 0 || c.Replicas > mostReplicas {
		faults = append(faults, fmt.Errorf("Replicas %d: must be from 0 to %d", c.Replicas, mostReplicas))
	}
	for i, s := range c.Workload {
		if s.Do == nil || s.Name == "" {
			faults = append(faults, fmt.Errorf("Workload[%d] %q: Name and Do must be set", i, s.Name))
		}
	}
	for i, a := range c.Actors {
		if a.Do == nil || a.Enabled == nil || a.Name == "" {
			faults = append(faults, fmt.Errorf("Actors[%d] %q: Name, Enabled and Do must be set", i, a.Name))
		}
	}
	return errors.Join(faults...)
}

// Resource is a custom resource.
type Resource struct {
	Group, Version, Resource, Kind string
	Namespaced                     bool
	// Status says that the resource has the status subresource.
	Status bool
}

func (c *Case) resources() []apisim.Resource {
	var all []apisim.Resource
	for _, r := range c.Resources {
		all = append(all, apisim.Resource{
			Group: r.Group, Version: r.Version, Resource: r.Resource, Kind: r.Kind,
			Namespaced: r.Namespaced, Status: r.Status,
		})
	}
	return all
}

// Env is what one boot of the program gets.
type Env struct {
	ctx     context.Context //nolint:containedctx // it is the life of this boot
	config  *rest.Config
	replica int
	outside any

	remember func(c cache)
}

// Context ends when the program has to stop, and when it has crashed.
func (e *Env) Context() context.Context { return e.ctx }

// Outside is what Case.Outside made for this run.
func (e *Env) Outside() any { return e.outside }

// Cache names a cache of the program, by the resource that it holds and a function that lists its objects: at rest each
// of them has to be what the server has. A function returns what a client-go Store's List does; what a transformer
// has taken out of an object counts as an edit.
//
//	env.Cache("secrets", factory.Core().V1().Secrets().Informer().GetStore().List)
func (e *Env) Cache(resource string, list func() []any) {
	e.remember(cache{resource: resource, list: list})
}

// Replica is the number of this replica, from 0.
func (e *Env) Replica() int { return e.replica }

// Config is the program's way to the API server. The server speaks JSON only, and the configuration says so.
func (e *Env) Config() *rest.Config { return rest.CopyConfig(e.config) }

// Client is a clientset on [Env.Config].
func (e *Env) Client() kubernetes.Interface { return kubernetes.NewForConfigOrDie(e.Config()) }

package reconciletest

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/backend"
)

// World is the cluster as an administrator sees it, without caches or faults.
// Steps of the workload, actors, Goal and Always receive it.
//
// Concurrency: its methods may be called by the function that received it,
// until that function returns.
type World struct {
	server  backend.Server
	outside any
	found   map[string]apisim.Resource // the resources, by the name that callers of Objects use
	client  kubernetes.Interface       // nil until the first call of Client
	hides   bool                       // whether the object that cannot be decoded is hidden
	answers []wrongAnswer              // replies to calls of the program, in the order of the steps that set them
}

// Outside returns the value that Case.Outside made for this run, or nil if
// Case.Outside is nil.
func (w *World) Outside() any { return w.outside }

// Config returns an administrator's configuration. Its requests are served
// without faults or delays.
func (w *World) Config() *rest.Config { return w.server.Config() }

// Client returns a clientset for [World.Config]. All calls return the same
// clientset.
func (w *World) Client() kubernetes.Interface {
	if w.client == nil {
		w.client = kubernetes.NewForConfigOrDie(w.Config())
	}
	return w.client
}

// Version returns a number that grows with each write by any client. An [Actor]
// that has already seen a version need not look at the objects again. On a real
// server it is always 0.
func (w *World) Version() int64 { return w.server.Version() }

// Objects returns the objects of a resource, such as "pods" or "jobs.batch",
// sorted by namespace and name. The objects are shared; do not modify them.
//
// Objects returns an error if the server does not serve the resource or, on a
// real server, if a list of the resource fails.
func (w *World) Objects(resource string) ([]*unstructured.Unstructured, error) {
	r, known := w.found[resource]
	if !known {
		var err error
		if r, err = backend.Find(w.server, resource); err != nil {
			return nil, err
		}
		w.found[resource] = r
	}
	objects, err := w.server.Objects(r)
	if w.hides {
		objects = slices.DeleteFunc(slices.Clone(objects), func(o *unstructured.Unstructured) bool {
			return o.GetName() == undecodable
		})
	}
	return objects, err
}

// List returns the objects of a resource, such as "pods" or "jobs.batch", as
// values of their Go type, sorted by namespace and name. The caller owns them.
//
// List returns the errors of [World.Objects]. It also returns an error if an
// object does not decode into T.
//
//	Goal: func(w *reconciletest.World) error {
//		pods, err := reconciletest.List[corev1.Pod](w, "pods")
//		if err == nil && len(pods) != 3 {
//			err = fmt.Errorf("there are %d Pods", len(pods))
//		}
//		return err
//	},
func List[T any](w *World, resource string) ([]T, error) {
	objects, err := w.Objects(resource)
	if err != nil {
		return nil, err
	}
	list := make([]T, len(objects))
	for i, o := range objects {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &list[i]); err != nil {
			return nil, fmt.Errorf("decoding %s %s/%s: %w", resource, o.GetNamespace(), o.GetName(), err)
		}
	}
	return list, nil
}

// Actor is a part of the cluster that acts by itself, such as a kubelet or
// another controller. It writes as another client, so the program is not blamed
// for its writes. In some runs it acts a minute late.
//
// The world is at rest only when no actor is enabled, and none has acted for a
// while, whether it wrote or not. So an actor that remains enabled keeps the
// world from being at rest.
//
// Package actors has the usual actors.
//
// Concurrency: one goroutine calls the functions of all actors.
type Actor struct {
	// Name describes the actor in traces. Required.
	Name string
	// Enabled reports whether the actor has something to do now. Required.
	Enabled func(w *World) bool
	// Do does the next act, which is usually one write. Required.
	Do func(w *World)
	// Due returns the time at which the actor will act, or the zero time for
	// never. The world is not at rest before that time. Defaults to never.
	Due func(w *World) time.Time
}

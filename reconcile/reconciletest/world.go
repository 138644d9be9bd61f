package reconciletest

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/backend"
)

// World is the cluster as an administrator sees it: live, not cached, and
// without faults. Steps of the workload, actors, Goal and Always receive it.
//
// Concurrency: its methods may be called by the function that received it,
// until that function returns.
type World struct {
	server  backend.Server
	outside any
	found   map[string]apisim.Resource // by name, as callers write it
	client  kubernetes.Interface       // once it was asked for
	answers []wrongAnswer              // to calls of the program, in the order of their steps
}

// Outside returns the value that Case.Outside made for this run, or nil if the
// case has none.
func (w *World) Outside() any { return w.outside }

// Config returns an administrator's configuration: its requests get no fault
// and are never delayed.
func (w *World) Config() *rest.Config { return w.server.Config() }

// Client returns a clientset on [World.Config], always the same one.
func (w *World) Client() kubernetes.Interface {
	if w.client == nil {
		w.client = kubernetes.NewForConfigOrDie(w.Config())
	}
	return w.client
}

// Version returns a number that grows with each write by any client: an [Actor]
// that has already seen this version need not look again. On a real server it
// is 0.
func (w *World) Version() int64 { return w.server.Version() }

// Objects returns the objects of a resource, "pods" or "jobs.batch", sorted by
// namespace and name. The objects are shared; do not modify them.
//
// Errors: the server does not serve the resource; on a real server also those
// of its list.
func (w *World) Objects(resource string) ([]*unstructured.Unstructured, error) {
	r, known := w.found[resource]
	if !known {
		var err error
		if r, err = backend.Find(w.server, resource); err != nil {
			return nil, err
		}
		w.found[resource] = r
	}
	return w.server.Objects(r)
}

// List returns the objects of a resource, "pods" or "jobs.batch", as values of
// their Go type, sorted by namespace and name. The caller owns them.
//
// Errors: those of [World.Objects], and an object that does not decode into T.
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
	all := make([]T, len(objects))
	for i, o := range objects {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &all[i]); err != nil {
			return nil, fmt.Errorf("decoding %s %s/%s: %w", resource, o.GetNamespace(), o.GetName(), err)
		}
	}
	return all, nil
}

// Actor is a part of the cluster that acts by itself, such as a kubelet or
// another controller. It writes as another client: the program is not blamed
// for it. In some runs it is a minute late.
//
// The world is at rest when no actor has acted for a while, whether it wrote or
// not, and none is enabled: an actor that stays enabled prevents rest.
//
// Package actors has the usual ones.
//
// Concurrency: one goroutine calls the functions of all actors.
type Actor struct {
	// Name describes the actor in traces. Required.
	Name string
	// Enabled reports whether it would act now. Required.
	Enabled func(w *World) bool
	// Do acts: usually by one write. Required.
	Do func(w *World)
	// Due returns the time at which it will act, or zero for never. The world
	// is not at rest before then. nil means never.
	Due func(w *World) time.Time
}

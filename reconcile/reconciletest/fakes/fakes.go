// Package fakes makes the fake clientset of client-go answer like a real API
// server.
//
// The clientset alone is a map of objects: it loses updates, ignores most
// options, and accepts objects that a server refuses. docs/testing.md lists the
// differences. A test that passes with [Faithful] may still fail on a server,
// because of defaults, validation, admission and the encoding on the wire; use
// package reconciletest/live to find such failures.
package fakes

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/backend"
)

// Faithful puts a simulated API server behind a fake clientset, for tests that
// keep using fake clientsets. The clientset then has resourceVersions and
// conflicts, identifiers, generated names, finalizers, preconditions, the
// status subresource, selectors, dry runs, apply, watches that lose no events,
// and garbage collection. Call Faithful once, before the clientset is used,
// with the result of fake.NewClientset or fake.NewSimpleClientset.
//
// Reactors that the test prepends afterwards are still called first, and
// Actions still returns all actions. The objects of the clientset are copied to
// the simulated server, with their namespaces. Objects of these kinds that are
// added to cs.Tracker() later are ignored. Garbage is collected after each
// write, before the caller gets the answer. A watch holds a goroutine until it
// is stopped.
//
// A reactor does not get the caller's context, so a call does not end when the
// context ends. The fake still serves kinds that the simulated server does not
// have, and subresources such as tokens and logs.
//
// Faithful returns an error if the clientset has an object that a server would
// refuse.
//
// Concurrency: the clientset's lock serializes all calls except watches, as
// without Faithful.
func Faithful(cs *fake.Clientset) error {
	sim, err := apisim.New(&apisim.Options{Lifecycle: true, ManagedFields: true, Incomplete: true})
	if err != nil {
		return err
	}
	f := &faithful{
		sim: sim, collector: sim.Collector(),
		clients: map[schema.GroupVersion]rest.Interface{}, served: map[schema.GroupVersionResource]apisim.Resource{},
	}
	for _, r := range sim.Resources() {
		f.served[r.GVR()] = r
	}
	if err := f.load(cs.Tracker()); err != nil {
		return fmt.Errorf("taking over the objects of a fake clientset: %w", err)
	}
	// This reactor precedes the tracker's own reactors. They still serve the
	// actions that f leaves to them.
	cs.PrependReactor("*", "*", f.react)
	cs.PrependWatchReactor("*", f.watch)
	return nil
}

// faithful translates the actions of a fake clientset into the requests that a
// real client would send to a simulated server. Objects are encoded and decoded
// on the way, so the caller and the server do not share them. The clientset's
// lock serializes the actions.
type faithful struct {
	sim       *apisim.Server
	collector *apisim.Collector
	clients   map[schema.GroupVersion]rest.Interface
	served    map[schema.GroupVersionResource]apisim.Resource
}

// subresources lists the subresources that the simulated server serves. The
// fake still serves others, such as log and token.
var subresources = []string{"", "status", "scale", "eviction", "binding", "finalize"}

// load copies the objects of the tracker to the simulated server. It copies
// namespaces first, because other objects need them.
func (f *faithful) load(tracker clienttesting.ObjectTracker) error {
	begin := func(obj runtime.Object) error { return backend.Begin(backend.Simulated{Server: f.sim}, obj) }
	for _, r := range append([]apisim.Resource{f.served[backend.Namespaces]}, f.sim.Resources()...) {
		list, err := tracker.List(r.GVR(), r.GVR().GroupVersion().WithKind(r.Kind), "")
		if err != nil {
			continue // the clientset has no such kind
		}
		if err := meta.EachListItem(list, begin); err != nil {
			return err
		}
	}
	return nil
}

// react serves an action of the clientset, and collects the garbage that
// results from it. It returns false to leave the action to the fake.
func (f *faithful) react(action clienttesting.Action) (bool, runtime.Object, error) {
	q, err := f.request(action)
	if q == nil {
		return err != nil, nil, err
	}
	obj, err := q.Do(context.Background()).Get()
	// Garbage is collected here, because a fake clientset has no controller
	// manager that would collect it later.
	f.collector.Run()
	if err != nil {
		return true, nil, err // not obj, because it may hold a nil pointer
	}
	return true, obj, nil
}

// watch opens a watch on the simulated server. The watch ends when the caller
// stops it. It returns false to leave the action to the fake.
func (f *faithful) watch(action clienttesting.Action) (bool, watch.Interface, error) {
	a, ok := action.(clienttesting.WatchActionImpl)
	if !ok {
		return false, nil, nil
	}
	q, err := f.begin("GET", a.ActionImpl)
	if q == nil {
		return err != nil, nil, err
	}
	a.ListOptions.Watch = true
	w, err := q.VersionedParams(&a.ListOptions, scheme.ParameterCodec).Watch(context.Background())
	return true, w, err
}

// request returns the HTTP request that a real client makes for the action, or
// nil if the simulated server cannot serve it. Package testing has a different
// struct for each verb.
func (f *faithful) request(action clienttesting.Action) (*rest.Request, error) {
	var q *rest.Request
	var err error
	var body any
	var query runtime.Object
	switch a := action.(type) {
	case clienttesting.GetActionImpl:
		query = &a.GetOptions
		q, err = f.named("GET", a.ActionImpl, a.Name)
	case clienttesting.ListActionImpl:
		query = &a.ListOptions
		q, err = f.begin("GET", a.ActionImpl)
	case clienttesting.CreateActionImpl:
		body, query = a.Object, &a.CreateOptions
		q, err = f.create(a)
	case clienttesting.UpdateActionImpl:
		body, query = a.Object, &a.UpdateOptions
		q, err = f.named("PUT", a.ActionImpl, nameOf(a.Object))
	case clienttesting.PatchActionImpl:
		body, query = a.Patch, &a.PatchOptions
		if q, err = f.named("PATCH", a.ActionImpl, a.Name); q != nil {
			q.SetHeader("Content-Type", string(a.PatchType))
		}
	case clienttesting.DeleteActionImpl:
		body = &a.DeleteOptions
		q, err = f.named("DELETE", a.ActionImpl, a.Name)
	case clienttesting.DeleteCollectionActionImpl:
		body, query = &a.DeleteOptions, &a.ListOptions
		q, err = f.begin("DELETE", a.ActionImpl)
	}
	if q == nil {
		return nil, err
	}
	if query != nil {
		q.VersionedParams(query, scheme.ParameterCodec)
	}
	if body != nil {
		q.Body(body)
	}
	return q, nil
}

// create returns the request that creates an object or a subresource, such as
// an Eviction.
func (f *faithful) create(a clienttesting.CreateActionImpl) (*rest.Request, error) {
	switch {
	case a.Subresource == "":
		return f.begin("POST", a.ActionImpl)
	case a.Subresource == "finalize": // this is an update, although the fake clientset calls it a create
		return f.named("PUT", a.ActionImpl, nameOf(a.Object))
	case a.Name != "":
		return f.named("POST", a.ActionImpl, a.Name)
	}
	return f.named("POST", a.ActionImpl, nameOf(a.Object))
}

// named begins a request about the object with the given name. It returns nil
// if the simulated server does not have the resource or subresource. The fake
// then serves the action.
func (f *faithful) named(verb string, a clienttesting.ActionImpl, name string) (*rest.Request, error) {
	q, err := f.begin(verb, a)
	if q == nil {
		return nil, err
	}
	if a.Namespace == "" && f.served[a.Resource].Namespaced {
		q.Namespace("") // the request then fails, as with a real client
	}
	q.Name(name)
	if a.Subresource != "" {
		q.SubResource(a.Subresource)
	}
	return q, nil
}

// begin begins a request with the fields that all actions have. It returns nil
// if the simulated server does not have the resource or subresource. Requests
// are not retried, because the fake holds its lock until the request returns.
func (f *faithful) begin(verb string, a clienttesting.ActionImpl) (*rest.Request, error) {
	r, known := f.served[a.Resource]
	if !known || !slices.Contains(subresources, a.Subresource) {
		return nil, nil
	}
	c, err := f.client(a.Resource.GroupVersion())
	if err != nil {
		return nil, err
	}
	scoped := r.Namespaced && a.Namespace != ""
	return c.Verb(verb).NamespaceIfScoped(a.Namespace, scoped).Resource(r.Resource).MaxRetries(0), nil
}

// client returns the administrator's client for a group and version. It makes
// each client once. The server does not deny or delay the administrator's
// requests.
func (f *faithful) client(gv schema.GroupVersion) (rest.Interface, error) {
	if c := f.clients[gv]; c != nil {
		return c, nil
	}
	config := f.sim.Admin()
	config.GroupVersion, config.APIPath = &gv, "/apis"
	if gv.Group == "" {
		config.APIPath = "/api"
	}
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	c, err := rest.RESTClientFor(config)
	if err == nil {
		f.clients[gv] = c
	}
	return c, err
}

// nameOf returns the name of an object that is being written, or "" if the
// object has no metadata.
func nameOf(obj runtime.Object) string {
	if m, ok := obj.(metav1.Object); ok {
		return m.GetName()
	}
	return ""
}

// Package fakes makes the fake clientset of client-go answer like a real API
// server.
//
// The clientset alone is a map of objects: it loses updates, ignores most
// options, and accepts objects that a server refuses. docs/testing.md lists the
// differences. A test that passes with [Faithful] may still fail on a server,
// because of defaults, validation, admission and the encoding on the wire;
// package reconciletest/live is for that.
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
// keep theirs: resourceVersions and conflicts, identifiers, generated names,
// finalizers, preconditions, the status subresource, selectors, dry runs,
// apply, watches that lose nothing, garbage collection. Call it once, before
// the clientset is used, with the result of fake.NewClientset or
// fake.NewSimpleClientset.
//
// Reactors that the test prepends afterwards still come first, and Actions
// still records. The objects of the clientset move to the simulated server,
// with their namespaces; objects added to cs.Tracker() later are not seen.
// Garbage is collected after each write, before the caller gets the answer. A
// watch holds a goroutine until it is stopped.
//
// A reactor does not get the caller's context, so a call does not end with it.
// Kinds that the simulated server does not have, and subresources such as
// tokens and logs, are still served by the fake.
//
// Errors: the clientset has an object that a server would refuse.
//
// Concurrency: the clientset's lock serialises all calls but watches, as
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
	// Before the tracker's own reactors, which still serve the actions that f
	// leaves to them.
	cs.PrependReactor("*", "*", f.react)
	cs.PrependWatchReactor("*", f.watch)
	return nil
}

// faithful carries the actions of a fake clientset to a simulated server, as
// the requests that a real client would send: both encode and decode, so that
// nothing is shared. The clientset's lock serialises them.
type faithful struct {
	sim       *apisim.Server
	collector *apisim.Collector
	clients   map[schema.GroupVersion]rest.Interface
	served    map[schema.GroupVersionResource]apisim.Resource
}

// subresources are those that the simulated server has; the fake keeps the
// others, such as log and token.
var subresources = []string{"", "status", "scale", "eviction", "binding", "finalize"}

// load takes over the objects of the tracker: namespaces first, which the
// others need.
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

// react serves an action of the clientset, and collects the garbage that it
// leaves; false leaves the action to the fake.
func (f *faithful) react(action clienttesting.Action) (bool, runtime.Object, error) {
	q, err := f.request(action)
	if q == nil {
		return err != nil, nil, err
	}
	obj, err := q.Do(context.Background()).Get()
	f.collector.Run() // here, since a fake clientset has no controller manager that would do it later
	if err != nil {
		return true, nil, err // not obj: it may hold a nil pointer
	}
	return true, obj, nil
}

// watch opens a watch on the simulated server; false leaves it to the fake. It
// ends when its caller stops it.
func (f *faithful) watch(action clienttesting.Action) (bool, watch.Interface, error) {
	a, ok := action.(clienttesting.WatchActionImpl)
	if !ok {
		return false, nil, nil
	}
	q, err := f.all("GET", a.ActionImpl)
	if q == nil {
		return err != nil, nil, err
	}
	a.ListOptions.Watch = true
	w, err := q.VersionedParams(&a.ListOptions, scheme.ParameterCodec).Watch(context.Background())
	return true, w, err
}

// request is the HTTP request that a real client makes for the action; nil: it
// is not for the server. An action of package testing is a struct of its own
// for each verb.
func (f *faithful) request(action clienttesting.Action) (*rest.Request, error) {
	var q *rest.Request
	var err error
	var body any
	var query runtime.Object
	switch a := action.(type) {
	case clienttesting.GetActionImpl:
		query = &a.GetOptions
		q, err = f.one("GET", a.ActionImpl, a.Name)
	case clienttesting.ListActionImpl:
		query = &a.ListOptions
		q, err = f.all("GET", a.ActionImpl)
	case clienttesting.CreateActionImpl:
		body, query = a.Object, &a.CreateOptions
		q, err = f.create(a)
	case clienttesting.UpdateActionImpl:
		body, query = a.Object, &a.UpdateOptions
		q, err = f.one("PUT", a.ActionImpl, nameOf(a.Object))
	case clienttesting.PatchActionImpl:
		body, query = a.Patch, &a.PatchOptions
		if q, err = f.one("PATCH", a.ActionImpl, a.Name); q != nil {
			q.SetHeader("Content-Type", string(a.PatchType))
		}
	case clienttesting.DeleteActionImpl:
		body = &a.DeleteOptions
		q, err = f.one("DELETE", a.ActionImpl, a.Name)
	case clienttesting.DeleteCollectionActionImpl:
		body, query = &a.DeleteOptions, &a.ListOptions
		q, err = f.all("DELETE", a.ActionImpl)
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

// create is the request that creates an object, or a subresource of one, such
// as an Eviction.
func (f *faithful) create(a clienttesting.CreateActionImpl) (*rest.Request, error) {
	switch {
	case a.Subresource == "":
		return f.all("POST", a.ActionImpl)
	case a.Subresource == "finalize": // that is an update, and the fake calls it a create
		return f.one("PUT", a.ActionImpl, nameOf(a.Object))
	case a.Name != "":
		return f.one("POST", a.ActionImpl, a.Name)
	}
	return f.one("POST", a.ActionImpl, nameOf(a.Object))
}

// one begins the request of one object; nil: the server has no such resource or
// subresource, and the fake keeps the action.
func (f *faithful) one(verb string, a clienttesting.ActionImpl, name string) (*rest.Request, error) {
	q, err := f.all(verb, a)
	if q == nil {
		return nil, err
	}
	if a.Namespace == "" && f.served[a.Resource].Namespaced {
		q.Namespace("") // that is its fault
	}
	q.Name(name)
	if a.Subresource != "" {
		q.SubResource(a.Subresource)
	}
	return q, nil
}

// all begins a request with the fields that all actions have; nil: the server
// has no such resource or subresource. Requests are not retried: the fake holds
// its lock meanwhile.
func (f *faithful) all(verb string, a clienttesting.ActionImpl) (*rest.Request, error) {
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

// client returns the administrator's client of a group and version, which it
// makes once. No request is denied or held back.
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

// nameOf is the name of an object that is being written; "" if it has no metadata.
func nameOf(obj runtime.Object) string {
	if m, ok := obj.(metav1.Object); ok {
		return m.GetName()
	}
	return ""
}

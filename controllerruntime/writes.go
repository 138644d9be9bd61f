package controllerruntime

import (
	"cmp"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/internal/answer"
	"github.com/homeostat/homeostat/internal/ownwrites"
	"github.com/homeostat/homeostat/internal/rvorder"
)

// observeWrites wraps the transport of a client, so that c is told about each
// write that the client sends.
func (c *onDemand) observeWrites(config *rest.Config, client *http.Client) error {
	next := client.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	reporter, err := reporting(config, next)
	if err != nil {
		return err
	}
	client.Transport = &observer{cache: c, next: next, writes: reporter}
	return nil
}

// observer sends requests, and records the writes to kinds on demand.
type observer struct {
	cache *onDemand
	next  http.RoundTripper
	// writes sends requests through next, and reports each write to the
	// observer in the request's context.
	writes http.RoundTripper
}

// WrappedRoundTripper returns the inner transport, as client-go requires of
// wrappers.
func (o *observer) WrappedRoundTripper() http.RoundTripper { return o.next }

// RoundTrip sends a request.
func (o *observer) RoundTrip(req *http.Request) (*http.Response, error) {
	switch req.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		noting := writeNoter{cache: o.cache, outer: ownwrites.ObserverOf(req.Context())}
		return o.writes.RoundTrip(req.WithContext(ownwrites.NewContext(req.Context(), noting)))
	default:
		return o.next.RoundTrip(req)
	}
}

// writeNoter records the writes of one request. It also reports them to outer,
// the observer in the caller's context, unless outer is nil.
type writeNoter struct {
	cache *onDemand
	outer ownwrites.Observer
}

var _ ownwrites.Observer = writeNoter{}

// Sending implements [ownwrites.Observer].
func (n writeNoter) Sending(w ownwrites.Write) func(ownwrites.Outcome, *answer.Object) {
	outer := func(ownwrites.Outcome, *answer.Object) {}
	if n.outer != nil {
		outer = n.outer.Sending(w)
	}
	return func(outcome ownwrites.Outcome, object *answer.Object) {
		if outcome != ownwrites.Refused {
			n.cache.wrote(w.Resource, outcome, object, w.Delete)
		}
		outer(outcome, object)
	}
}

// Wrote is never called: transports call only Sending.
func (writeNoter) Wrote(metav1.Object, ownwrites.Content) {}

// Deleted is never called: transports call only Sending.
func (writeNoter) Deleted(metav1.Object) {}

// FieldManager is never called: transports call only Sending.
func (writeNoter) FieldManager() string { return "" }

// wrote records a write for each representation of its kind.
func (c *onDemand) wrote(
	resource schema.GroupResource, outcome ownwrites.Outcome, object *answer.Object, deletes bool,
) {
	for _, k := range c.all() {
		if k.mapping.Resource.GroupResource() == resource {
			k.wrote(outcome, object, deletes)
		}
	}
}

// wrote records the state that later Gets of the object must wait for. If
// object has no name, the write has changed a whole collection.
func (k *kind) wrote(outcome ownwrites.Outcome, object *answer.Object, deletes bool) {
	k.mu.Lock()
	for key, r := range k.reads {
		whole := object.Name == ""
		if whole && object.Namespace != "" && key.Namespace != object.Namespace {
			continue
		}
		if !whole && key != (types.NamespacedName{Namespace: object.Namespace, Name: object.Name}) {
			continue
		}
		r.written++
		rv := object.ResourceVersion
		switch {
		case deletes || outcome != ownwrites.Written || !rvorder.Comparable(rv, cmp.Or(r.rv, rv)):
			r.asks = true
		case !rvorder.Older(rv, r.rv):
			r.rv = rv
		}
	}
	k.mu.Unlock()
	if deletes && object.UID != "" && object.ResourceVersion == "" {
		k.tellDeleted(types.NamespacedName{Namespace: object.Namespace, Name: object.Name}, object.UID)
	}
}

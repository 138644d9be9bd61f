// Package follow lets package clientgo make an informer that follows a cache of
// client-go instead of a server.
package follow

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// errNoRequests is returned by the methods of Client that would send a request.
var errNoRequests = errors.New("a wrapped informer sends no requests")

// Store receives the objects of a followed cache. Calls must not overlap.
type Store[T any] interface {
	// Replace replaces the whole content of the store with objects, the state at
	// resourceVersion.
	Replace(objects []T, resourceVersion string)
	// Put stores the new state of an object.
	Put(object T)
	// Delete removes an object. resourceVersion is the resourceVersion of the
	// deletion, or empty if it is not known.
	Delete(object T, resourceVersion string)
	// Heard records that the followed cache has heard from the server, although
	// no object has changed.
	Heard()
}

// Client passes a followed cache to informer.For, which expects a client. Its
// requests return an error.
type Client[T any] struct {
	// Err is why the cache cannot be followed, or nil.
	Err error
	// Follow copies the cache to the store, and keeps the store up to date
	// until ctx ends.
	Follow func(ctx context.Context, store Store[T]) error
}

// Get returns an error, because a followed cache sends no requests.
func (*Client[T]) Get(context.Context, string, metav1.GetOptions) (object T, err error) {
	return object, errNoRequests
}

// List returns an error, because a followed cache sends no requests.
func (*Client[T]) List(context.Context, metav1.ListOptions) (*metav1.List, error) {
	return nil, errNoRequests
}

// Watch returns an error, because a followed cache sends no requests.
func (*Client[T]) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return nil, errNoRequests
}

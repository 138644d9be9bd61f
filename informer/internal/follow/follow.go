// Package follow lets package clientgo make an informer that follows a cache of
// client-go instead of a server.
package follow

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// errNoRequests answers requests.
var errNoRequests = errors.New("a wrapped informer sends no requests")

// Store is where the objects of a followed cache go. Calls must not overlap.
type Store[T any] interface {
	// Replace makes objects the whole content, as of a resourceVersion.
	Replace(objects []T, resourceVersion string)
	// Put stores the new state of an object.
	Put(object T)
	// Delete removes an object. The resourceVersion is that of the deletion, empty
	// if it is not known.
	Delete(object T, resourceVersion string)
}

// Client stands for a followed cache where informer.For expects a client. It
// answers no requests.
type Client[T any] struct {
	// Err says why the followed cache is unusable; nil if it is not.
	Err error
	// Follow fills to and keeps it up to date until ctx ends.
	Follow func(ctx context.Context, to Store[T]) error
}

// Get fails.
func (*Client[T]) Get(context.Context, string, metav1.GetOptions) (object T, err error) {
	return object, errNoRequests
}

// List fails.
func (*Client[T]) List(context.Context, metav1.ListOptions) (*metav1.List, error) {
	return nil, errNoRequests
}

// Watch fails.
func (*Client[T]) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return nil, errNoRequests
}

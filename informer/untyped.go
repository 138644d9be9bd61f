package informer

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// untypedClient is a Client whose Get knows subresources, as those of client-go's
// packages dynamic and metadata do.
type untypedClient[T Object, L runtime.Object] interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions, subresources ...string) (T, error)
	List(ctx context.Context, opts metav1.ListOptions) (L, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// Untyped returns c, a client of client-go's package dynamic or metadata, as a
// Client: for any kind without its Go type, or for the metadata alone:
//
//	informer.For(informer.Untyped(dynamicClient.Resource(gvr)), nil)
//	informer.For(informer.Untyped(metadataClient.Resource(gvr)), nil)
func Untyped[T Object, L runtime.Object](c untypedClient[T, L]) Client[T, L] {
	return untyped[T, L]{c}
}

type untyped[T Object, L runtime.Object] struct{ untypedClient[T, L] }

// Get reads the object itself.
func (u untyped[T, L]) Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error) {
	return u.untypedClient.Get(ctx, name, opts)
}

// IsWatchListSemanticsUnSupported tells what is below.
func (u untyped[T, L]) IsWatchListSemanticsUnSupported() bool { return isFake(u.untypedClient) }

func (u untyped[T, L]) below() any { return u.untypedClient }

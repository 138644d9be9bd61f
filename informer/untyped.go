package informer

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// An UntypedClient is a Client whose Get knows subresources: those of client-go's
// packages dynamic and metadata.
type UntypedClient[T Object, L runtime.Object] interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions, subresources ...string) (T, error)
	List(ctx context.Context, opts metav1.ListOptions) (L, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// Untyped returns c as a Client, for any kind without its Go type, or for the
// metadata alone:
//
//	informer.For(informer.Untyped(dynamicClient.Resource(gvr)), nil)
//	informer.For(informer.Untyped(metadataClient.Resource(gvr)), nil)
func Untyped[T Object, L runtime.Object](c UntypedClient[T, L]) Client[T, L] {
	return untyped[T, L]{c}
}

type untyped[T Object, L runtime.Object] struct{ UntypedClient[T, L] }

// Get reads the object itself.
func (u untyped[T, L]) Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error) {
	return u.UntypedClient.Get(ctx, name, opts)
}

// IsWatchListSemanticsUnSupported tells what is below.
func (u untyped[T, L]) IsWatchListSemanticsUnSupported() bool { return isFake(u.UntypedClient) }

func (u untyped[T, L]) below() any { return u.UntypedClient }

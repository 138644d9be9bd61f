package patch

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/clients"
)

// A Client patches objects of one kind in one namespace, or of one
// cluster-scoped kind. Generated, gentype, dynamic, metadata and fake clients
// have this method.
//
// A handwritten client should have a method GetNamespace() string, as generated
// clients do. The server's 404 does not name a namespace. Without GetNamespace,
// this package cannot tell that the 404 is about the object's own namespace. It
// then returns the 404 as an error, and does not take the object for deleted.
//
// Functions of this package do not take a Client. They take a function that
// returns the client of a namespace, and call it with the namespace of the
// object:
//
//	patch.Merge(ctx, clientset.CoreV1().Pods, pod, nil, edit)
//	patch.Merge(ctx, patch.ClusterScoped(clientset.CoreV1().Nodes()), node, nil, edit)
//	patch.Merge(ctx, dynamicClient.Resource(widgets).Namespace, widget, nil, edit)
//
// If the compiler says "cannot infer C and T", the argument is not such a
// function. For example, clientset.CoreV1().Nodes takes no namespace: wrap the
// client in [ClusterScoped]. If it says "wrong type for method Create" (or Get,
// or Delete) of a dynamic client, wrap the client in [Dynamic], and a metadata
// client in [Metadata].
type Client[T informer.Object] interface {
	Patch(
		ctx context.Context, name string, pt types.PatchType, data []byte,
		opts metav1.PatchOptions, subresources ...string,
	) (T, error)
}

// A CreateClient creates, reads and patches objects of one kind, for [Ensure].
// Generated, gentype and fake clients implement it; [Dynamic] adapts a dynamic
// client.
type CreateClient[T informer.Object] interface {
	Client[T]
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
	Create(ctx context.Context, obj T, opts metav1.CreateOptions) (T, error)
}

// applyClient is a client that applies configurations of type C to objects of
// type T.
type applyClient[C any, T informer.Object] interface {
	Apply(ctx context.Context, config C, opts metav1.ApplyOptions) (T, error)
}

// statusClient is a generated client of a kind with a status.
type statusClient[C, T any] interface {
	ApplyStatus(ctx context.Context, config C, opts metav1.ApplyOptions) (T, error)
}

// Clients that can read.
type (
	// getter is implemented by generated clients.
	getter[T any] interface {
		Get(ctx context.Context, name string, o metav1.GetOptions) (T, error)
	}
	// untypedGetter is implemented by dynamic clients and by metadata
	// clients.
	untypedGetter[T any] interface {
		Get(ctx context.Context, name string, o metav1.GetOptions, subresources ...string) (T, error)
	}
)

// ClusterScoped adapts the client of a cluster-scoped kind. The returned
// function returns no client for a namespace, so a write of a namespaced object
// is refused.
func ClusterScoped[C any](client C) func(namespace string) C {
	return func(namespace string) C {
		if namespace != "" {
			var zero C
			return zero
		}
		return client
	}
}

// Dynamic adapts a dynamic client to every function of this package:
//
//	patch.Ensure(ctx, patch.Dynamic(client.Resource(widgets)), widget, nil, edit)
//
// For [Merge] and [Status], client.Resource(widgets).Namespace is enough.
//
// The type of the result is not exported. It has the methods that the functions
// of this package ask for.
func Dynamic(client dynamic.NamespaceableResourceInterface) func(namespace string) dynamicClient {
	return func(namespace string) dynamicClient { return dynamicClient{client.Namespace(namespace)} }
}

// Metadata adapts a metadata client to [Delete]. For [Merge],
// client.Resource(widgets).Namespace is enough. As with [Dynamic], the type of
// the result is not exported.
func Metadata(client metadata.Getter) func(namespace string) metadataClient {
	return func(namespace string) metadataClient { return metadataClient{client.Namespace(namespace)} }
}

var (
	_ CreateClient[*unstructured.Unstructured]                             = dynamicClient{}
	_ applyClient[*unstructured.Unstructured, *unstructured.Unstructured]  = dynamicClient{}
	_ statusClient[*unstructured.Unstructured, *unstructured.Unstructured] = dynamicClient{}
	_ Client[*metav1.PartialObjectMetadata]                                = metadataClient{}

	_ getter[*unstructured.Unstructured]           = dynamicClient{}
	_ untypedGetter[*unstructured.Unstructured]    = dynamic.ResourceInterface(nil)
	_ untypedGetter[*metav1.PartialObjectMetadata] = metadata.ResourceInterface(nil)
)

// dynamicClient is a dynamic client with the methods of a generated one.
type dynamicClient struct{ dynamic.ResourceInterface }

// Wrapped implements [clients.Wrapper]. The dynamic client that it returns shows
// its server and its namespace.
func (d dynamicClient) Wrapped() clients.Inner { return clients.Inner{Client: d.ResourceInterface} }

func (d dynamicClient) Get(ctx context.Context, name string, o metav1.GetOptions) (*unstructured.Unstructured, error) {
	return d.ResourceInterface.Get(ctx, name, o)
}

func (d dynamicClient) Create(
	ctx context.Context, obj *unstructured.Unstructured, o metav1.CreateOptions,
) (*unstructured.Unstructured, error) {
	return d.ResourceInterface.Create(ctx, obj, o)
}

func (d dynamicClient) Delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	return d.ResourceInterface.Delete(ctx, name, o)
}

func (d dynamicClient) Apply(
	ctx context.Context, config *unstructured.Unstructured, o metav1.ApplyOptions,
) (*unstructured.Unstructured, error) {
	return d.ResourceInterface.Apply(ctx, config.GetName(), config, o)
}

func (d dynamicClient) ApplyStatus(
	ctx context.Context, config *unstructured.Unstructured, o metav1.ApplyOptions,
) (*unstructured.Unstructured, error) {
	return d.ResourceInterface.ApplyStatus(ctx, config.GetName(), config, o)
}

// metadataClient is a metadata client with the Delete of a generated one.
type metadataClient struct{ metadata.ResourceInterface }

func (m metadataClient) Delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	return m.ResourceInterface.Delete(ctx, name, o)
}

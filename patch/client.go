package patch

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A Client patches objects of one kind in one namespace, or of one cluster-scoped
// kind. Generated, gentype, dynamic, metadata and fake clients have this method.
//
// Functions of this package take no Client but the function that returns that of
// a namespace, and call it with the namespace of the object:
//
//	patch.Merge(ctx, clientset.CoreV1().Pods, pod, nil, edit)
//	patch.Merge(ctx, patch.Cluster(clientset.CoreV1().Nodes()), node, nil, edit)
//	patch.Merge(ctx, dynamicClient.Resource(widgets).Namespace, widget, nil, edit)
type Client[T Object] interface {
	Patch(
		ctx context.Context, name string, pt types.PatchType, data []byte,
		opts metav1.PatchOptions, subresources ...string,
	) (T, error)
}

// A CreateClient creates, reads and patches objects of one kind. Generated,
// gentype and fake clients are one; [Dynamic] makes one of a dynamic client.
type CreateClient[T Object] interface {
	Client[T]
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
	Create(ctx context.Context, obj T, opts metav1.CreateOptions) (T, error)
}

// A DeleteClient deletes objects of one kind. Generated, gentype and fake clients
// are one; [Dynamic] and [Metadata] make one of those clients.
type DeleteClient interface {
	Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
}

// An ApplyClient applies configurations of type C to objects of type T. Generated,
// gentype and fake clients are one; [Dynamic] makes one of a dynamic client.
type ApplyClient[C any, T Object] interface {
	Apply(ctx context.Context, config C, opts metav1.ApplyOptions) (T, error)
}

// Cluster makes the client of a cluster-scoped kind usable here. The function
// that it returns has no client for a namespace: objects that are in one are
// refused.
func Cluster[C any](client C) func(namespace string) C {
	return func(namespace string) C {
		if namespace != "" {
			var none C
			return none
		}
		return client
	}
}

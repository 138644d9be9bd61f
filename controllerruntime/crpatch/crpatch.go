package crpatch

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Of adapts a client of controller-runtime to package patch, for one kind:
//
//	patch.Merge(ctx, crpatch.Of[corev1.Pod](mgr.GetClient(), mgr.GetAPIReader()), pod, nil, edit)
//
// Writes go through c. live must read from the API server and not from the
// cache. Package patch reads an object to find out how the server's object
// differs from the cached one, for example after the server has refused a
// patch.
func Of[T any, P object[T]](c client.Client, live client.Reader) func(namespace string) Client[T, P] {
	return func(namespace string) Client[T, P] { return Client[T, P]{c, live, namespace} }
}

// object is *T, the Go type of a kind. For unstructured objects there is
// patch.Dynamic.
type object[T any] interface {
	*T
	client.Object
}

// Client has the methods of a generated client that package patch calls.
type Client[T any, P object[T]] struct {
	client    client.Client
	live      client.Reader
	namespace string
}

// GetNamespace returns the namespace of the client, as generated clients do.
func (c Client[T, P]) GetNamespace() string { return c.namespace }

// Get reads an object from the API server.
func (c Client[T, P]) Get(ctx context.Context, name string, _ metav1.GetOptions) (P, error) {
	obj := P(new(T))
	return obj, c.live.Get(ctx, types.NamespacedName{Namespace: c.namespace, Name: name}, obj)
}

// Create creates obj, writes the server's answer into obj, and returns obj.
func (c Client[T, P]) Create(ctx context.Context, obj P, o metav1.CreateOptions) (P, error) {
	return obj, c.client.Create(ctx, obj, &client.CreateOptions{FieldManager: o.FieldManager, DryRun: o.DryRun})
}

// Patch sends the patch, including its preconditions, without changes.
func (c Client[T, P]) Patch(
	ctx context.Context, name string, pt types.PatchType, data []byte, o metav1.PatchOptions, subresources ...string,
) (P, error) {
	obj, raw := c.named(name), client.RawPatch(pt, data)
	options := client.PatchOptions{FieldManager: o.FieldManager, DryRun: o.DryRun}
	if len(subresources) > 0 { // at most one
		sub := c.client.SubResource(subresources[0])
		return obj, sub.Patch(ctx, obj, raw, &client.SubResourcePatchOptions{PatchOptions: options})
	}
	return obj, c.client.Patch(ctx, obj, raw, &options)
}

// Delete deletes an object if the preconditions in o hold.
func (c Client[T, P]) Delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	return c.client.Delete(ctx, c.named(name), &client.DeleteOptions{
		Preconditions: o.Preconditions, PropagationPolicy: o.PropagationPolicy, DryRun: o.DryRun,
	})
}

func (c Client[T, P]) named(name string) P {
	obj := P(new(T))
	obj.SetNamespace(c.namespace)
	obj.SetName(name)
	return obj
}

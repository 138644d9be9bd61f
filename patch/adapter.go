package patch

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
)

// Dynamic makes a dynamic client usable with every function of this package:
//
//	patch.Ensure(ctx, patch.Dynamic(client.Resource(widgets)), widget, nil, edit)
//
// For edits of what exists, client.Resource(widgets).Namespace is enough.
func Dynamic(client dynamic.NamespaceableResourceInterface) func(namespace string) dynamicClient {
	return func(namespace string) dynamicClient { return dynamicClient{client.Namespace(namespace)} }
}

// Metadata makes a metadata client usable with [Delete] as well. For edits,
// client.Resource(widgets).Namespace is enough.
func Metadata(client metadata.Getter) func(namespace string) metadataClient {
	return func(namespace string) metadataClient { return metadataClient{client.Namespace(namespace)} }
}

var (
	_ CreateClient[*unstructured.Unstructured]                            = dynamicClient{}
	_ DeleteClient                                                        = dynamicClient{}
	_ ApplyClient[*unstructured.Unstructured, *unstructured.Unstructured] = dynamicClient{}
	_ Client[*metav1.PartialObjectMetadata]                               = metadataClient{}
	_ DeleteClient                                                        = metadataClient{}
)

// dynamicClient is a dynamic client with the methods of a generated one.
type dynamicClient struct{ dynamic.ResourceInterface }

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

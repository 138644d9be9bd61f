package patch

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
)

// Dynamic is a dynamic client with the methods of a generated one, for [Ensure]
// and [Delete]. The other functions take the dynamic client itself.
type Dynamic struct{ dynamic.ResourceInterface }

var (
	_ CreateClient[*unstructured.Unstructured] = Dynamic{}
	_ DeleteClient                             = Dynamic{}
	_ DeleteClient                             = Metadata{}
)

// Get reads the object.
func (d Dynamic) Get(ctx context.Context, name string, o metav1.GetOptions) (*unstructured.Unstructured, error) {
	return d.ResourceInterface.Get(ctx, name, o)
}

// Create creates the object.
func (d Dynamic) Create(
	ctx context.Context, obj *unstructured.Unstructured, o metav1.CreateOptions,
) (*unstructured.Unstructured, error) {
	return d.ResourceInterface.Create(ctx, obj, o)
}

// Delete deletes the object.
func (d Dynamic) Delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	return d.ResourceInterface.Delete(ctx, name, o)
}

// Metadata is a metadata client with the methods of a generated one, for
// [Delete]. The other functions take the metadata client itself.
type Metadata struct{ metadata.ResourceInterface }

// Delete deletes the object.
func (m Metadata) Delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	return m.ResourceInterface.Delete(ctx, name, o)
}

package patch_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"

	"github.com/homeostat/homeostat/patch"
)

// Functions of this package take what returns the client of a namespace, such
// as clientset.CoreV1().Pods. A kind without namespaces has one client.
func ExampleClusterScoped() {
	nodes := fake.NewClientset(exampleNode()).CoreV1().Nodes()
	got, err := patch.Merge(context.Background(), patch.ClusterScoped(nodes), exampleNode(), nil, func(n *corev1.Node) {
		n.Labels["zone"] = "b"
	})
	fmt.Println(got.Labels["zone"], err)
	// Output: b <nil>
}

// A kind without Go types.
func ExampleDynamic() {
	widgets := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{widgets: "WidgetList"})
	widget := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget",
		"metadata": map[string]any{"namespace": "shop", "name": "red"},
	}}
	got, err := patch.Ensure(context.Background(), patch.Dynamic(client.Resource(widgets)), widget, nil,
		func(w *unstructured.Unstructured) {
			w.Object["spec"] = map[string]any{"size": int64(3)}
		})
	fmt.Println(got.Object["spec"], err)
	// Output: map[size:3] <nil>
}

// A cache of metadata alone is enough to delete.
func ExampleMetadata() {
	secrets := schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		fmt.Println(err)
		return
	}
	cached := &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "old", UID: "1f"},
	}
	client := metadatafake.NewSimpleMetadataClient(scheme, cached)
	fmt.Println(patch.Delete(context.Background(), patch.Metadata(client.Resource(secrets)), cached, nil))
	for _, action := range client.Actions() {
		fmt.Println(action.GetVerb(), action.GetNamespace())
	}
	// Output:
	// <nil>
	// delete shop
}

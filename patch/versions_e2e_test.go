//go:build e2e

package patch_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/homeostat/homeostat/patch"
)

// plantDefinition has two versions and no conversion webhook. Only the newer
// version has a color.
const plantDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: plants.example.com
spec:
  group: example.com
  scope: Namespaced
  names: {plural: plants, singular: plant, kind: Plant}
  versions:
  - name: v1beta1
    served: true
    storage: false
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}}
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {
      size: {type: integer}, color: {type: string}}}}}}
`

// docs/patching.md says which version a program should write.
var _ = Describe("A kind with two versions and no conversion webhook", func() {
	DescribeTable("keeps the fields of the newer version only in writes of that version",
		func(ctx SpecContext, version, color string) {
			Expect(server.Apply(ctx, plantDefinition)).To(Succeed())
			plants := func(version string) schema.GroupVersionResource {
				return schema.GroupVersionResource{Group: "example.com", Version: version, Resource: "plants"}
			}
			newer, client := untypedClient.Resource(plants("v1")).Namespace(space), untypedClient.Resource(plants(version))
			_, err := newer.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "example.com/v1", "kind": "Plant", "metadata": map[string]any{"name": version},
				"spec": map[string]any{"size": int64(1), "color": "red"},
			}}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			cached, err := client.Namespace(space).Get(ctx, version, metav1.GetOptions{})
			Expect(err).NotTo(HaveOccurred())
			_, err = patch.Merge(ctx, client.Namespace, cached, nil, func(u *unstructured.Unstructured) {
				u.SetLabels(map[string]string{"a": "b"})
			})
			Expect(err).NotTo(HaveOccurred())
			after, err := newer.Get(ctx, version, metav1.GetOptions{})
			Expect(err).NotTo(HaveOccurred())
			stored, _, err := unstructured.NestedString(after.Object, "spec", "color")
			Expect(err).NotTo(HaveOccurred())
			Expect(stored).To(Equal(color))
		},
		Entry("in the version that is stored", "v1", "red"),
		Entry("in the older version, the server drops them", "v1beta1", ""),
	)
})

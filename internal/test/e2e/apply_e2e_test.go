//go:build e2e

package e2e_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

const boatDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: boats.harbour.example
spec:
  group: harbour.example
  names: {kind: Boat, plural: boats, singular: boat}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              masts: {type: integer, minimum: 1}
`

const boat = `
---
apiVersion: harbour.example/v1
kind: Boat
metadata: {name: sloop}
spec: {masts: 1}
---
# Nothing in this document.
---
apiVersion: v1
kind: ConfigMap
metadata: {name: chart, namespace: kube-public}
data: {depth: "7"}
`

var _ = Describe("Apply", func() {
	It("applies a definition and its objects in one go, and again", func(ctx SpecContext) {
		Expect(cluster.Apply(ctx, boatDefinition+boat)).To(Succeed())
		Expect(cluster.Apply(ctx, boatDefinition, boat)).To(Succeed())

		d, err := dynamic.NewForConfig(cluster.Config())
		Expect(err).NotTo(HaveOccurred())
		boats := schema.GroupVersionResource{Group: "harbour.example", Version: "v1", Resource: "boats"}
		sloop, err := d.Resource(boats).Namespace("default").Get(ctx, "sloop", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(sloop.Object["spec"]).To(Equal(map[string]any{"masts": int64(1)}))
		chart, err := client.CoreV1().ConfigMaps("kube-public").Get(ctx, "chart", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(chart.Data).To(HaveKeyWithValue("depth", "7"))
	})

	It("names the object that the server refuses", func(ctx SpecContext) {
		Expect(cluster.Apply(ctx, boatDefinition)).To(Succeed())
		raft := "{apiVersion: harbour.example/v1, kind: Boat, metadata: {name: raft}, spec: {masts: 0}}"
		err := cluster.Apply(ctx, raft)
		Expect(err).To(MatchError(And(
			HavePrefix(`applying Boat "raft": `), ContainSubstring("should be greater than or equal to 1"))))
	})

	It("names the kind that the server does not know", func(ctx SpecContext) {
		err := cluster.Apply(ctx, "{apiVersion: harbour.example/v1, kind: Ghost, metadata: {name: dutchman}}")
		Expect(err).To(MatchError(And(
			HavePrefix(`applying Ghost "dutchman": `), ContainSubstring("no matches for kind"))))
	})
})

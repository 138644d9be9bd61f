package patch_test

import (
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/patch"
)

var _ = Describe("Edits of the metadata alone", func() {
	var nodes *recording[*corev1.Node]
	var widgets *recording[*widget]
	var owners []metav1.OwnerReference

	BeforeEach(func() {
		nodes = &recording[*corev1.Node]{answer: node()}
		widgets = &recording[*widget]{answer: gadget()}
		owners = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "a", UID: "1"}}
	})

	It("sends the labels that changed", func(ctx SpecContext) {
		cached := node()
		_, err := patch.Labels(ctx, always(nodes), cached, nil, func(l map[string]string) {
			delete(l, "zone")
			l["new"] = "\"quoted\""
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(cached).To(Equal(node()))
		Expect(nodes.requests[0].body).To(MatchJSON(
			`{"metadata":{"uid":"u1","labels":{"new":"\"quoted\"","zone":null}}}`))
	})

	It("gives the edit a map where the object has none", func(ctx SpecContext) {
		_, err := patch.Annotations(ctx, always(widgets), &widget{ObjectMeta: metav1.ObjectMeta{Name: "w"}}, nil,
			func(a map[string]string) { a["k"] = "v" })
		Expect(err).NotTo(HaveOccurred())
		Expect(widgets.requests[0].body).To(MatchJSON(`{"metadata":{"annotations":{"k":"v"}}}`))
		Expect(widgets.requests[0].pt).To(Equal(types.MergePatchType))
	})

	It("does not let a key pass for a directive", func(ctx SpecContext) {
		_, err := patch.Annotations(ctx, always(nodes), node(), nil, func(a map[string]string) { a["$patch"] = "replace" })
		Expect(err).NotTo(HaveOccurred())
		Expect(nodes.requests[0].pt).To(Equal(types.MergePatchType))
		Expect(nodes.requests[0].body).To(MatchJSON(`{"metadata":{"uid":"u1","annotations":{"$patch":"replace"}}}`))
	})

	It("sends nothing when nothing changed", func(ctx SpecContext) {
		cached := node()
		cached.OwnerReferences = owners
		cached.Finalizers = []string{"f"}
		for _, edit := range []func() (*corev1.Node, error){
			func() (*corev1.Node, error) {
				return patch.Labels(ctx, always(nodes), cached, nil, func(l map[string]string) { l["zone"] = "a" })
			},
			func() (*corev1.Node, error) {
				return patch.Annotations(ctx, always(nodes), cached, nil, func(map[string]string) {})
			},
			func() (*corev1.Node, error) {
				return patch.Finalizers(ctx, always(nodes), cached, nil, func(f []string) []string { return f })
			},
			func() (*corev1.Node, error) {
				return patch.OwnerReferences(ctx, always(nodes), cached, nil,
					func(r []metav1.OwnerReference) []metav1.OwnerReference { return r })
			},
		} {
			Expect(edit()).To(BeIdenticalTo(cached))
		}
		Expect(nodes.requests).To(BeEmpty())
	})

	It("adds and removes one finalizer of a built-in kind and leaves the others to their owners", func(ctx SpecContext) {
		cached := node()
		cached.Finalizers = []string{"theirs", "mine"}
		_, err := patch.Finalizers(ctx, always(nodes), cached, nil, func(f []string) []string {
			return slices.DeleteFunc(f, func(s string) bool { return s == "mine" })
		})
		Expect(err).NotTo(HaveOccurred())
		_, err = patch.Finalizers(ctx, always(nodes), cached, nil, func(f []string) []string { return append(f, "new") })
		Expect(err).NotTo(HaveOccurred())
		Expect(cached.Finalizers).To(Equal([]string{"theirs", "mine"}))
		Expect(nodes.requests[0].body).To(MatchJSON(`{"metadata":{"uid":"u1","$deleteFromPrimitiveList/finalizers":["mine"]}}`))
		Expect(nodes.requests[1].body).To(MatchJSON(
			`{"metadata":{"uid":"u1","finalizers":["new"],"$setElementOrder/finalizers":["theirs","mine","new"]}}`))
	})

	It("removes the last finalizer by name, so that one just added by others stays", func(ctx SpecContext) {
		cached := node()
		cached.Finalizers = []string{"mine"}
		_, err := patch.Finalizers(ctx, always(nodes), cached, nil, func([]string) []string { return nil })
		Expect(err).NotTo(HaveOccurred())
		Expect(nodes.requests[0].body).To(MatchJSON(`{"metadata":{"uid":"u1","$deleteFromPrimitiveList/finalizers":["mine"]}}`))
	})

	It("locks the list of a custom kind, which is replaced as a whole", func(ctx SpecContext) {
		_, err := patch.Finalizers(ctx, always(widgets), gadget(), nil, func(f []string) []string { return append(f, "new") })
		Expect(err).NotTo(HaveOccurred())
		Expect(widgets.requests[0].body).To(MatchJSON(`{"metadata":{"resourceVersion":"3","uid":"u2","finalizers":["old","new"]}}`))
	})

	It("merges owner references by UID", func(ctx SpecContext) {
		cached := node()
		cached.OwnerReferences = owners
		_, err := patch.OwnerReferences(ctx, always(nodes), cached, nil,
			func(r []metav1.OwnerReference) []metav1.OwnerReference {
				r[0].Name = "b"
				return r
			})
		Expect(err).NotTo(HaveOccurred())
		Expect(cached.OwnerReferences[0].Name).To(Equal("a"))
		Expect(nodes.requests[0].body).To(MatchJSON(`{"metadata":{"uid":"u1","ownerReferences":[{"uid":"1","name":"b"}]}}`))
	})

	It("refuses nil arguments, a lock on nothing and the status subresource", func(ctx SpecContext) {
		_, err := patch.Labels(ctx, always(nodes), nil, nil, func(map[string]string) {})
		Expect(err).To(MatchError(ContainSubstring("must not be nil")))
		_, err = patch.Finalizers(ctx, always(nodes), node(), nil, nil)
		Expect(err).To(MatchError(ContainSubstring("must not be nil")))
		set := func(m map[string]string) { m["k"] = "v" }
		fresh := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
		_, err = patch.Labels(ctx, always(nodes), fresh, &patch.Options{Lock: true}, set)
		Expect(err).To(MatchError(ContainSubstring("no metadata.resourceVersion")))
		_, err = patch.Labels(ctx, always(nodes), node(), &patch.Options{Subresource: "status"}, set)
		Expect(err).To(MatchError(ContainSubstring("ignores metadata")))
		Expect(nodes.requests).To(BeEmpty())
	})
})

//go:build e2e

package patch_test

import (
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/patch"
)

var _ = Describe("On the real server, what the program does not see", func() {
	It("survives in custom kinds, or the edit is refused", func(ctx SpecContext) {
		namespace, err := server.Namespace(ctx, "hidden")
		Expect(err).NotTo(HaveOccurred())
		w := newHiddenWorld(ctx, GinkgoTB(), server.Config(), namespace)
		w.survives(slices.Concat(hiddenCases, shorthandCases, roundedCases, nullCases))
	})

	It("survives in the tolerations of a Pod, of which a Transform has cleared the seconds", func(ctx SpecContext) {
		hiddenSeconds(ctx, GinkgoTB(), typed, space)
	})

	It("survives in ports of one number", func(ctx SpecContext) { hiddenNodePorts(ctx, GinkgoTB(), typed, space) })

	It("survives in the conditions of another writer", func(ctx SpecContext) {
		w := newHiddenWorld(ctx, GinkgoTB(), server.Config(), space)
		w.store("conditions", "status", `{"conditions":[{"type":"Theirs","status":"True"}]}`)
		cached := w.cached("conditions", nil)
		theirs := `{"status":{"conditions":[{"type":"Theirs","status":"True","severity":"Low"}]}}`
		_, err := w.widgets.dynamic.Namespace(space).Patch(ctx, "conditions", types.MergePatchType, []byte(theirs),
			metav1.PatchOptions{}, "status")
		Expect(err).NotTo(HaveOccurred())
		_, err = patch.Status(ctx, w.widgets.typed, cached, nil, ready)
		Expect(err).To(MatchError(patch.IsStale, "IsStale"))
		_, err = patch.Status(ctx, w.widgets.typed, w.cached("conditions", nil), nil, ready)
		Expect(err).NotTo(HaveOccurred())
		Expect(w.has("conditions", "status")).To(ContainSubstring(`"severity":"Low"`))
	})
})

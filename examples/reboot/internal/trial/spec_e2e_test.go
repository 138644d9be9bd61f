//go:build e2e

package trial_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/homeostat/homeostat/examples/reboot/api"
)

var _ = Describe("the definition of RebootGroup", func() {
	one := intstr.FromInt32(1)
	window := func(w api.Window) api.RebootGroupSpec {
		return api.RebootGroupSpec{MaxUnavailable: one, Windows: []api.Window{w}}
	}
	drain := func(d api.Drain) api.RebootGroupSpec { return api.RebootGroupSpec{MaxUnavailable: one, Drain: d} }

	DescribeTable("refuses",
		func(ctx SpecContext, spec api.RebootGroupSpec, texts ...string) {
			err := createGroup(ctx, "refused", spec)
			for _, text := range texts {
				Expect(err).To(MatchError(ContainSubstring(text)))
			}
		},
		Entry("a start that is no time", window(api.Window{Start: "9:00", End: "10:00"}), "spec.windows[0].start"),
		Entry("an end that is no time", window(api.Window{Start: "09:00", End: "24:00"}), "spec.windows[0].end"),
		Entry("a window without a length", window(api.Window{Start: "09:00", End: "09:00"}), "spec.windows[0]", "start and end must differ"),
		Entry("a day that there is not", window(api.Window{Days: []string{"Monday"}, Start: "09:00", End: "10:00"}), "spec.windows[0].days[0]", "Mon"),
		Entry("a day twice", window(api.Window{Days: []string{"Mon", "Mon"}, Start: "09:00", End: "10:00"}), "spec.windows[0].days[1]", "Duplicate"),
		Entry("an unknown time zone", window(api.Window{Start: "09:00", End: "10:00", TimeZone: "Europe/Bonn"}), "spec.windows[0].timeZone", "Europe/Bonn"),
		Entry("an offset for a time zone", window(api.Window{Start: "09:00", End: "10:00", TimeZone: "+02:00"}), "spec.windows[0].timeZone"),
		Entry("an unknown policy", drain(api.Drain{Policy: "hope"}), "spec.drain.policy", "abort"),
		Entry("a negative timeout", drain(api.Drain{TimeoutSeconds: -1}), "spec.drain.timeoutSeconds"),
		Entry("a negative retry", drain(api.Drain{RetrySeconds: -1}), "spec.drain.retrySeconds"),
		Entry("a selector without a condition", api.RebootGroupSpec{MaxUnavailable: one, NodeSelector: &metav1.LabelSelector{}}, "spec.nodeSelector"),
		Entry("a negative minReadySeconds", api.RebootGroupSpec{MaxUnavailable: one, MinReadySeconds: -1}, "spec.minReadySeconds"),
	)

	// A template makes null of an empty value. The server drops null where a
	// definition does not allow it, and without its condition a selector selects
	// all nodes.
	It("refuses a selector whose label has no value", func(ctx SpecContext) {
		for _, selector := range []string{"{matchLabels: {role: null}}", "{matchLabels: {role: null, a: b}}", "{matchLabels: null}", "{matchExpressions: []}"} {
			Expect(cluster.Apply(ctx, `{apiVersion: reboot.homeostat.dev/v1alpha1, kind: RebootGroup, metadata: {name: lost},
				spec: {maxUnavailable: 1, nodeSelector: `+selector+`}}`)).To(MatchError(ContainSubstring("spec.nodeSelector")), selector)
		}
	})

	It("fills in what was left out", func(ctx SpecContext) {
		Expect(createGroup(ctx, "defaulted", window(api.Window{Days: []string{"Sat"}, Start: "22:00", End: "06:00"}))).To(Succeed())
		g, err := groups.Get(ctx, "defaulted", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(g.Spec.Windows).To(ConsistOf(HaveField("TimeZone", "UTC")))
		Expect(g.Spec.Drain).To(Equal(api.Drain{Policy: "abort", TimeoutSeconds: 600, RetrySeconds: 1800}))
	})

	It("takes the time zones of the IANA database", func(ctx SpecContext) {
		for _, zone := range []string{"Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+5"} {
			Expect(createGroup(ctx, "zone", window(api.Window{Start: "22:00", End: "06:00", TimeZone: zone}))).To(Succeed())
			Expect(groups.Delete(ctx, "zone", metav1.DeleteOptions{})).To(Succeed())
		}
	})
})

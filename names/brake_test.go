package names_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/names"
)

var _ = Describe("The brake", func() {
	var (
		w       *world
		refused []*names.RefusedError
	)

	// orphaned returns a sweep of that many names, of which so many are live.
	orphaned := func(total, live int, o names.Options) *names.Sweep {
		GinkgoHelper()
		refused = nil
		o.Refused = func(e *names.RefusedError) { refused = append(refused, e) }
		w = newWorld()
		w.known = many(total)
		for _, k := range w.known[:live] {
			w.live[k] = uid1
		}
		s, err := names.NewSweep(w, w, &o)
		Expect(err).NotTo(HaveOccurred())
		return s
	}

	DescribeTable("refuses only what exceeds both limits",
		func(ctx SpecContext, total, live int, o names.Options, passes bool) {
			_, err := orphaned(total, live, o).Once(ctx)
			if passes {
				Expect(err).NotTo(HaveOccurred())
				Expect(w.orphans).To(HaveLen(total - live))
				return
			}
			Expect(err).To(BeAssignableToTypeOf(&names.RefusedError{}))
			Expect(w.orphans).To(BeEmpty())
		},
		Entry("10 of 10: not more than the count", 10, 0, names.Options{}, true),
		Entry("11 of 11: more than both", 11, 0, names.Options{}, false),
		Entry("11 of 22: not more than the share", 22, 11, names.Options{}, true),
		Entry("12 of 23: more than both", 23, 11, names.Options{}, false),
		Entry("200 of 1,000", 1000, 800, names.Options{}, true),
		Entry("all of 1,000 with the brake off", 1000, 0, names.Options{MaxShare: 1}, true),
		Entry("4 of 100 with limits of 3 and 3 %", 100, 96, names.Options{MaxCount: 3, MaxShare: 0.03}, false),
	)

	It("names the numbers and the ways out, in the error, the hook, readiness and the count", func(ctx SpecContext) {
		s := orphaned(30, 2, names.Options{})
		_, err := s.Once(ctx)
		Expect(err).To(MatchError(And(
			ContainSubstring("28 of 30 known names are orphans (such as default/name-000002)"),
			ContainSubstring("more than 10 and"),
			ContainSubstring("more than 50 %"), ContainSubstring("Confirm(28)"))))
		Expect(refused).To(Equal([]*names.RefusedError{{
			Orphans: 28, Known: 30, Example: known("default/name-000002", ""), MaxCount: 10, MaxShare: 0.5,
		}}))
		Expect(s.Ready()).To(MatchError(err))
		Expect(s.Stats()).To(And(HaveField("Refusals", Equal(uint64(1))), HaveField("Refused", Equal(28))))
	})

	When("somebody has confirmed the number", func() {
		It("passes once", func(ctx SpecContext) {
			s := orphaned(20, 0, names.Options{})
			_, err := s.Once(ctx)
			Expect(err).To(HaveOccurred())
			Expect(s.Stats().Refused).To(Equal(20))
			s.Confirm(20)
			Expect(s.Once(ctx)).To(Equal(20))
			Expect(s.Stats().Refused).To(BeZero())
			_, err = s.Once(ctx)
			Expect(err).To(HaveOccurred())
		})

		It("does not pass with more than that, nor keeps the confirmation", func(ctx SpecContext) {
			s := orphaned(20, 0, names.Options{Confirmed: 19})
			_, err := s.Once(ctx)
			Expect(err).To(HaveOccurred())
			w.known = w.known[:19]
			_, err = s.Once(ctx)
			Expect(err).To(HaveOccurred())
		})

		It("keeps the confirmation while the lister fails", func(ctx SpecContext) {
			s := orphaned(20, 0, names.Options{Confirmed: 20})
			w.syncErr = context.DeadlineExceeded
			_, err := s.Once(ctx)
			Expect(err).To(HaveOccurred())
			w.syncErr = nil
			Expect(s.Once(ctx)).To(Equal(20))
		})
	})
})

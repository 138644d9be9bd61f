package names_test

import (
	"context"
	"errors"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/names"
)

var _ = Describe("Sweep", func() {
	var w *world

	BeforeEach(func() { w = newWorld("default/a", "default/b") })

	sweepOf := func(l names.Lister, o *names.Options) *names.Sweep {
		GinkgoHelper()
		s, err := names.NewSweep(l, w, o)
		Expect(err).NotTo(HaveOccurred())
		return s
	}

	When("objects were deleted while nobody watched", func() {
		It("hands on their names, sorted and once each", func(ctx SpecContext) {
			w.known = keys("default/z", "default/a", "default/gone", "default/gone", "default/b")
			Expect(sweepOf(w, nil).Once(ctx)).To(Equal(2))
			Expect(w.orphans).To(Equal([]names.Orphan{
				{Name: known("default/gone", "")}, {Name: known("default/z", "")},
			}))
		})

		It("leaves the lister's own slice as it was", func(ctx SpecContext) {
			own := []names.Name{known("default/b", ""), known("default/a", "")}
			s := sweepOf(names.UIDFunc(func(context.Context) ([]names.Name, error) { return own, nil }), nil)
			Expect(s.Once(ctx)).To(BeZero())
			Expect(own).To(Equal([]names.Name{known("default/b", ""), known("default/a", "")}))
		})

		It("is ready and counts", func(ctx SpecContext) {
			w.known = keys("default/a", "default/gone", "other/gone")
			s := sweepOf(w, &names.Options{Namespaces: []string{"default"}})
			Expect(s.Ready()).To(MatchError(names.ErrNotSwept))
			Expect(s.Once(ctx)).To(Equal(1))
			Expect(s.Ready()).To(Succeed())
			stats := s.Stats()
			Expect(stats.LastSuccess.IsZero()).To(BeFalse())
			stats.LastSuccess = names.Stats{}.LastSuccess
			Expect(stats).To(Equal(names.Stats{Sweeps: 1, Orphans: 1, Known: 2, OutOfScope: 1}))
		})
	})

	It("asks for the names first, and then for the cache", func(ctx SpecContext) {
		w.known = keys("default/gone")
		Expect(sweepOf(w, nil).Once(ctx)).To(Equal(1))
		Expect(w.asked).To(Equal([]string{"names", "sync", "find", "orphan"}))
	})

	When("a second replica creates and registers an object meanwhile", func() {
		It("does not take it for an orphan", func(ctx SpecContext) {
			register := names.Func(func(ctx context.Context) ([]types.NamespacedName, error) {
				w.live[key("default/new")] = uid2 // committed, not yet in our cache
				w.known = append(w.known, key("default/new"))
				return w.Names(ctx)
			})
			Expect(sweepOf(register, nil).Once(ctx)).To(BeZero())
			Expect(w.orphans).To(BeEmpty())
		})
	})

	When("the lister fails", func() {
		It("hands on nothing, not even what it returned, and is not ready", func(ctx SpecContext) {
			broken := errors.New("the zone server is away")
			s := sweepOf(names.Func(func(context.Context) ([]types.NamespacedName, error) {
				return keys("default/gone"), broken
			}), nil)
			_, err := s.Once(ctx)
			Expect(err).To(MatchError(broken))
			Expect(w.orphans).To(BeEmpty())
			Expect(w.asked).To(BeEmpty())
			Expect(s.Ready()).To(MatchError(broken))
			Expect(s.Stats()).To(Equal(names.Stats{Failures: 1}))
		})

		It("treats a panic as an error", func(ctx SpecContext) {
			s := sweepOf(names.Func(func(context.Context) ([]types.NamespacedName, error) { panic("no zone") }), nil)
			_, err := s.Once(ctx)
			Expect(err).To(MatchError(ContainSubstring("panic: no zone")))
		})
	})

	It("hands on nothing when no name is known", func(ctx SpecContext) {
		Expect(sweepOf(w, nil).Once(ctx)).To(BeZero())
		Expect(w.orphans).To(BeEmpty())
	})

	When("the cache is not synced", func() {
		It("hands on nothing and says what is missing", func(ctx SpecContext) {
			w.known, w.syncErr = keys("default/gone"), errors.New("services is forbidden")
			s := sweepOf(w, nil)
			_, err := s.Once(ctx)
			Expect(err).To(MatchError(ContainSubstring("waiting for the cache: services is forbidden")))
			Expect(s.Ready()).To(MatchError(w.syncErr))
			Expect(w.asked).To(Equal([]string{"names", "sync"}))
		})
	})

	When("names are out of scope", func() {
		It("leaves them alone", func(ctx SpecContext) {
			w.known = keys("default/mine-gone", "default/theirs-gone", "other/mine-gone")
			s := sweepOf(w, &names.Options{
				Namespaces: []string{"default"},
				Scope:      func(n names.Name) bool { return n.Key.Name[0] == 'm' },
			})
			Expect(s.Once(ctx)).To(Equal(1))
			Expect(w.orphans).To(Equal([]names.Orphan{{Name: known("default/mine-gone", "")}}))
			Expect(s.Stats().OutOfScope).To(Equal(2))
		})
	})

	When("UIDs are known", func() {
		DescribeTable("decides by them",
			func(ctx SpecContext, expected []names.Orphan, all ...names.Name) {
				s := sweepOf(names.UIDFunc(func(context.Context) ([]names.Name, error) { return all, nil }), nil)
				_, err := s.Once(ctx)
				Expect(err).NotTo(HaveOccurred())
				Expect(w.orphans).To(Equal(expected))
			},
			Entry("deleted and recreated while down",
				[]names.Orphan{{Name: known("default/a", uid2), Replaced: true}}, known("default/a", uid2)),
			Entry("the same object", nil, known("default/a", uid1)),
			Entry("no UID is no contradiction", nil, known("default/a", "")),
			Entry("old and new record of one name: the live one counts", nil,
				known("default/a", uid2), known("default/a", uid1)),
			Entry("one record without a UID may be the live one", nil,
				known("default/a", uid2), known("default/a", "")),
			Entry("gone for good",
				[]names.Orphan{{Name: known("default/gone", uid2)}}, known("default/gone", uid2)),
		)

		It("cannot decide against a cache that has none", func(ctx SpecContext) {
			w.live[key("default/a")] = ""
			s := sweepOf(names.UIDFunc(func(context.Context) ([]names.Name, error) {
				return []names.Name{known("default/a", uid2)}, nil
			}), nil)
			Expect(s.Once(ctx)).To(BeZero())
		})
	})

	It("compares 100,000 names", func(ctx SpecContext) {
		w.known = many(100_000)
		for i, k := range w.known {
			if i%100 != 0 {
				w.live[k] = uid1
			}
		}
		Expect(sweepOf(w, nil).Once(ctx)).To(Equal(1000))
		Expect(w.orphans).To(HaveLen(1000))
		Expect(w.orphans[999].Key).To(Equal(w.known[99_900]))
	})
})

var _ = Describe("NewSweep", func() {
	It("names every fault", func() {
		_, err := names.NewSweep(nil, nil, &names.Options{
			Period: -1, Timeout: -1, FirstRetry: 2, MaxRetry: 1, MaxShare: 1.5, MaxCount: -1, Confirmed: -1,
		})
		for _, fault := range []string{
			"lister is nil", "target is nil", "Options.Period is -1ns", "Options.Timeout is -1ns",
			"Options.MaxRetry is 1ns", "Options.MaxShare is 1.5", "Options.MaxCount is -1", "Options.Confirmed is -1",
		} {
			Expect(err).To(MatchError(ContainSubstring(fault)))
		}
	})
})

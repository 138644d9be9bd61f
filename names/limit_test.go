package names_test

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/names"
)

// orphaned returns a fixture that knows total names, the first of which are
// live.
func orphaned(total, live int) *fixture {
	f := newFixture()
	f.known = many(total)
	for _, n := range f.known[:live] {
		f.live[n.Key] = uid1
	}
	return f
}

func TestTheSafetyLimitRefusesOnlyWhatExceedsBothBounds(t *testing.T) {
	for name, c := range map[string]struct {
		total, live int
		o           names.Options
		passes      bool
	}{
		"10 of 11: not more than the count":    {11, 1, names.Options{}, true},
		"3 of 3: all, but few":                 {3, 0, names.Options{}, true},
		"4 of 4: all":                          {4, 0, names.Options{}, false},
		"4 of 4 with a count of 10":            {4, 0, names.Options{MaxCount: 10}, true},
		"4 of 4 with the limit off":            {4, 0, names.Options{MaxShare: 1}, true},
		"11 of 11: more than both":             {11, 0, names.Options{}, false},
		"11 of 22: not more than the share":    {22, 11, names.Options{}, true},
		"12 of 23: more than both":             {23, 11, names.Options{}, false},
		"all of 1,000 with the limit off":      {1000, 0, names.Options{MaxShare: 1}, true},
		"4 of 100 with bounds of 3 and 3 %":    {100, 96, names.Options{MaxCount: 3, MaxShare: 0.03}, false},
		"200 of 1,000, of which a fifth is ok": {1000, 800, names.Options{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			g, f := NewWithT(t), orphaned(c.total, c.live)
			_, err := f.sweep(t, nil, &c.o).Once(t.Context())
			if c.passes {
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(f.orphans).To(HaveLen(c.total - c.live))
				return
			}
			g.Expect(err).To(BeAssignableToTypeOf(&names.RefusedError{}))
			g.Expect(f.orphans).To(BeEmpty())
		})
	}
}

func TestARefusalNamesTheNumbersAndTheWaysOut(t *testing.T) {
	g, f := NewWithT(t), orphaned(30, 2)
	var refused []*names.RefusedError
	s := f.sweep(t, nil, &names.Options{Refused: func(e *names.RefusedError) { refused = append(refused, e) }})
	_, err := s.Once(t.Context())
	g.Expect(err).To(MatchError(And(
		ContainSubstring("28 of 30 known names are orphans (such as default/name-000002)"),
		ContainSubstring("more than 10 and"), ContainSubstring("more than 50 %"), ContainSubstring("Confirm(28)"))))
	g.Expect(refused).To(Equal([]*names.RefusedError{{
		Orphans: 28, Known: 30, Example: known("default/name-000002", ""), MaxCount: 10, MaxShare: 0.5,
	}}))
	g.Expect(s.Ready()).To(MatchError(err))
	g.Expect(s.Stats()).To(And(HaveField("Failures", Equal(uint64(1))), HaveField("Refusals", Equal(uint64(1))),
		HaveField("Refused", Equal(28)), HaveField("Known", Equal(30))))
	refused[0].Advice = "use --force"
	g.Expect(err).To(MatchError(HaveSuffix("nothing is cleaned; use --force")))
	s.Confirm(28)
	g.Expect(s.Once(t.Context())).To(Equal(28))
	g.Expect(s.Stats().Refused).To(BeZero())
}

func TestAShareIsNamedInPercentWithTwoPlaces(t *testing.T) {
	f := orphaned(30, 0)
	_, err := f.sweep(t, nil, &names.Options{MaxShare: 0.12345}).Once(t.Context())
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("more than 12.35 %")))
}

// A confirmation applies to one sweep, and not to more than its number.
func TestAConfirmationExpiresWithTheSweepThatMeetsIt(t *testing.T) {
	g, f := NewWithT(t), orphaned(20, 0)
	s := f.sweep(t, nil, &names.Options{Confirmed: 19})
	_, err := s.Once(t.Context())
	g.Expect(err).To(HaveOccurred())
	f.known = f.known[:19]
	_, err = s.Once(t.Context())
	g.Expect(err).To(HaveOccurred())
}

func TestAConfirmationExpiresWithASweepThatListsNothing(t *testing.T) {
	g, f := NewWithT(t), orphaned(20, 0)
	s := f.sweep(t, nil, nil)
	all := f.known
	f.known = nil
	s.Confirm(20)
	g.Expect(s.Once(t.Context())).To(BeZero())
	f.known = all
	_, err := s.Once(t.Context())
	g.Expect(err).To(HaveOccurred())
	g.Expect(f.orphans).To(BeEmpty())
}

func TestAConfirmationStaysWhileASweepSeesNoNames(t *testing.T) {
	for name, fail := range map[string]func(f *fixture) (again func()){
		"the cache does not sync": func(f *fixture) func() {
			f.syncErr = context.DeadlineExceeded
			return func() { f.syncErr = nil }
		},
		"no name is in scope": func(f *fixture) func() {
			all := f.known
			f.known = listing("other/a")
			return func() { f.known = all }
		},
	} {
		t.Run(name, func(t *testing.T) {
			g, f := NewWithT(t), orphaned(20, 0)
			s := f.sweep(t, nil, &names.Options{Confirmed: 20, Namespaces: []string{"default"}})
			again := fail(f)
			g.Expect(s.Once(t.Context())).Error().To(Or(BeNil(), MatchError(context.DeadlineExceeded)))
			g.Expect(f.orphans).To(BeEmpty())
			again()
			g.Expect(s.Once(t.Context())).To(Equal(20))
		})
	}
}

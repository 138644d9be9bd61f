package names_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/names"
)

func TestNamesOfDeletedObjectsAreEnqueuedInOrderAndOnceEach(t *testing.T) {
	g, f := NewWithT(t), newFixture("default/a", "default/b")
	f.known = listing("other/a", "default/z", "default/a", "default/gone", "default/gone", "default/b")
	before := slices.Clone(f.known)
	g.Expect(f.sweep(t, nil, nil).Once(t.Context())).To(Equal(3))
	g.Expect(f.orphans).To(Equal([]names.Orphan{
		{Name: known("default/gone", "")}, {Name: known("default/z", "")}, {Name: known("other/a", "")},
	}))
	g.Expect(f.known).To(Equal(before), "the lister's slice stays as it was")
}

func TestASweepCountsAndTellsWhenItSucceeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, f := NewWithT(t), newFixture("default/a")
		f.known = listing("default/a", "default/gone", "other/gone")
		s := f.sweep(t, nil, &names.Options{Namespaces: []string{"default"}})
		g.Expect(s.Ready()).To(MatchError(names.ErrNotSwept))
		g.Expect(s.Once(t.Context())).To(Equal(1))
		g.Expect(s.Ready()).To(Succeed())
		g.Expect(s.Stats()).To(Equal(names.Stats{Sweeps: 1, Orphans: 1, Known: 2, OutOfScope: 1, LastSuccess: time.Now()}))
		g.Expect(s.Once(t.Context())).To(Equal(1))
		g.Expect(s.Stats().Orphans).To(Equal(uint64(2)), "counted again in every sweep")
	})
}

func TestAFailedSweepEnqueuesNothingAndSaysWhy(t *testing.T) {
	broken := errors.New("the zone server is away")
	for want, c := range map[string]struct {
		lister  names.Lister
		options names.Options
		syncErr error
		asked   []string
	}{
		"listing names: the zone server is away":         {lister: returning(listing("default/gone"), broken)},
		"listing names: panic: no zone":                  {lister: names.Func(func(context.Context) ([]names.Name, error) { panic("no zone") })},
		"waiting for the cache: the zone server is away": {syncErr: broken, asked: []string{"names", "sync"}},
		`names.Options.Scope for the name "default/gone": no scope`: {
			options: names.Options{Scope: func(names.Name) bool { panic("no scope") }}, asked: []string{"names", "sync"},
		},
	} {
		t.Run(want, func(t *testing.T) {
			g, f := NewWithT(t), newFixture()
			f.known, f.syncErr = listing("default/gone"), c.syncErr
			s := f.sweep(t, c.lister, &c.options)
			_, err := s.Once(t.Context())
			g.Expect(err).To(MatchError(ContainSubstring(want)))
			g.Expect(f.orphans).To(BeEmpty())
			g.Expect(f.asked).To(Equal(c.asked))
			g.Expect(s.Ready()).To(MatchError(err))
			g.Expect(s.Stats()).To(Equal(names.Stats{Failures: 1}))
		})
	}
}

func TestNamesOutOfScopeAreLeftAlone(t *testing.T) {
	g, f := NewWithT(t), newFixture()
	f.known = listing("default/mine-gone", "default/theirs-gone", "other/mine-gone")
	s := f.sweep(t, nil, &names.Options{
		Namespaces: []string{"default"},
		Scope:      func(n names.Name) bool { return n.Key.Name[0] == 'm' },
	})
	g.Expect(s.Once(t.Context())).To(Equal(1))
	g.Expect(f.orphans).To(Equal([]names.Orphan{{Name: known("default/mine-gone", "")}}))
	g.Expect(s.Stats().OutOfScope).To(Equal(2))
}

func TestAUIDDecidesWhetherTheObjectWasRecreated(t *testing.T) {
	for name, c := range map[string]struct {
		cached  types.UID
		all     []names.Name
		orphans []names.Orphan
	}{
		"recreated":                {uid1, []names.Name{known("default/a", uid2)}, []names.Orphan{{Name: known("default/a", uid2), Replaced: true}}},
		"the same object":          {uid1, []names.Name{known("default/a", uid1)}, nil},
		"no UID in the system":     {uid1, []names.Name{known("default/a", "")}, nil},
		"no UID in the cache":      {"", []names.Name{known("default/a", uid2)}, nil},
		"an old and a new record":  {uid1, []names.Name{known("default/a", uid2), known("default/a", uid1)}, nil},
		"a record without a UID":   {uid1, []names.Name{known("default/a", uid2), known("default/a", "")}, nil},
		"deleted, with two values": {uid1, []names.Name{known("default/b", uid2), known("default/b", uid1)}, []names.Orphan{{Name: known("default/b", uid2)}}},
	} {
		t.Run(name, func(t *testing.T) {
			g, f := NewWithT(t), newFixture()
			f.live[key("default/a")] = c.cached
			g.Expect(f.sweep(t, returning(c.all, nil), nil).Once(t.Context())).To(Equal(len(c.orphans)))
			g.Expect(f.orphans).To(Equal(c.orphans))
		})
	}
}

func TestASweepComparesManyNames(t *testing.T) {
	g, f := NewWithT(t), newFixture()
	f.known = many(100_000)
	for i, n := range f.known {
		if i%100 != 0 {
			f.live[n.Key] = uid1
		}
	}
	g.Expect(f.sweep(t, nil, nil).Once(t.Context())).To(Equal(1000))
	g.Expect(f.orphans).To(HaveLen(1000))
	g.Expect(f.orphans[999].Key).To(Equal(f.known[99_900].Key))
}

func TestNewSweepNamesEveryWrongArgument(t *testing.T) {
	g := NewWithT(t)
	_, err := names.NewSweep(nil, nil, &names.Options{
		Period: -1, Timeout: -1, BackoffBase: 2, BackoffCap: 1, MaxShare: 1.5, MaxCount: -1, Confirmed: -1,
	})
	g.Expect(err).To(MatchError("making a sweep: " +
		"names.Options.Period is -1ns: must be more than 0\n" +
		"names.Options.Timeout is -1ns: must be more than 0\n" +
		"names.Options.BackoffCap is 1ns: must be at least BackoffBase, 2ns\n" +
		"names.Options.MaxShare is 1.5: must be more than 0 and at most 1\n" +
		"names.Options.MaxCount is -1: must not be negative\n" +
		"names.Options.Confirmed is -1: must not be negative\n" +
		"lister is nil: use Objects, Func or Union\n" +
		"target is nil"))
	_, err = names.NewSweep(nil, nil, &names.Options{BackoffBase: -1, BackoffCap: -2})
	g.Expect(err).To(MatchError("making a sweep: " +
		"names.Options.BackoffBase is -1ns: must be more than 0\n" +
		"names.Options.BackoffCap is -2ns: must be more than 0\n" +
		"lister is nil: use Objects, Func or Union\n" +
		"target is nil"))
}

// A program may split an environment variable at its commas. Such a list cleaned
// up nothing, or not all, without a word.
func TestNamespacesThatCannotExistAreRefused(t *testing.T) {
	for _, list := range [][]string{{""}, {"a", "b", ""}, {"a", " b"}, {"a,b"}, {"*"}} {
		g := NewWithT(t)
		_, err := names.NewSweep(names.Func(func(context.Context) ([]names.Name, error) { return nil, nil }), newFixture(),
			&names.Options{Namespaces: list})
		last := len(list) - 1
		g.Expect(err).To(MatchError(ContainSubstring("names.Options.Namespaces[%d] is %q: ", last, list[last])))
	}
}

func TestNilFunctionsAndListersAreRefused(t *testing.T) {
	for name, lister := range map[string]names.Lister{
		"a nil function":   names.Func(nil),
		"a nil in a union": names.Union(names.Func(func(context.Context) ([]names.Name, error) { return nil, nil }), nil),
		"a nil marker":     names.Objects[*corev1.Pod](cached{}, nil),
		"a nil cache":      names.Objects[*corev1.Pod, pods](nil, func(*corev1.Pod) (names.Name, bool) { return names.Name{}, false }),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := names.NewSweep(lister, newFixture(), nil)
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring("lister is nil")))
		})
	}
	_, err := names.NewSweep(names.Func(nil), (*fixture)(nil), nil)
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("target is nil")))
}

// cached is a cache of Pods.
type cached struct{}

func (cached) WaitForSync(context.Context) error { return nil }
func (cached) Snapshot() pods                    { return nil }

type pods []*corev1.Pod

func (p pods) All() iter.Seq[*corev1.Pod] { return slices.Values(p) }

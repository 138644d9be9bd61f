package partial_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/informer/internal/partial"
	"github.com/homeostat/homeostat/internal/keyspace"
)

// only is the shard of one namespace.
func only(namespace string) keyspace.Set {
	of := keyspace.Of(namespace)
	return keyspace.Set{{First: of, Last: of}}
}

func TestACoverKeepsNothingAtFirst(t *testing.T) {
	g := NewWithT(t)
	var c partial.Cover
	g.Expect(c.Wanted()).To(BeEmpty())
	g.Expect(c.Complete()).To(BeEmpty())
	g.Expect(c.Newest()).To(BeEmpty())
}

func TestShardsAreCompleteWhenAListThatAskedForThemHasCome(t *testing.T) {
	g := NewWithT(t)
	var c partial.Cover
	c.Change(only("a"))
	c.Ask()
	c.Change(keyspace.Union(only("a"), only("b")))
	c.Listed("5")
	g.Expect(c.Complete()).To(Equal(only("a")))
	c.Fill(only("b"))
	f := c.Filling()
	left, err := c.Left(f, only("b"), "6")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(left).To(Equal(only("b")))
	c.Filled(left, "6")
	g.Expect(c.Complete()).To(Equal(keyspace.Union(only("a"), only("b"))))
}

func TestAListThatTheWatchHasOvertakenIsNotTaken(t *testing.T) {
	g := NewWithT(t)
	var c partial.Cover
	c.Change(only("a"))
	c.Fill(only("a"))
	f := c.Filling()
	c.Ask()
	c.Listed("7")
	left, err := c.Left(f, only("a"), "6")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(left).To(BeEmpty())
	left, err = c.Left(f, only("a"), "8")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(left).To(Equal(only("a")))
}

func TestStatesFromBeforeAListAreOutdatedUntilTheWatchHasReachedIt(t *testing.T) {
	g := NewWithT(t)
	var c partial.Cover
	key := types.NamespacedName{Namespace: "a", Name: "x"}
	c.Change(only("a"))
	c.Fill(only("a"))
	c.Filled(only("a"), "9")
	g.Expect(c.IsLate()).To(BeTrue())
	g.Expect(c.Newest()).To(Equal("9"))
	g.Expect(c.IsOutdated(key, "8")).To(BeTrue())
	g.Expect(c.IsOutdated(key, "9")).To(BeFalse())
	g.Expect(c.IsOutdated(types.NamespacedName{Name: "x"}, "8")).To(BeFalse(), "each list has those without a namespace")
	c.CaughtUp("8")
	g.Expect(c.IsLate()).To(BeTrue())
	c.CaughtUp("9")
	g.Expect(c.IsLate()).To(BeFalse())
	g.Expect(c.IsOutdated(key, "8")).To(BeFalse())
}

func TestADeletionDuringAListIsNewerThanTheList(t *testing.T) {
	g := NewWithT(t)
	var c partial.Cover
	key := types.NamespacedName{Namespace: "a", Name: "x"}
	c.Change(only("a"))
	c.Fill(only("a"))
	c.Deleted(key, "5")
	g.Expect(c.Filling().HasDeleted(key, "4")).To(BeTrue())
	g.Expect(c.Filling().HasDeleted(key, "6")).To(BeFalse(), "it was created again")
}

func TestAListOfAnotherHistoryIsNotTaken(t *testing.T) {
	g := NewWithT(t)
	var c partial.Cover
	c.Change(only("a"))
	c.Fill(only("a"))
	before := c.Filling()
	c.Restore()
	_, err := c.Left(before, only("a"), "9")
	g.Expect(err).To(MatchError(partial.ErrOtherHistory))
	c.Change(nil)
	_, err = c.Left(before, only("a"), "9")
	g.Expect(err).To(MatchError(partial.ErrGivenUp))
}

package informer

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/informer/internal/tree"
	"github.com/homeostat/homeostat/informer/internal/versions"
	"github.com/homeostat/homeostat/internal/keyspace"
)

// filled is a store whose shards are being listed beside the watch.
func filled(t *testing.T) (g *WithT, s *store[*corev1.ConfigMap]) {
	t.Helper()
	s = newInformer[*corev1.ConfigMap]([]source{{}}, nil).store
	s.shards.divide()
	s.shards.change(keyspace.Whole())
	s.shards.fill(keyspace.Whole())
	s.ask()
	return NewWithT(t), s
}

func configMapAt(name string, rv int) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "a", Name: name, UID: "1", ResourceVersion: fmt.Sprint(rv),
	}}
}

func items(objects ...*corev1.ConfigMap) (all []*tree.Item[*corev1.ConfigMap]) {
	for _, o := range objects {
		all = append(all, itemOf(o))
	}
	return all
}

// content returns what is cached, as name@resourceVersion.
func content(s *store[*corev1.ConfigMap]) (all []string) {
	for _, it := range s.latest.Load().root.AppendItems(nil) {
		all = append(all, it.Key.Name+"@"+it.Object.ResourceVersion)
	}
	return all
}

func TestAListBesideTheWatchDoesNotBringBackWhatTheWatchHasDeleted(t *testing.T) {
	g, s := filled(t)
	s.remove(configMapAt("x", 5))
	g.Expect(s.fill(s.shards.filling, keyspace.Whole(), items(configMapAt("x", 3), configMapAt("y", 3)), "4")).To(Succeed())
	g.Expect(content(s)).To(Equal([]string{"y@3"}))
}

func TestAListBesideTheWatchDoesNotReplaceWhatIsNewer(t *testing.T) {
	g, s := filled(t)
	s.put(itemOf(configMapAt("x", 5)))
	s.fill(s.shards.filling, keyspace.Whole(), items(configMapAt("x", 3)), "4")
	g.Expect(content(s)).To(Equal([]string{"x@5"}))
}

func TestAWatchThatIsBehindAListDoesNotBringBackWhatWasBefore(t *testing.T) {
	g, s := filled(t)
	s.fill(s.shards.filling, keyspace.Whole(), items(configMapAt("x", 8), configMapAt("y", 8)), "9")
	s.put(itemOf(configMapAt("x", 6)))
	s.caughtUp("7") // not yet
	s.remove(configMapAt("y", 7))
	g.Expect(content(s)).To(Equal([]string{"x@8", "y@8"}))
	s.caughtUp("9")
	g.Expect(s.shards.late.Load()).To(BeFalse(), "events are not compared with the list any more")
	s.remove(configMapAt("y", 10))
	s.put(itemOf(configMapAt("x", 11)))
	g.Expect(content(s)).To(Equal([]string{"x@11"}))
}

func TestAListOfTheWatchThatIsOlderKeepsWhatIsNewer(t *testing.T) {
	g, s := filled(t)
	s.fill(s.shards.filling, keyspace.Whole(), items(configMapAt("x", 8), configMapAt("y", 8), configMapAt("z", 5)), "9")
	s.replaceShards("7", items(configMapAt("x", 6)), versions.Relist, nil)
	g.Expect(content(s)).To(Equal([]string{"x@8", "y@8"}), "z was deleted before 7")
}

func TestAListBesideTheWatchIsNotNeededAfterOneOfTheWatch(t *testing.T) {
	g, s := filled(t)
	s.replaceShards("7", items(configMapAt("x", 6)), versions.Relist, nil)
	g.Expect(s.fill(s.shards.filling, keyspace.Whole(), items(configMapAt("x", 3), configMapAt("y", 3)), "4")).To(Succeed())
	g.Expect(content(s)).To(Equal([]string{"x@6"}), "y was deleted before 7")
}

func TestAListOfShardsThatWereRemovedIsGivenUp(t *testing.T) {
	g, s := filled(t)
	s.shards.change(keyspace.Set{})
	s.shards.change(keyspace.Whole()) // they came back, and are listed by another call
	g.Expect(s.fill(s.shards.filling, keyspace.Whole(), items(configMapAt("x", 3)), "4")).To(MatchError(errGivenUp))
	g.Expect(content(s)).To(BeEmpty())
}

func TestAListOfTheWatchThatIsOlderDoesNotReplaceOneBesideIt(t *testing.T) {
	g, s := filled(t)
	s.ask()
	s.replaceShards("7", items(configMapAt("x", 6), configMapAt("z", 5)), versions.Relist, nil)
	g.Expect(s.fill(s.shards.filling, keyspace.Whole(), items(configMapAt("x", 8), configMapAt("y", 8)), "9")).To(Succeed())
	g.Expect(content(s)).To(Equal([]string{"x@8", "y@8"}), "z was deleted before 9")
}

func TestAListOfTheWatchThatIsOlderDoesNotBringBackWhatWasDeleted(t *testing.T) {
	g, s := filled(t)
	s.ask()
	s.fill(s.shards.filling, keyspace.Whole(), items(configMapAt("y", 8)), "9")
	s.replaceShards("7", items(configMapAt("x", 6), configMapAt("y", 6)), versions.Relist, nil)
	g.Expect(content(s)).To(Equal([]string{"y@8"}), "x was deleted before 9")
	s.caughtUp("9")
	s.put(itemOf(configMapAt("x", 10)))
	g.Expect(content(s)).To(Equal([]string{"x@10", "y@8"}))
}

func TestAListBesideTheWatchRemovesWhatTheWatchHasBroughtBefore(t *testing.T) {
	g, s := filled(t)
	s.put(itemOf(configMapAt("x", 3)))
	s.put(itemOf(configMapAt("y", 3)))
	s.put(itemOf(configMapAt("z", 10)))
	none := configMapAt("none", 3)
	none.Namespace = ""
	s.put(itemOf(none))
	s.fill(s.shards.filling, keyspace.Whole(), items(configMapAt("y", 3)), "9")
	g.Expect(content(s)).To(Equal([]string{"none@3", "y@3", "z@10"}), "x was deleted before 9, and z is newer")
}

func TestAWatchThatIsBehindAListDoesNotBringBackWhatWasDeleted(t *testing.T) {
	g, s := filled(t)
	s.fill(s.shards.filling, keyspace.Whole(), items(configMapAt("y", 3)), "9")
	s.put(itemOf(configMapAt("x", 3)))
	g.Expect(content(s)).To(Equal([]string{"y@3"}), "x was deleted before 9")
	s.put(itemOf(configMapAt("z", 10)))
	s.caughtUp("10")
	s.put(itemOf(configMapAt("x", 11)))
	g.Expect(content(s)).To(Equal([]string{"x@11", "y@3", "z@10"}))
}

// What the watch brings of shards that were listed by itself counts.
func TestAWatchIsBehindInTheShardsOfAListOnly(t *testing.T) {
	g, s := filled(t)
	s.shards.change(keyspace.Set{})
	s.shards.change(keyspace.Whole())
	s.ask()
	s.replaceShards("2", nil, versions.Relist, nil)
	of := keyspace.Of("a")
	s.shards.fill(keyspace.Set{{First: 0, Last: of - 1}})
	s.fill(s.shards.filling, keyspace.Set{{First: 0, Last: of - 1}}, nil, "9")
	s.put(itemOf(configMapAt("x", 3)))
	g.Expect(content(s)).To(Equal([]string{"x@3"}))
}

func TestShardsThatComeBackDuringAListOfTheWatchAreNotThoseItHas(t *testing.T) {
	g, s := filled(t)
	s.ask()
	s.shards.change(keyspace.Set{}) // what comes of them meanwhile is left out
	s.shards.change(keyspace.Whole())
	s.shards.fill(keyspace.Whole())
	s.replaceShards("7", nil, versions.Relist, nil)
	g.Expect(s.shards.missing(keyspace.Whole())).To(Equal(keyspace.Whole()))
	s.fill(s.shards.filling, keyspace.Whole(), items(configMapAt("x", 3)), "5")
	g.Expect(content(s)).To(Equal([]string{"x@3"}))
	g.Expect(s.shards.missing(keyspace.Whole())).To(BeEmpty())
}

func TestAListOfTheWatchLeavesShardsThatItDidNotAskFor(t *testing.T) {
	g := NewWithT(t)
	s := newInformer[*corev1.ConfigMap]([]source{{}}, nil).store
	of := keyspace.Of("a")
	shard := keyspace.Set{{First: of, Last: of}}
	others := keyspace.Whole().Minus(shard)
	s.shards.divide()
	s.shards.change(others)
	s.ask()
	s.shards.change(keyspace.Whole())
	s.shards.fill(shard)
	g.Expect(s.fill(s.shards.filling, shard, items(configMapAt("x", 3)), "5")).To(Succeed())
	s.replaceShards("6", nil, versions.Relist, func() {})
	g.Expect(content(s)).To(Equal([]string{"x@3"}))
}

// A server that was restored may tell of an earlier state, which only a list beside the watch makes one to leave out.
func TestAfterTheDivisionNothingIsTooOld(t *testing.T) {
	g, s := filled(t)
	s.put(itemOf(configMapAt("x", 5)))
	s.shards.whole()
	s.remove(configMapAt("x", 3))
	g.Expect(content(s)).To(BeEmpty())
}

// They were dropped: a list from before has what is cached of them.
func TestShardsThatComeBackAreNotThoseOfAnEarlierListBesideTheWatch(t *testing.T) {
	g, s := filled(t)
	s.fill(s.shards.filling, keyspace.Whole(), items(configMapAt("x", 3)), "9")
	s.shards.change(keyspace.Set{})
	s.writing.Lock()
	s.retainLocked(func(string) bool { return false })
	s.writing.Unlock()
	s.shards.change(keyspace.Whole())
	s.ask()
	s.replaceShards("7", items(configMapAt("x", 3)), versions.Relist, nil)
	g.Expect(content(s)).To(Equal([]string{"x@3"}))
}

// Objects without a namespace are in each shard, so without one there is none.
func TestWithoutShardsNothingIsKept(t *testing.T) {
	g := NewWithT(t)
	f := newInformer[*corev1.ConfigMap]([]source{{}}, nil).feed
	f.store.shards.divide()
	f.store.shards.change(keyspace.Whole())
	f.store.put(&tree.Item[*corev1.ConfigMap]{Object: configMapAt("x", 3)})
	f.cover(&session[*corev1.ConfigMap]{})
	g.Expect(content(f.store)).To(BeEmpty())
}

// The next division begins with nothing of this one.
func TestTheEndOfTheDivisionForgetsItsLists(t *testing.T) {
	g, s := filled(t)
	s.fill(s.shards.filling, keyspace.Whole(), nil, "9")
	s.shards.fill(keyspace.Whole())
	s.shards.whole()
	g.Expect(s.shards.beside).To(BeEmpty())
	g.Expect(s.shards.filling).To(BeNil())
	g.Expect(s.shards.asked).To(BeEmpty())
}

// Its resourceVersions are of another history.
func TestAListOfARestoredServerIsTheWholeTruth(t *testing.T) {
	g, s := filled(t)
	before := s.shards.filling
	g.Expect(s.fill(before, keyspace.Whole(), items(configMapAt("x", 8), configMapAt("y", 5), configMapAt("z", 3)), "9")).
		To(Succeed())
	s.shards.fill(keyspace.Whole())
	before = s.shards.filling
	s.replaceShards("6", items(configMapAt("y", 6), configMapAt("z", 3)), versions.RestoredList, func() {})
	g.Expect(content(s)).To(Equal([]string{"y@6", "z@3"}), "x was lost")
	g.Expect(s.shards.late.Load()).To(BeFalse())
	g.Expect(s.fill(before, keyspace.Whole(), items(configMapAt("x", 8)), "9")).To(MatchError(errRestored))
	g.Expect(s.fill(s.shards.filling, keyspace.Whole(), items(configMapAt("y", 7)), "7")).To(Succeed())
	s.put(itemOf(configMapAt("x", 8)))
	g.Expect(content(s)).To(Equal([]string{"x@8", "y@7"}))
}

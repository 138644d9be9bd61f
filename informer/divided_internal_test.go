package informer

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/informer/internal/partial"
	"github.com/homeostat/homeostat/informer/internal/tree"
	"github.com/homeostat/homeostat/informer/internal/versions"
	"github.com/homeostat/homeostat/internal/keyspace"
)

// dividedOf returns a cache that has no shards yet.
func dividedOf(t *testing.T) (g *WithT, d *divided[*corev1.ConfigMap]) {
	t.Helper()
	return NewWithT(t), newDivided(newInformer[*corev1.ConfigMap]([]source{{}}, nil).feed)
}

// filled is a cache whose shards are being listed alongside the watch.
func filled(t *testing.T) (g *WithT, d *divided[*corev1.ConfigMap]) {
	t.Helper()
	g, d = dividedOf(t)
	d.cover.Change(keyspace.Whole())
	d.cover.Fill(keyspace.Whole())
	d.ask()
	return g, d
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
func content(d *divided[*corev1.ConfigMap]) (all []string) {
	for _, it := range d.store.latest.Load().root.AppendItems(nil) {
		all = append(all, it.Key.Name+"@"+it.Object.ResourceVersion)
	}
	return all
}

func TestAListBesideTheWatchDoesNotBringBackWhatTheWatchHasDeleted(t *testing.T) {
	g, d := filled(t)
	d.Remove(configMapAt("x", 5))
	g.Expect(d.fill(d.cover.Filling(), keyspace.Whole(), items(configMapAt("x", 3), configMapAt("y", 3)), "4")).To(Succeed())
	g.Expect(content(d)).To(Equal([]string{"y@3"}))
}

func TestAListBesideTheWatchDoesNotReplaceWhatIsNewer(t *testing.T) {
	g, d := filled(t)
	d.Put(itemOf(configMapAt("x", 5)))
	d.fill(d.cover.Filling(), keyspace.Whole(), items(configMapAt("x", 3)), "4")
	g.Expect(content(d)).To(Equal([]string{"x@5"}))
}

func TestAWatchThatIsBehindAListDoesNotBringBackWhatWasBefore(t *testing.T) {
	g, d := filled(t)
	d.fill(d.cover.Filling(), keyspace.Whole(), items(configMapAt("x", 8), configMapAt("y", 8)), "9")
	d.Put(itemOf(configMapAt("x", 6)))
	d.CaughtUp("7") // not yet
	d.Remove(configMapAt("y", 7))
	g.Expect(content(d)).To(Equal([]string{"x@8", "y@8"}))
	d.CaughtUp("9")
	g.Expect(d.cover.IsLate()).To(BeFalse(), "events are not compared with the list any more")
	d.Remove(configMapAt("y", 10))
	d.Put(itemOf(configMapAt("x", 11)))
	g.Expect(content(d)).To(Equal([]string{"x@11"}))
}

func TestAListOfTheWatchThatIsOlderKeepsWhatIsNewer(t *testing.T) {
	g, d := filled(t)
	d.fill(d.cover.Filling(), keyspace.Whole(), items(configMapAt("x", 8), configMapAt("y", 8), configMapAt("z", 5)), "9")
	d.Replace("7", items(configMapAt("x", 6)), versions.Relist, nil)
	g.Expect(content(d)).To(Equal([]string{"x@8", "y@8"}), "z was deleted before 7")
}

func TestAListBesideTheWatchIsNotNeededAfterOneOfTheWatch(t *testing.T) {
	g, d := filled(t)
	d.Replace("7", items(configMapAt("x", 6)), versions.Relist, nil)
	g.Expect(d.fill(d.cover.Filling(), keyspace.Whole(), items(configMapAt("x", 3), configMapAt("y", 3)), "4")).To(Succeed())
	g.Expect(content(d)).To(Equal([]string{"x@6"}), "y was deleted before 7")
}

func TestAListOfShardsThatWereRemovedIsGivenUp(t *testing.T) {
	g, d := filled(t)
	d.cover.Change(keyspace.Set{})
	d.cover.Change(keyspace.Whole()) // the shards were added again, and another call lists them
	g.Expect(d.fill(d.cover.Filling(), keyspace.Whole(), items(configMapAt("x", 3)), "4")).To(MatchError(partial.ErrGivenUp))
	g.Expect(content(d)).To(BeEmpty())
}

func TestAListOfTheWatchThatIsOlderDoesNotReplaceOneBesideIt(t *testing.T) {
	g, d := filled(t)
	d.ask()
	d.Replace("7", items(configMapAt("x", 6), configMapAt("z", 5)), versions.Relist, nil)
	g.Expect(d.fill(d.cover.Filling(), keyspace.Whole(), items(configMapAt("x", 8), configMapAt("y", 8)), "9")).To(Succeed())
	g.Expect(content(d)).To(Equal([]string{"x@8", "y@8"}), "z was deleted before 9")
}

func TestAListOfTheWatchThatIsOlderDoesNotBringBackWhatWasDeleted(t *testing.T) {
	g, d := filled(t)
	d.ask()
	d.fill(d.cover.Filling(), keyspace.Whole(), items(configMapAt("y", 8)), "9")
	d.Replace("7", items(configMapAt("x", 6), configMapAt("y", 6)), versions.Relist, nil)
	g.Expect(content(d)).To(Equal([]string{"y@8"}), "x was deleted before 9")
	d.CaughtUp("9")
	d.Put(itemOf(configMapAt("x", 10)))
	g.Expect(content(d)).To(Equal([]string{"x@10", "y@8"}))
}

func TestAListBesideTheWatchRemovesWhatTheWatchHasBroughtBefore(t *testing.T) {
	g, d := filled(t)
	d.Put(itemOf(configMapAt("x", 3)))
	d.Put(itemOf(configMapAt("y", 3)))
	d.Put(itemOf(configMapAt("z", 10)))
	none := configMapAt("none", 3)
	none.Namespace = ""
	d.Put(itemOf(none))
	d.fill(d.cover.Filling(), keyspace.Whole(), items(configMapAt("y", 3)), "9")
	g.Expect(content(d)).To(Equal([]string{"none@3", "y@3", "z@10"}), "x was deleted before 9, and z is newer")
}

func TestAWatchThatIsBehindAListDoesNotBringBackWhatWasDeleted(t *testing.T) {
	g, d := filled(t)
	d.fill(d.cover.Filling(), keyspace.Whole(), items(configMapAt("y", 3)), "9")
	d.Put(itemOf(configMapAt("x", 3)))
	g.Expect(content(d)).To(Equal([]string{"y@3"}), "x was deleted before 9")
	d.Put(itemOf(configMapAt("z", 10)))
	d.CaughtUp("10")
	d.Put(itemOf(configMapAt("x", 11)))
	g.Expect(content(d)).To(Equal([]string{"x@11", "y@3", "z@10"}))
}

// Only the shards of the additional list are affected, not the shards that the
// watch itself has listed.
func TestAWatchIsBehindInTheShardsOfAListOnly(t *testing.T) {
	g, d := filled(t)
	d.cover.Change(keyspace.Set{})
	d.cover.Change(keyspace.Whole())
	d.ask()
	d.Replace("2", nil, versions.Relist, nil)
	of := keyspace.Of("a")
	d.cover.Fill(keyspace.Set{{First: 0, Last: of - 1}})
	d.fill(d.cover.Filling(), keyspace.Set{{First: 0, Last: of - 1}}, nil, "9")
	d.Put(itemOf(configMapAt("x", 3)))
	g.Expect(content(d)).To(Equal([]string{"x@3"}))
}

func TestAListOfTheWatchDoesNotFillShardsThatComeBackMeanwhile(t *testing.T) {
	g, d := filled(t)
	d.ask()
	d.cover.Change(keyspace.Set{}) // events of the removed shards are dropped in the meantime
	d.cover.Change(keyspace.Whole())
	d.cover.Fill(keyspace.Whole())
	d.Replace("7", nil, versions.Relist, nil)
	g.Expect(keyspace.Whole().Minus(d.Complete())).To(Equal(keyspace.Whole()))
	d.fill(d.cover.Filling(), keyspace.Whole(), items(configMapAt("x", 3)), "5")
	g.Expect(content(d)).To(Equal([]string{"x@3"}))
	g.Expect(keyspace.Whole().Minus(d.Complete())).To(BeEmpty())
}

func TestAListOfTheWatchLeavesShardsThatItDidNotAskFor(t *testing.T) {
	g, d := dividedOf(t)
	of := keyspace.Of("a")
	shard := keyspace.Set{{First: of, Last: of}}
	others := keyspace.Whole().Minus(shard)
	d.cover.Change(others)
	d.ask()
	d.cover.Change(keyspace.Whole())
	d.cover.Fill(shard)
	g.Expect(d.fill(d.cover.Filling(), shard, items(configMapAt("x", 3)), "5")).To(Succeed())
	d.Replace("6", nil, versions.Relist, func() {})
	g.Expect(content(d)).To(Equal([]string{"x@3"}))
}

// The objects of the shards were dropped, so an earlier list must not bring
// them back.
func TestAnEarlierListBesideTheWatchDoesNotFillShardsThatComeBack(t *testing.T) {
	g, d := filled(t)
	d.fill(d.cover.Filling(), keyspace.Whole(), items(configMapAt("x", 3)), "9")
	d.cover.Change(keyspace.Set{})
	d.store.writing.Lock()
	d.store.retainLocked(func(string) bool { return false })
	d.store.writing.Unlock()
	d.cover.Change(keyspace.Whole())
	d.ask()
	d.Replace("7", items(configMapAt("x", 3)), versions.Relist, nil)
	g.Expect(content(d)).To(Equal([]string{"x@3"}))
}

// Objects without a namespace belong to every shard, so a cache without shards
// keeps none of them.
func TestWithoutShardsNothingIsKept(t *testing.T) {
	g, d := dividedOf(t)
	d.cover.Change(keyspace.Whole())
	d.Put(&tree.Item[*corev1.ConfigMap]{Object: configMapAt("x", 3)})
	d.keepHeld()
	g.Expect(content(d)).To(BeEmpty())
}

// A restored server may deliver an earlier state of an object. Only an
// additional list alongside the watch is a reason to drop such a state.
func TestAfterTheDivisionNothingIsTooOld(t *testing.T) {
	g, d := filled(t)
	var part partial.Cache[*corev1.ConfigMap] = d
	d.feed.partial.Store(&part)
	d.fill(d.cover.Filling(), keyspace.Whole(), items(configMapAt("y", 5)), "9")
	d.End()
	g.Expect(content(d)).To(BeEmpty())
	g.Expect(d.feed.part()).To(BeNil())
	next := newReflectorStore(&d.feed.sink, source{}, klog.Background())
	g.Expect(next.Update(configMapAt("x", 5))).To(Succeed())
	g.Expect(content(d)).To(Equal([]string{"x@5"}))
	g.Expect(next.Update(configMapAt("x", 3))).To(Succeed())
	g.Expect(content(d)).To(Equal([]string{"x@3"}))
	g.Expect(next.Delete(configMapAt("x", 4))).To(Succeed())
	g.Expect(content(d)).To(BeEmpty())
}

// The resourceVersions of a restored server belong to another history.
func TestAListOfARestoredServerIsTheWholeTruth(t *testing.T) {
	g, d := filled(t)
	before := d.cover.Filling()
	g.Expect(d.fill(before, keyspace.Whole(), items(configMapAt("x", 8), configMapAt("y", 5), configMapAt("z", 3)), "9")).
		To(Succeed())
	d.cover.Fill(keyspace.Whole())
	before = d.cover.Filling()
	d.Replace("6", items(configMapAt("y", 6), configMapAt("z", 3)), versions.RestoredList, func() {})
	g.Expect(content(d)).To(Equal([]string{"y@6", "z@3"}), "x was lost")
	g.Expect(d.cover.IsLate()).To(BeFalse())
	g.Expect(d.fill(before, keyspace.Whole(), items(configMapAt("x", 8)), "9")).To(MatchError(partial.ErrOtherHistory))
	g.Expect(d.fill(d.cover.Filling(), keyspace.Whole(), items(configMapAt("y", 7)), "7")).To(Succeed())
	d.Put(itemOf(configMapAt("x", 8)))
	g.Expect(content(d)).To(Equal([]string{"x@8", "y@7"}))
}

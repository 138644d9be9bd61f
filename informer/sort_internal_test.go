package informer

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// The oracle is the standard library's stable sort. Keys come more than once.
func TestItemsAreSortedByKeyAndOtherwiseStay(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		items := make([]*item[int], random.IntN(300))
		for n := range items {
			items[n] = &item[int]{key: types.NamespacedName{
				Namespace: strconv.Itoa(random.IntN(12)), Name: strconv.Itoa(random.IntN(40)),
			}, object: n}
		}
		want := slices.Clone(items)
		slices.SortStableFunc(want, func(a, b *item[int]) int { return compareKeys(a.key, b.key) })
		sortItems(items)
		if !slices.Equal(items, want) {
			t.Fatalf("seed %d: the order is another one", seed)
		}
		sortItems(items)
		if !slices.Equal(items, want) {
			t.Fatalf("seed %d: what was sorted has changed", seed)
		}
	}
}

func BenchmarkSort(b *testing.B) {
	const n = 100_000
	all := make([]*item[int], n)
	for i := range all {
		all[i] = &item[int]{key: types.NamespacedName{
			Namespace: "namespace-" + strconv.Itoa(i%100), Name: "name-" + strconv.Itoa(i),
		}, object: i}
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(n, func(i, j int) { all[i], all[j] = all[j], all[i] })
	for b.Loop() {
		sortItems(slices.Clone(all))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/item")
}

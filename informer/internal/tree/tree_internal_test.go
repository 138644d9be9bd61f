package tree

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// model has the expected content of the tree, as a map that is sorted on
// demand.
type model map[types.NamespacedName]int

func (m model) sorted() []types.NamespacedName {
	return slices.SortedFunc(maps.Keys(m), CompareKeys)
}

func (m model) objects(namespace *string) []int {
	var out []int
	for _, key := range m.sorted() {
		if namespace == nil || key.Namespace == *namespace {
			out = append(out, m[key])
		}
	}
	return out
}

func collect(walk func(func(int) bool) bool) []int {
	var out []int
	walk(func(object int) bool {
		out = append(out, object)
		return true
	})
	return out
}

func checkTree(t *testing.T, root *Node[int], want model) {
	t.Helper()
	if got := collect(root.All); !slices.Equal(got, want.objects(nil)) {
		t.Fatalf("the tree holds %v, want %v", got, want.objects(nil))
	}
	for _, namespace := range []string{"", "a", "b", "c", "zz"} {
		got := collect(func(yield func(int) bool) bool { return root.Namespace(namespace, yield) })
		if !slices.Equal(got, want.objects(&namespace)) {
			t.Fatalf("namespace %q holds %v, want %v", namespace, got, want.objects(&namespace))
		}
	}
	for key, object := range want {
		if it := root.Get(key); it == nil || it.Object != object {
			t.Fatalf("get %v returns %v, want %d", key, it, object)
		}
	}
	checkShape(t, root, true)
}

// checkShape checks the tree's invariants and returns its height.
func checkShape(t *testing.T, n *Node[int], isRoot bool) int {
	t.Helper()
	if n == nil {
		return 0
	}
	if len(n.items) == 0 || len(n.items) > fanout || n.kids != nil && len(n.kids) != len(n.items) {
		t.Fatalf("a node has %d items and %d kids", len(n.items), len(n.kids))
	}
	if isRoot && len(n.kids) == 1 {
		t.Fatal("the root has one kid only")
	}
	height := -1
	for at, kid := range n.kids {
		if kid.items[0] != n.items[at] {
			t.Fatalf("kid %d begins with %v, its parent says %v", at, kid.items[0], n.items[at])
		}
		if h := checkShape(t, kid, false); height >= 0 && h != height {
			t.Fatalf("kids of height %d and %d", height, h)
		} else {
			height = h
		}
	}
	return height + 1
}

func TestTreeIsASortedMap(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		var root *Node[int]
		want := model{}
		size := 1 + random.IntN(3000)
		random2 := func() types.NamespacedName {
			return types.NamespacedName{
				Namespace: []string{"", "a", "b", "c"}[random.IntN(4)], Name: fmt.Sprint(random.IntN(size)),
			}
		}
		for step := range 6000 {
			key := random2()
			if random.IntN(10) < 4+int(seed%3) {
				it, old := &Item[int]{Key: key, Object: step}, root.Get(key)
				swapped := root.Swap(old, it)
				if (swapped == nil) != (old == nil) || root.Swap(it, it) != nil {
					t.Fatal("swap works if and only if the tree has the item")
				}
				if swapped == nil || step%2 == 0 {
					swapped = root.With(it)
				}
				root, want[key] = swapped, step
			} else {
				root = root.Without(key)
				delete(want, key)
			}
			if step%1500 == 0 {
				checkTree(t, root, want)
			}
		}
		checkTree(t, root, want)
		for _, key := range want.sorted() {
			root = root.Without(key)
			delete(want, key)
			if len(want)%200 == 0 {
				checkTree(t, root, want)
			}
		}
		if root != nil {
			t.Fatal("the empty tree is not nil")
		}
	}
}

func TestBuiltTree(t *testing.T) {
	for _, size := range []int{0, 1, 47, 48, 49, 64, 65, 1000, 48*48 + 1, 48*48 + 3, 10_000} {
		want := model{}
		for n := range size {
			want[types.NamespacedName{Namespace: []string{"a", "b"}[n%2], Name: fmt.Sprint(n)}] = n
		}
		var items []*Item[int]
		for _, key := range want.sorted() {
			items = append(items, &Item[int]{Key: key, Object: want[key]})
		}
		root := Build(items)
		checkTree(t, root, want)
		for _, it := range slices.Backward(items[max(0, size-3):]) { // the last leaf may be alone in its parent
			root = root.Without(it.Key)
			delete(want, it.Key)
			checkTree(t, root, want)
		}
	}
}

func TestTheLastItemLeavesABranchWithoutForks(t *testing.T) {
	items := make([]*Item[int], 48*48*48+1) // the last of the root's kids has one kid, and that has one
	for n := range items {
		items[n] = &Item[int]{Key: types.NamespacedName{Name: fmt.Sprintf("%06d", n)}, Object: n}
	}
	root := Build(items).Without(items[len(items)-1].Key)
	checkShape(t, root, true)
	if got := len(collect(root.All)); got != len(items)-1 {
		t.Fatalf("the tree holds %d objects, want %d", got, len(items)-1)
	}
}

func TestOldRootsStayAsTheyWere(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	type moment struct {
		root *Node[int]
		want model
	}
	var root *Node[int]
	want, moments := model{}, []moment{}
	for step := range 3000 {
		key := types.NamespacedName{Namespace: "a", Name: fmt.Sprint(random.IntN(500))}
		if random.IntN(2) == 0 {
			it := &Item[int]{Key: key, Object: step}
			next := root.Swap(root.Get(key), it)
			if next == nil {
				next = root.With(it)
			}
			root, want[key] = next, step
		} else {
			root = root.Without(key)
			delete(want, key)
		}
		if step%100 == 0 {
			moments = append(moments, moment{root, maps.Clone(want)})
		}
	}
	for _, m := range moments {
		checkTree(t, m.root, m.want)
	}
}

func TestIterationStopsWhenTold(t *testing.T) {
	var root *Node[int]
	for n := range 1000 {
		root = root.With(&Item[int]{Key: types.NamespacedName{Namespace: "a", Name: fmt.Sprintf("%04d", n)}, Object: n})
	}
	for _, walk := range []func(func(int) bool) bool{
		root.All,
		func(yield func(int) bool) bool { return root.Namespace("a", yield) },
	} {
		calls := 0
		walk(func(int) bool {
			calls++
			return calls < 100
		})
		if calls != 100 {
			t.Errorf("iteration went on to %d", calls)
		}
	}
}

// If nodes were larger there would be fewer of them, and if they were emptier
// there would be more.
func TestNodesAreSplitAndMergedAtTheirBounds(t *testing.T) {
	var root *Node[int]
	key := func(n int) types.NamespacedName { return types.NamespacedName{Name: fmt.Sprintf("%04d", n)} }
	for n := range fanout {
		root = root.With(&Item[int]{Key: key(n), Object: n})
	}
	if root.kids != nil {
		t.Error("a leaf is split before it is full")
	}
	const each = fanout * 3 / 4 // as build fills leaves
	items := make([]*Item[int], 2*each)
	for n := range items {
		items[n] = &Item[int]{Key: key(n), Object: n}
	}
	root = Build(items)
	for n := range each - fanout/4 {
		root = root.Without(key(n))
	}
	if len(root.kids) != 2 {
		t.Errorf("a leaf with %d items is merged", fanout/4)
	}
	if root = root.Without(key(each - 1)); root.kids != nil {
		t.Errorf("a leaf with %d items is not merged", fanout/4-1)
	}
}

// Nodes above the leaves are split and merged, too.
func TestALargeTreeGrowsAndShrinksByItems(t *testing.T) {
	var root *Node[int]
	want := model{}
	random := rand.New(rand.NewPCG(11, 1))
	order := random.Perm(10_000)
	key := func(n int) types.NamespacedName { return types.NamespacedName{Namespace: "a", Name: fmt.Sprint(n)} }
	for _, n := range order {
		root, want[key(n)] = root.With(&Item[int]{Key: key(n), Object: n}), n
	}
	checkTree(t, root, want)
	for step, n := range order {
		root = root.Without(key(n))
		delete(want, key(n))
		if step%1000 == 0 {
			checkTree(t, root, want)
		}
	}
	if root != nil {
		t.Error("the empty tree is not nil")
	}
}

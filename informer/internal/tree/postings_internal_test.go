package tree

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestTrieIsAMap(t *testing.T) {
	for name, hash := range map[string]func(int) uint64{
		"good":               func(v int) uint64 { return uint64(v) * 0x9e3779b97f4a7c15 },
		"many equal":         func(v int) uint64 { return uint64(v%7) << 60 },
		"equal":              func(int) uint64 { return 42 },
		"differ in the last": func(v int) uint64 { return uint64(v%16)<<60 | 1 },
		"sequential":         func(v int) uint64 { return uint64(v) },
	} {
		t.Run(name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(3, 9))
			type moment struct {
				root *trie[int, string]
				want map[int]string
			}
			var root *trie[int, string]
			want, moments := map[int]string{}, []moment{}
			for step := range 4000 {
				v := random.IntN(300)
				if random.IntN(2) == 0 {
					known := fmt.Sprint(step)
					root = root.put(&leaf[int, string]{hash: hash(v), value: v, known: known}, 0)
					want[v] = known
				} else {
					root = root.remove(hash(v), v, 0)
					delete(want, v)
				}
				if step%200 == 0 {
					moments = append(moments, moment{root, maps.Clone(want)})
				}
			}
			for v := range 300 {
				root = root.remove(hash(v), v, 0)
			}
			if root != nil {
				t.Error("the empty trie is not nil")
			}
			for _, m := range moments {
				for v := range 300 {
					known, ok := m.root.get(hash(v), v)
					if wanted, there := m.want[v]; ok != there || known != wanted {
						t.Fatalf("%d: %q %v, want %q %v", v, known, ok, wanted, there)
					}
				}
			}
		})
	}
}

func TestTableIsAMap(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 5))
	var all Table[int]
	all.Fill(nil)
	want := map[types.NamespacedName]int{}
	for step := range 50_000 {
		key := types.NamespacedName{Namespace: fmt.Sprint(step % 3), Name: fmt.Sprint(random.IntN(1 + step/10))}
		if random.IntN(3) > 0 {
			all.Put(&Item[int]{Key: key, Object: step})
			want[key] = step
		} else {
			all.Remove(key)
			delete(want, key)
		}
		it := all.Get(key)
		if wanted, there := want[key]; (it != nil) != there || there && it.Object != wanted {
			t.Fatalf("%v: %v, want %d %v", key, it, wanted, there)
		}
	}
	for step := range 5000 {
		for n := range 3 {
			key := types.NamespacedName{Namespace: fmt.Sprint(n), Name: fmt.Sprint(step)}
			it := all.Get(key)
			if wanted, there := want[key]; (it != nil) != there || there && it.Object != wanted {
				t.Fatalf("%v: %v, want %d %v", key, it, wanted, there)
			}
		}
	}
	all.Fill(nil)
	if all.Get(types.NamespacedName{Namespace: "0", Name: "0"}) != nil {
		t.Error("an empty table holds something")
	}
}

// If an object is added for each deleted one, the table is not copied for every
// change, even if it is large.
func TestTableIsSeldomRebuilt(t *testing.T) {
	for live := 1000; live <= 1026; live++ {
		var all Table[int]
		all.Fill(nil)
		put := func(n int) { all.Put(&Item[int]{Key: types.NamespacedName{Name: fmt.Sprint(n)}, Object: n}) }
		for n := range live {
			put(n)
		}
		rebuilt := 0
		for n := range 5000 {
			before := all.current.Load()
			all.Remove(types.NamespacedName{Name: fmt.Sprint(n)})
			put(live + n)
			if all.current.Load() != before {
				rebuilt++
			}
		}
		if rebuilt > 5000*8/live+1 {
			t.Errorf("%d objects: rebuilt %d times", live, rebuilt)
		}
	}
}

func TestTableIsReadWhileItChanges(t *testing.T) {
	var all Table[int]
	all.Fill(nil)
	stays := types.NamespacedName{Name: "stays"}
	all.Put(&Item[int]{Key: stays, Object: 1})
	var stop atomic.Bool
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			last := 0
			for !stop.Load() {
				it := all.Get(stays)
				if it == nil || it.Object < last {
					t.Errorf("read %v after %d", it, last)
					return
				}
				last = it.Object
			}
		})
	}
	for n := range 20_000 {
		key := types.NamespacedName{Name: fmt.Sprint(n)}
		all.Put(&Item[int]{Key: key, Object: n})
		all.Put(&Item[int]{Key: stays, Object: n + 2})
		if n >= 10 {
			all.Remove(types.NamespacedName{Name: fmt.Sprint(n - 10)})
		}
	}
	stop.Store(true)
	readers.Wait()
}

// NaN is found by nobody and removed by nothing.
func TestAValueThatIsNotEqualToItselfIsLeftOut(t *testing.T) {
	item := &Item[int]{Key: types.NamespacedName{Name: "a"}, Object: 1}
	added := NewPostings(func(int) []float64 { return []float64{math.NaN(), 13} }).After([]Change[int]{{New: item}})
	if n := added.(*Postings[int, float64]).Get(13).Count; n != 1 {
		t.Errorf("%d objects have the value 13", n)
	}
	if left := added.After([]Change[int]{{Old: item}}).(*Postings[int, float64]).root; left != nil {
		t.Errorf("the index of no object has values: %v", left)
	}
}

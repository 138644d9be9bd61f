package tree

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// candidates are the stores that were measured for the choice of this one.
type candidate interface {
	Put(it *Item[*corev1.Pod])
	Get(key types.NamespacedName) *Item[*corev1.Pod]
}

type treeStore struct{ root *Node[*corev1.Pod] }

func (s *treeStore) Get(key types.NamespacedName) *Item[*corev1.Pod] { return s.root.Get(key) }
func (s *treeStore) Put(it *Item[*corev1.Pod]) {
	root := s.root.Swap(it, it) // an update, as the store makes it
	if root == nil {
		root = s.root.With(it)
	}
	s.root = root
}

type lockedMap struct {
	mu  sync.RWMutex
	all map[types.NamespacedName]*Item[*corev1.Pod]
}

func (s *lockedMap) Put(it *Item[*corev1.Pod]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[it.Key] = it
}

func (s *lockedMap) Get(key types.NamespacedName) *Item[*corev1.Pod] {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.all[key]
}

type syncMap struct{ all sync.Map }

func (s *syncMap) Put(it *Item[*corev1.Pod]) { s.all.Store(it.Key, it) }
func (s *syncMap) Get(key types.NamespacedName) *Item[*corev1.Pod] {
	v, _ := s.all.Load(key)
	it, _ := v.(*Item[*corev1.Pod])
	return it
}

type plainMap struct {
	all map[types.NamespacedName]*Item[*corev1.Pod]
}

func (s *plainMap) Put(it *Item[*corev1.Pod])                       { s.all[it.Key] = it }
func (s *plainMap) Get(key types.NamespacedName) *Item[*corev1.Pod] { return s.all[key] }

func benchKeys(n int) []types.NamespacedName {
	keys := make([]types.NamespacedName, n)
	for i := range keys {
		keys[i] = types.NamespacedName{
			Namespace: fmt.Sprintf("namespace-%04d", i%(n/100)), Name: fmt.Sprintf("deployment-%d-5d9f7c6b8d-%05x", i%50, i),
		}
	}
	return keys
}

func clone(k types.NamespacedName) types.NamespacedName {
	return types.NamespacedName{Namespace: string([]byte(k.Namespace)), Name: string([]byte(k.Name))}
}

func BenchmarkStore(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		emptyTable := &Table[*corev1.Pod]{}
		emptyTable.Fill(nil)
		keys := benchKeys(n)
		asked := make([]types.NamespacedName, n)
		for i, at := range rand.Perm(n) {
			asked[i] = clone(keys[at])
		}
		for name, s := range map[string]candidate{
			"floor": &plainMap{map[types.NamespacedName]*Item[*corev1.Pod]{}}, "map+rwmutex": &lockedMap{all: map[types.NamespacedName]*Item[*corev1.Pod]{}},
			"sync.Map": &syncMap{}, "tree": &treeStore{}, "table": emptyTable,
		} {
			items := make([]*Item[*corev1.Pod], n)
			for i, key := range keys {
				items[i] = &Item[*corev1.Pod]{Key: key, Object: &corev1.Pod{}}
				s.Put(items[i])
			}
			b.Run(fmt.Sprintf("get/n=%d/impl=%s", n, name), func(b *testing.B) {
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					if s.Get(asked[i]) == nil {
						b.Fatal("not found")
					}
					if i++; i == n {
						i = 0
					}
				}
			})
			b.Run(fmt.Sprintf("put/n=%d/impl=%s", n, name), func(b *testing.B) {
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					s.Put(items[(i*7919)%n])
					i++
				}
			})
		}
	}
}

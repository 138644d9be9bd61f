package intern_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/homeostat/homeostat/internal/intern"
)

// heap returns the heap memory per object for the objects that make returns.
func heap[T any](n int, make func(n int) T) (objects []T, each float64) {
	objects = slices.Grow(objects, n)
	var before, after runtime.MemStats
	settled()
	runtime.ReadMemStats(&before)
	for i := range n {
		objects = append(objects, make(i))
	}
	settled()
	runtime.ReadMemStats(&after)
	return objects, float64(after.HeapAlloc-before.HeapAlloc) / float64(n)
}

// settled frees the garbage of earlier tests. Pools and weak pointers release
// it at the second collection.
func settled() {
	for range 3 {
		runtime.GC()
	}
}

func TestSizeIsAboutTheSizeOnTheHeap(t *testing.T) {
	const objects = 2000
	many := func(n int) *corev1.Pod {
		p := replica(n)
		for i := range 20 + n%30 {
			p.Annotations[fmt.Sprint("key-", i)] = fmt.Sprint("value-", n, i)
		}
		return p
	}
	for _, row := range []struct {
		name string
		size func() (counted int64, taken float64)
	}{
		{"Pods", func() (int64, float64) {
			all, taken := heap(objects, replica)
			return intern.Size(slices.Values(all)), taken
		}},
		{"Pods with large maps", func() (int64, float64) {
			all, taken := heap(objects, many)
			return intern.Size(slices.Values(all)), taken
		}},
		{"Pods that share", func() (int64, float64) {
			s := intern.New()
			all, taken := heap(objects, func(n int) *corev1.Pod {
				p := replica(n)
				s.Object(p)
				return p
			})
			defer runtime.KeepAlive(s)
			return intern.Size(slices.Values(all)), taken
		}},
		{"unstructured", func() (int64, float64) {
			all, taken := heap(objects, content)
			return intern.Size(slices.Values(all)), taken
		}},
	} {
		counted, taken := row.size()
		each := float64(counted) / objects
		t.Logf("%s: %.0f bytes each, %.0f counted", row.name, taken, each)
		if each < .7*taken || each > 1.1*taken {
			t.Errorf("%s: %.0f bytes each, but %.0f counted", row.name, taken, each)
		}
	}
}

func TestSizeOfOddArguments(t *testing.T) {
	pod := replica(1)
	for want, objects := range map[int64][]any{
		0: {nil, (*corev1.Pod)(nil), corev1.Pod{}, &struct{}{}},
		8: {new(int64)},
	} {
		if got := intern.Size(slices.Values(objects)); got != want {
			t.Errorf("got %d bytes, want %d", got, want)
		}
	}
	if once, twice := intern.Size(slices.Values([]any{pod})), intern.Size(slices.Values([]any{pod, pod})); once != twice {
		t.Errorf("once %d, twice %d", once, twice)
	}
}

// This is the worst case: two copies of each of many small objects that have
// nothing in common.
func TestSharingTakesNoMemoryWhereThereIsNothingToShare(t *testing.T) {
	const objects = 20_000
	for replicas := range 3 {
		of := func(n int) *corev1.ConfigMap {
			team := fmt.Sprint("a team whose number is ", n/(replicas+1))
			c := &corev1.ConfigMap{Data: map[string]string{"owner": team, fmt.Sprint("key-", n/(replicas+1)): "value of it, " + team}}
			c.Name, c.Namespace = fmt.Sprint("c-", n), team
			return c
		}
		_, plain := heap(objects, of)
		s := intern.New()
		all, shared := heap(objects, func(n int) *corev1.ConfigMap {
			c := of(n)
			s.Object(c)
			return c
		})
		t.Logf("%d of each: %.0f bytes each, %.0f shared", replicas+1, plain, shared)
		if shared > 1.1*plain {
			t.Errorf("%d of each: %.0f bytes each, %.0f shared", replicas+1, plain, shared)
		}
		runtime.KeepAlive(all)
		runtime.KeepAlive(s)
	}
}

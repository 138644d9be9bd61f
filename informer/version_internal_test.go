package informer

import (
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Whoever looks at a version first makes its state; all get the same one, and
// the state before is let go.
func TestAVersionHasOneState(t *testing.T) {
	v := versionOf(&state[*corev1.Pod]{})
	for n := range 1000 {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(n)}}
		v = v.state().then(change[*corev1.Pod]{it: itemOf(pod)})
		states := make([]*state[*corev1.Pod], 4)
		var readers sync.WaitGroup
		for r := range states {
			readers.Go(func() { states[r] = v.state() })
		}
		readers.Wait()
		for _, s := range states {
			if s == nil || s != states[0] || s.count != n+1 {
				t.Fatalf("version %d has the states %p and %p", n, s, states[0])
			}
		}
		if v.from.Load() != nil {
			t.Fatal("the version keeps the state before")
		}
	}
}

// A handler hears of a change before it has its place in the tree. If it looks
// for it there, it finds it.
func TestAHandlerDoesNotWaitForTheTree(t *testing.T) {
	i := newInformer[*corev1.Pod](nil, &Options{MutationCheck: checkNever})
	early, found := false, 0
	i.Handle(func(Event[*corev1.Pod]) {
		early = i.latest.Load().made.Load() == nil
		found = i.Snapshot().Len()
	})
	for n := range 2 {
		i.put(itemOf(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(n)}}))
		if !early || found != n+1 || i.latest.Load().made.Load() == nil {
			t.Errorf("early is %t, and %d Pods were found: want true and %d", early, found, n+1)
		}
	}
	i.drop(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "0"}})
	if !early || found != 1 {
		t.Errorf("after a deletion early is %t, and %d Pods were found", early, found)
	}
}

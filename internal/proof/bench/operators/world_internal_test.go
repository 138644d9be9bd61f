package main

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttest "k8s.io/client-go/testing"
)

func TestChangesAreOfTheSameObjectsInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var mu sync.Mutex
		times := map[string]int{}
		client := fake.NewClientset()
		client.PrependReactor("patch", "*", func(action clienttest.Action) (bool, runtime.Object, error) {
			patch, _ := action.(clienttest.PatchAction)
			mu.Lock()
			defer mu.Unlock()
			times[action.GetResource().Resource+" "+patch.GetNamespace()+"/"+patch.GetName()]++
			if action.GetResource().Resource == "pods" {
				return true, &corev1.Pod{}, nil
			}
			return true, &corev1.Secret{}, nil
		})
		w := &world{client: client}

		for _, kind := range []string{"Pod", "Secret"} {
			n, err := w.change(t.Context(), kind, func(n int, _ time.Duration) bool { return n < changedObjects })
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(n).To(Equal(changedObjects))
		}
		g.Expect(times).To(And(HaveLen(2*changedObjects), HaveEach(1)), "the first change of each object")

		n, err := w.change(t.Context(), "Pod", func(_ int, spent time.Duration) bool { return spent < changing })
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(n).To(BeNumerically("~", changing.Seconds()*changesPerSecond, 1))
		g.Expect(times).To(HaveLen(2*changedObjects), "no other object is changed")
	})
}

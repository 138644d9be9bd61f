//go:build !race

package reconcile

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

func TestTheHistoryCostsAReconcileWithoutAnEffectNoAllocation(t *testing.T) {
	g := NewWithT(t)
	c := &Controller{queue: newTestQueue(g)}
	c.queue.Add(Key{Name: "known"})
	item, err := c.queue.Get(context.WithoutCancel(t.Context()))
	g.Expect(err).NotTo(HaveOccurred())
	known := &reconcileContext{recorder: recorder{control: c}, item: item, began: time.Now()}
	for i := range historyKeys {
		c.histories.of(Key{Name: fmt.Sprint(i)}, true)
	}
	untracked := &reconcileContext{recorder: recorder{control: c}, began: time.Now()}
	g.Expect(testing.AllocsPerRun(100, func() { untracked.remember(nil, nil); untracked.conclude(inspect.Succeeded, nil, nil) })).To(BeZero())
	c.histories.of(item.Key(), true)
	for range historyLength {
		known.remember(nil, nil)
	}
	g.Expect(testing.AllocsPerRun(100, func() { known.remember(nil, nil); known.conclude(inspect.Succeeded, nil, nil) })).To(BeZero())
	g.Expect(c.histories.byKey).To(HaveLen(historyKeys))
}

func TestAReconcileWithoutAnEffectIsOneAllocation(t *testing.T) {
	g := NewWithT(t)
	c, err := New("test", informer.For(fake.NewClientset().CoreV1().ConfigMaps("d"), nil), Func[*corev1.ConfigMap](
		func(context.Context, Request[*corev1.ConfigMap]) (Result, error) { return Result{}, nil }), nil)
	g.Expect(err).NotTo(HaveOccurred())
	ctx := context.WithoutCancel(t.Context())
	worker := c.watchdog.register()
	c.watchdog.armed.Store(true)
	once := func() {
		c.queue.Add(Key{Name: "a"})
		item, _ := c.queue.Get(ctx)
		c.reconcileOnce(ctx, item, worker)
	}
	for range historyLength {
		once()
	}
	g.Expect(testing.AllocsPerRun(100, once)).To(BeNumerically("<=", 1))
}

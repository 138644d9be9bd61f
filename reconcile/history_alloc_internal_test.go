//go:build !race

package reconcile

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

func TestTheHistoryCostsAReconcileWithoutAnEffectNoAllocation(t *testing.T) {
	g := NewWithT(t)
	c := &core{intake: intake{queue: newTestQueue(g)}}
	c.queue.Add(Key{Name: "known"})
	item, err := c.queue.Get(context.WithoutCancel(t.Context()))
	g.Expect(err).NotTo(HaveOccurred())
	known := &reconcileContext{recorder: recorder{control: c}, item: item, began: time.Now()}
	for i := range historyKeys {
		c.histories.get(Key{Name: fmt.Sprint(i)}, true)
	}
	untracked := &reconcileContext{recorder: recorder{control: c}, began: time.Now()}
	g.Expect(testing.AllocsPerRun(100, func() { untracked.remember(nil, nil); untracked.conclude(inspect.Succeeded, nil, nil) })).To(BeZero())
	c.histories.get(item.Key(), true)
	for range historyLength {
		known.remember(nil, nil)
	}
	g.Expect(testing.AllocsPerRun(100, func() { known.remember(nil, nil); known.conclude(inspect.Succeeded, nil, nil) })).To(BeZero())
	g.Expect(c.histories.byKey).To(HaveLen(historyKeys))
}

// One is the reconcile, and four are the standard library's context with its
// deadline.
func TestAReconcileWithoutAnEffectAllocatesItsContextAlone(t *testing.T) {
	g := NewWithT(t)
	cached := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "a"}}
	in := informer.For(fake.NewClientset(cached).CoreV1().ConfigMaps("d"), &informer.Options{MutationCheck: "never"})
	ended := make(chan error, 1)
	running, stop := context.WithCancel(t.Context())
	go func() { ended <- in.Run(running) }()
	defer func() { stop(); g.Expect(<-ended).To(Succeed()) }()
	g.Expect(in.WaitForSync(running)).To(Succeed())
	c, err := New("test", in, Func[*corev1.ConfigMap](
		func(context.Context, Request[*corev1.ConfigMap]) (Result, error) { return Result{}, nil }), nil)
	g.Expect(err).NotTo(HaveOccurred())
	ctx := context.WithoutCancel(t.Context())
	worker := c.watchdog.register()
	once := func() {
		c.queue.Add(Key{Namespace: "d", Name: "a"})
		item, _ := c.queue.Get(ctx)
		c.reconcileOnce(ctx, item, worker)
	}
	for range historyLength {
		once()
	}
	g.Expect(testing.AllocsPerRun(100, once)).To(BeNumerically("<=", 5))
}

// The call allocates its context, and the records of the call and its keys, but
// no timer besides the timer of the context.
func TestAQuickCallOfAMapperMakesNoTimerOfItsOwn(t *testing.T) {
	g := NewWithT(t)
	in := informer.For(fake.NewClientset().CoreV1().ConfigMaps("d"), nil)
	trigger := Mapped(in, func(context.Context, *corev1.ConfigMap, *corev1.ConfigMap) ([]Key, error) { return nil, nil })
	c, err := New("test", in, Func[*corev1.ConfigMap](
		func(context.Context, Request[*corev1.ConfigMap]) (Result, error) { return Result{}, nil }),
		&Options{Triggers: []Trigger{trigger}})
	g.Expect(err).NotTo(HaveOccurred())
	m := &mapping[*corev1.ConfigMap]{
		mapped: trigger.(mapped[*corev1.ConfigMap]), intake: &c.intake, queue: newTestQueue(g), feed: feedOf(in),
		events: map[Key]waitingEvent[*corev1.ConfigMap]{},
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	worker := c.watchdog.register()
	once := func() {
		m.add(informer.Event[*corev1.ConfigMap]{New: &corev1.ConfigMap{}, Type: informer.Added})
		item, _ := m.queue.Get(ctx)
		e, _ := m.take(item.Key())
		m.serve(ctx, worker, item, e)
	}
	g.Expect(testing.AllocsPerRun(100, once)).To(BeNumerically("<=", 8))
}

// Client-go asks for it several times a request.
func TestTheLoggerOfAReconcileIsMadeOnce(t *testing.T) {
	g := NewWithT(t)
	in := informer.For(fake.NewClientset().CoreV1().ConfigMaps("d"), nil)
	c := &core{intake: intake{queue: newTestQueue(g)}, primary: typed[*corev1.ConfigMap]{in}}
	c.queue.Add(Key{Name: "a"})
	item, err := c.queue.Get(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	var logged []string
	log := funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{})
	ctx := &reconcileContext{recorder: recorder{control: c}, item: item}
	ctx.Context = logr.NewContext(t.Context(), log)
	g.Expect(testing.AllocsPerRun(100, func() { logr.FromContextOrDiscard(ctx) })).To(BeZero())
	logr.FromContextOrDiscard(ctx).Info("hello")
	g.Expect(logged).To(ConsistOf(ContainSubstring(`"name"="a"`)))
}

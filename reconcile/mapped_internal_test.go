package reconcile

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/homeostat/homeostat/informer"
)

// A mapper gets the oldest state that it has not seen, and the newest.
func TestEventsThatWaitForAMapperAreMerged(t *testing.T) {
	type event = informer.Event[*corev1.ConfigMap]
	one, two, three := written("1", ""), written("2", ""), written("3", "")
	for name, c := range map[string]struct{ first, second, want event }{
		"added, updated": {
			event{New: one, Type: informer.Added, Initial: true},
			event{Old: one, New: two, Type: informer.Updated},
			event{New: two, Type: informer.Added},
		},
		"added, deleted": {
			event{New: one, Type: informer.Added},
			event{Old: two, Type: informer.Deleted},
			event{Old: two, Type: informer.Deleted},
		},
		"updated twice": {
			event{Old: one, New: two, Type: informer.Updated},
			event{Old: two, New: three, Type: informer.Updated},
			event{Old: one, New: three, Type: informer.Updated},
		},
		"updated, deleted": {
			event{Old: one, New: two, Type: informer.Updated},
			event{Old: two, Type: informer.Deleted},
			event{Old: one, Type: informer.Deleted},
		},
		"deleted, added": {
			event{Old: one, Type: informer.Deleted},
			event{New: three, Type: informer.Added},
			event{Old: one, New: three, Type: informer.Updated},
		},
		"known, and known again": {
			event{New: one, Type: informer.Added, Initial: true},
			event{Old: one, New: two, Type: informer.Updated, Initial: true},
			event{New: two, Type: informer.Added, Initial: true},
		},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(merged(c.first, c.second)).To(Equal(c.want)) })
	}
}

// The timer may fire when the call has just returned. Then the worker must not
// be relieved, and running may have ended.
func TestAMapperThatHasReturnedIsNotRelieved(t *testing.T) {
	m, idle := &mapping[*corev1.ConfigMap]{}, &worker{}
	m.relieve(t.Context(), nil, idle)
	NewWithT(t).Expect(idle.replaced).To(BeFalse())
}

// An event may be taken with the one before it, when its key has yet to be
// added to the queue.
func TestAMapperIsNotCalledWithoutAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		in := informer.For(fake.NewClientset().CoreV1().ConfigMaps("d"), nil)
		calls := 0
		mapper := func(context.Context, *corev1.ConfigMap, *corev1.ConfigMap) ([]Key, error) {
			calls++
			return nil, nil
		}
		m := &mapping[*corev1.ConfigMap]{
			mapped: mapped[*corev1.ConfigMap]{cache: in, f: mapper},
			queue:  newTestQueue(g), feed: feedOf(in), events: map[Key]waitingEvent[*corev1.ConfigMap]{},
			intake: &intake{watchdog: newWatchdog(func(call, string) {}, func(_ call, _, _ string) {}), timeout: time.Minute},
		}
		ctx, stop := context.WithCancel(t.Context())
		go m.run(ctx)
		m.queue.Add(Key{Namespace: "d", Name: "a"})
		synctest.Wait()
		g.Expect(calls).To(BeZero())
		m.add(informer.Event[*corev1.ConfigMap]{Type: informer.Added, New: written("1", "")})
		synctest.Wait()
		g.Expect(calls).To(Equal(1), "the key is not in work any more")
		stop()
		synctest.Wait()
		g.Expect(m.intake.watchdog.list()).To(BeEmpty())
	})
}

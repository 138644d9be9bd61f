package observer

import (
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/reconcile"
)

// inQuestion calls f with an object that was observed and has left the cache,
// twice. asked returns when it was asked about.
func inQuestion(t *testing.T, f func(g *WithT, l *leavers, key reconcile.Key, asked func() []time.Duration)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g, began, times := NewWithT(t), time.Now(), make(chan time.Duration, 1000)
		l := &leavers{memory: newMemory(), timers: map[reconcile.Key]*time.Timer{}, enqueue: func(...reconcile.Key) {
			times <- time.Since(began)
		}}
		key := reconcile.Key{Namespace: "d", Name: "a"}
		l.memory.begin(key, version{uid: "u", resourceVersion: "1"})
		l.add(key)
		l.add(key)
		f(g, l, key, func() (all []time.Duration) {
			<-time.After(10 * time.Second)
			for len(times) > 0 {
				all = append(all, <-times)
			}
			return all
		})
	})
}

func TestOneTimerAsksAboutAnObjectThatHasLeftTheSelection(t *testing.T) {
	inQuestion(t, func(g *WithT, l *leavers, _ reconcile.Key, asked func() []time.Duration) {
		g.Expect(asked()).To(Equal([]time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second}))
		l.stop()
		g.Expect(l.questions()).To(BeZero())
	})
}

func TestQuestionsAboutAnObjectThatHasLeftTheSelectionEnd(t *testing.T) {
	for name, end := range map[string]func(l *leavers, key reconcile.Key){
		"the reconciler knows": func(l *leavers, key reconcile.Key) { l.memory.beginDelete(key) },
		"it has returned":      func(l *leavers, key reconcile.Key) { l.returned(key) },
		"the program stops":    func(l *leavers, _ reconcile.Key) { l.stop() },
	} {
		t.Run(name, func(t *testing.T) {
			inQuestion(t, func(g *WithT, l *leavers, key reconcile.Key, asked func() []time.Duration) {
				g.Expect(asked()).To(HaveLen(4))
				end(l, key)
				g.Expect(asked()).To(BeEmpty())
				g.Expect(l.questions()).To(BeZero())
				g.Expect(asked()).To(BeEmpty())
			})
		})
	}
}

func TestWhatWasNeverObservedIsNotAskedAbout(t *testing.T) {
	inQuestion(t, func(g *WithT, l *leavers, key reconcile.Key, asked func() []time.Duration) {
		l.stop()
		other := reconcile.Key{Namespace: "d", Name: "b"}
		l.add(other)
		g.Expect(asked()).To(BeEmpty())
		g.Expect(l.questions()).To(BeZero(), "%v", key)
	})
}

// questions counts the objects that are asked about.
func (l *leavers) questions() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.timers)
}

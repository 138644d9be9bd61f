package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/slots"
	"github.com/homeostat/homeostat/reconcile"
)

// handing are shards that hand keys over to the next owner.
type handing struct {
	*parts
	mu   sync.Mutex
	keys map[int][]reconcile.Key
}

func (h *handing) Parts() slots.Handover { return h }

func (*handing) Owners() ([]slots.Status, float64) { return nil, 0 }

func (h *handing) Leave(slot int, keys []reconcile.Key) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.keys[slot] = keys
}

func (h *handing) Left(slot int) []reconcile.Key {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.keys[slot]
}

func TestACleanUpThatHasNotSucceededMovesWithItsSlot(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a1", "a2", "a3", "b1")
		p := &handing{parts: newParts(), keys: map[int][]reconcile.Key{}}
		var broken atomic.Bool
		broken.Store(true)
		stop := w.start(&reconcile.Options{Shards: p}, func(_ context.Context, r request) (reconcile.Result, error) {
			_, live := r.Object()
			w.ran(fmt.Sprint(r.Key.Name, " ", live))
			switch {
			case live || !broken.Load():
				return nothing, nil
			case r.Key.Name == "a2":
				return reconcile.After(time.Hour), nil
			}
			return nothing, errors.New("the outside system is down")
		})
		pass(time.Second)
		p.take('a')
		p.take('b')
		pass(time.Second)
		w.delete("a1")
		w.delete("a2")
		w.delete("b1")
		pass(10 * time.Minute)
		w.Expect(w.reconciled()).To(ContainElements("a1 false", "a2 false", "b1 false"))
		w.Expect(p.leave('a', errMoves)()).To(Succeed())
		w.Expect(p.Left('a')).To(ConsistOf(
			reconcile.Key{Namespace: "d", Name: "a1"}, reconcile.Key{Namespace: "d", Name: "a2"}))
		w.Expect(p.Left('b')).To(BeEmpty())
		pass(time.Hour)
		w.reconciled()
		broken.Store(false)
		p.take('a')
		pass(time.Second)
		w.Expect(w.reconciled()).To(ContainElements("a1 false", "a2 false", "a3 true"))
		w.Expect(p.leave('a', errMoves)()).To(Succeed())
		w.Expect(p.Left('a')).To(BeEmpty(), "they have been cleaned up")
		w.Expect(stop()).To(Succeed())
	})
}

func TestAKeyThatWasLeftMovesOnWithItsSlotBeforeItsFirstReconcile(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("b1")
		deleted := reconcile.Key{Namespace: "d", Name: "a1"}
		p := &handing{parts: newParts(), keys: map[int][]reconcile.Key{'a': {deleted, {Namespace: "d", Name: "of-another-slot"}}}}
		busy := make(chan struct{})
		stop := w.start(&reconcile.Options{Shards: p, Workers: 1}, func(_ context.Context, r request) (reconcile.Result, error) {
			if w.ran(r.Key.Name); r.Key.Name == "b1" {
				<-busy
			}
			return nothing, nil
		})
		pass(time.Second)
		p.take('b')
		pass(time.Second)
		p.take('a')
		pass(time.Second)
		w.Expect(p.leave('a', errMoves)()).To(Succeed())
		w.Expect(w.reconciled()).To(Equal([]string{"b1"}), "the worker is busy")
		w.Expect(p.Left('a')).To(Equal([]reconcile.Key{deleted}))
		p.take('a')
		close(busy)
		pass(time.Second)
		w.Expect(w.reconciled()).To(ContainElement("a1"))
		w.Expect(p.leave('a', errMoves)()).To(Succeed())
		w.Expect(p.Left('a')).To(BeEmpty())
		w.Expect(stop()).To(Succeed())
	})
}

// The next owner may have started after the deletion: then nothing else leads
// it there.
func TestADeletionThatWaitsForItsReconcileMovesWithItsSlot(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a1", "a2")
		p := &handing{parts: newParts(), keys: map[int][]reconcile.Key{}}
		busy := make(chan struct{})
		stop := w.start(&reconcile.Options{Shards: p, Workers: 1}, func(_ context.Context, r request) (reconcile.Result, error) {
			_, live := r.Object()
			if w.ran(fmt.Sprint(r.Key.Name, " ", live)); r.Key.Name == "a3" {
				<-busy
			}
			return nothing, nil
		})
		pass(time.Second)
		p.take('a')
		w.Expect(w.reconciled()).To(ConsistOf("a1 true", "a2 true"))
		w.create("a3")
		w.Expect(w.reconciled()).To(Equal([]string{"a3 true"}))
		w.create("a4", "a5", "b1")
		for _, name := range []string{"a1", "a3", "a4", "b1"} {
			w.delete(name)
		}
		w.Expect(w.reconciled()).To(BeEmpty(), "the worker is busy with a3, which was there when it began")
		left := p.leave('a', errMoves)
		pass(time.Second)
		close(busy)
		w.Expect(left()).To(Succeed())
		w.Expect(p.Left('a')).To(ConsistOf(key("a1"), key("a3"), key("a4")))
		w.Expect(w.reconciled()).To(BeEmpty())
		w.Expect(stop()).To(Succeed())
	})
}

// A namespace that is being collected must not push out a key to which nothing
// else leads the next owner.
func TestAFailedCleanUpIsHandedOverBeforeThoseThatWait(t *testing.T) {
	inFixture(t, func(w *fixture) {
		var names []string
		for n := range 100 {
			names = append(names, fmt.Sprint("a", n))
		}
		w.create(names...)
		p := &handing{parts: newParts(), keys: map[int][]reconcile.Key{'a': {key("a-left")}}}
		busy := make(chan struct{})
		stop := w.start(&reconcile.Options{Shards: p, Workers: 1}, func(_ context.Context, r request) (reconcile.Result, error) {
			if _, live := r.Object(); !live && (r.Key.Name == "a7" || r.Key.Name == "a-left") {
				w.ran(r.Key.Name)
				return reconcile.After(10 * time.Second), nil
			}
			if r.Key.Name == "b" {
				<-busy
			}
			return nothing, nil
		})
		pass(time.Second)
		p.take('a')
		p.take('b')
		pass(time.Second)
		w.delete("a7")
		pass(time.Second)
		w.Expect(w.reconciled()).To(ContainElements("a7", "a-left"))
		w.create("b")
		pass(time.Second)
		for n, name := range names {
			if n != 7 {
				w.delete(name)
			}
		}
		w.create("a3")
		pass(time.Minute)
		w.Expect(w.reconciled()).To(BeEmpty(), "the worker is busy")
		w.Expect(p.leave('a', errMoves)()).To(Succeed())
		left := p.Left('a')
		w.Expect(left).To(HaveLen(100), "two have failed and 99 wait, of which one is live again")
		w.Expect(left[:2]).To(ConsistOf(key("a7"), key("a-left")))
		w.Expect(left).NotTo(ContainElement(key("a3")))
		close(busy)
		w.Expect(stop()).To(Succeed())
	})
}

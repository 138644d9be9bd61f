package leader_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// touch edits an annotation of a Lease every ten seconds, as a tool that stamps objects does.
func (w *trial) touch(name string) (stop func()) {
	return w.run(func(ctx context.Context) error {
		for n := 0; ctx.Err() == nil; n++ {
			if l, err := w.api.get(name); err == nil {
				l.Annotations = map[string]string{"touched": fmt.Sprint(n)}
				_, _ = w.api.update(l)
			}
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Second):
			}
		}
		return nil
	})
}

func TestALeaseThatOnlyOthersTouchExpires(t *testing.T) {
	inTrial(t, func(w *trial) {
		dying := w.api.link(1)
		a, b := newElector(w.t, leaseOf(dying, "a"), nil), w.elector("b")
		stopA := w.campaign(a, "a")
		pass(time.Second)
		stopB := w.campaign(b, "b")
		pass(5 * time.Second)
		open := make(chan struct{})
		dying.set(func(l *link) { l.cut = open })
		rest := w.touch("test")
		pass(18 * time.Second)
		w.Expect(w.read()).To(Equal([]string{"a leads", "a ends: fenced", "b leads"}))
		dying.set(func(l *link) { l.cut = nil })
		close(open)
		rest()
		stopA()
		stopB()
	})
}

func TestALeaseThatOthersTouchIsRenewedByItsLeader(t *testing.T) {
	inTrial(t, func(w *trial) {
		a, b := w.elector("a"), w.elector("b")
		stopA := w.campaign(a, "a")
		pass(time.Second)
		stopB := w.campaign(b, "b")
		rest := w.touch("test")
		pass(time.Hour)
		w.Expect(w.read()).To(Equal([]string{"a leads"}))
		rest()
		stopA()
		stopB()
	})
}

func TestTheRecordOfADeadMemberThatOthersTouchExpires(t *testing.T) {
	inTrial(t, func(w *trial) {
		a, b := w.shards("a", nil), w.shards("b", nil)
		pass(time.Minute)
		b.die()
		rest := w.touch("test-member-b")
		pass(25 * time.Second)
		w.Expect(w.shares()).To(Equal(map[string]int{"a": 64}))
		rest()
		a.end()
	})
}

func TestASlotThatOthersTouchCanStillBeTaken(t *testing.T) {
	inTrial(t, func(w *trial) {
		a := w.shards("a", nil)
		pass(10 * time.Second)
		var rests []func()
		for slot := range 64 {
			rests = append(rests, w.touch(fmt.Sprintf("test-slot-%d", slot)))
		}
		pass(15 * time.Second)
		b := w.shards("b", nil)
		pass(time.Minute)
		w.Expect(w.shares()).To(Equal(map[string]int{"a": 32, "b": 32}))
		for _, rest := range rests {
			rest()
		}
		a.end()
		b.end()
	})
}

package leader_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/test/leaseapi"
)

// touch edits an annotation of a Lease every ten seconds, as a tool that stamps objects does.
func (x *fixture) touch(name string) (stop func()) {
	return x.run(func(ctx context.Context) error {
		for n := 0; ctx.Err() == nil; n++ {
			if l, err := x.api.Get(name); err == nil {
				l.Annotations = map[string]string{"touched": fmt.Sprint(n)}
				_, _ = x.api.Update(l)
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
	inBubble(t, func(x *fixture) {
		dying := x.api.Link(1)
		a, b := newElector(x.t, leaseOf(dying, "a"), nil), x.elector("b")
		stopA := x.campaign(a, "a")
		pass(time.Second)
		stopB := x.campaign(b, "b")
		pass(5 * time.Second)
		open := make(chan struct{})
		dying.Set(func(l *leaseapi.Link) { l.Cut = open })
		rest := x.touch("test")
		pass(18 * time.Second)
		x.Expect(x.read()).To(Equal([]string{"a leads", "a ends: fenced", "b leads"}))
		dying.Set(func(l *leaseapi.Link) { l.Cut = nil })
		close(open)
		rest()
		stopA()
		stopB()
	})
}

func TestALeaseThatOthersTouchIsRenewedByItsLeader(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a, b := x.elector("a"), x.elector("b")
		stopA := x.campaign(a, "a")
		pass(time.Second)
		stopB := x.campaign(b, "b")
		rest := x.touch("test")
		pass(time.Hour)
		x.Expect(x.read()).To(Equal([]string{"a leads"}))
		rest()
		stopA()
		stopB()
	})
}

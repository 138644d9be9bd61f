package leader_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/test/leaseapi"
)

func TestALeaseThatOnlyOthersTouchExpires(t *testing.T) {
	inBubble(t, func(x *fixture) {
		dying := x.API.Link(1)
		a, b := newElector(x.T, leaseOf(dying, "a"), nil), x.elector("b")
		stopA := x.campaign(a, "a")
		pass(time.Second)
		stopB := x.campaign(b, "b")
		pass(5 * time.Second)
		open := make(chan struct{})
		dying.Set(func(l *leaseapi.Link) { l.Cut = open })
		rest := x.Touch("test")
		pass(18 * time.Second)
		x.Expect(x.Read()).To(Equal([]string{"a leads", "a ends: fenced", "b leads"}))
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
		rest := x.Touch("test")
		pass(time.Hour)
		x.Expect(x.Read()).To(Equal([]string{"a leads"}))
		rest()
		stopA()
		stopB()
	})
}

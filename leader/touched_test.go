package leader_test

import (
	"math"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// A Lease that is not renewed is taken over, regardless of the contents of its
// fields, and remains a Lease that a server accepts.
func TestALeaseOfADeadHolderIsTakenOverWhateverItContains(t *testing.T) {
	const decade = 10 * 365 * 24 * time.Hour
	for name, edit := range map[string]func(l *coordinationv1.LeaseSpec){
		"renewed ten years ago":     func(l *coordinationv1.LeaseSpec) { l.RenewTime.Time = l.RenewTime.Add(-decade) },
		"renewed in ten years":      func(l *coordinationv1.LeaseSpec) { l.RenewTime.Time = l.RenewTime.Add(decade) },
		"never renewed":             func(l *coordinationv1.LeaseSpec) { l.RenewTime, l.AcquireTime = nil, nil },
		"without a duration":        func(l *coordinationv1.LeaseSpec) { l.LeaseDurationSeconds = nil },
		"as many holders as can be": func(l *coordinationv1.LeaseSpec) { l.LeaseTransitions = new(int32(math.MaxInt32)) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(x *fixture) {
				now := metav1.NowMicro()
				dead := &coordinationv1.Lease{
					ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "test"},
					Spec: coordinationv1.LeaseSpec{
						HolderIdentity: new("dead"), LeaseDurationSeconds: new(int32(15)), RenewTime: now.DeepCopy(), AcquireTime: now.DeepCopy(),
					},
				}
				edit(&dead.Spec)
				_, err := x.API.Create(dead)
				x.Expect(err).NotTo(HaveOccurred())
				stop := x.campaign(x.elector("a"), "a")
				pass(20 * time.Second)
				x.Expect(x.Read()).To(Equal([]string{"a leads"}))
				taken, err := x.API.Get("test")
				x.Expect(err).NotTo(HaveOccurred())
				x.Expect(*taken.Spec.LeaseTransitions).To(BeNumerically(">", 0))
				stop()
			})
		})
	}
}

package leader_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

// replaying is a client behind a cache: while old is set, a write does not
// reach the server, and is answered with old.
type replaying struct {
	coordinationclient.LeaseInterface
	last, old atomic.Pointer[coordinationv1.Lease]
}

func (c *replaying) Leases(string) coordinationclient.LeaseInterface { return c }

func (c *replaying) Update(
	ctx context.Context, l *coordinationv1.Lease, o metav1.UpdateOptions,
) (*coordinationv1.Lease, error) {
	if old := c.old.Load(); old != nil {
		return old.DeepCopy(), nil
	}
	got, err := c.LeaseInterface.Update(ctx, l, o)
	if err == nil {
		c.last.Store(got.DeepCopy())
	}
	return got, err
}

// The answer has our holder and another resourceVersion than the request, but
// it is the answer to an earlier renewal. The standby takes the Lease, and the
// leader has ended before.
func TestTheAnswerToAnEarlierRenewalIsNoRenewal(t *testing.T) {
	inBubble(t, func(x *fixture) {
		client := &replaying{LeaseInterface: x.API.Link(1)}
		lease := leaseOf(nil, "a")
		lease.Client = client
		stopA := x.campaign(newElector(x.T, lease, nil), "a")
		pass(5 * time.Second)
		earlier := client.last.Load()
		pass(5 * time.Second)
		stopB := x.campaign(x.elector("b"), "b")
		pass(5 * time.Second)
		client.old.Store(earlier)
		pass(20 * time.Second)
		x.Expect(x.Read()).To(Equal([]string{"a leads", "a ends: fenced", "b leads"}))
		client.old.Store(nil)
		stopA()
		stopB()
	})
}

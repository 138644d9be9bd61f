package leader_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/homeostat/homeostat/leader"
)

// diary is what happened, in order.
type diary struct {
	mu      sync.Mutex
	entries []string
}

func (d *diary) add(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.entries = append(d.entries, fmt.Sprintf(format, args...))
}

func (d *diary) read() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string{}, d.entries...)
}

func leaseOf(l *link, identity string) leader.Lease {
	return leader.Lease{Client: l, Namespace: "default", Name: "test", Identity: identity}
}

func newElector(t *testing.T, l leader.Lease, o *leader.Options) *leader.Elector {
	t.Helper()
	e, err := leader.New(l, o)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return e
}

// causeOf names the sentinel in a cause.
func causeOf(ctx context.Context) string {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, leader.ErrLost):
		return "lost"
	case errors.Is(cause, leader.ErrStopping):
		return "stopping"
	case errors.Is(cause, leader.ErrFenced):
		return "fenced"
	default:
		return fmt.Sprint(cause)
	}
}

// background runs f and returns a function that waits for its error.
func background(f func() error) (wait func() error) {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return func() error { return <-done }
}

func untilDone(d *diary, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		d.add("%s leads", name)
		<-ctx.Done()
		d.add("%s ends: %s", name, causeOf(ctx))
		return nil
	}
}

func TestRunLeadsAndReleasesOnAFakeClientset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		client := fake.NewClientset()
		lease := leader.Lease{Client: client.CoordinationV1(), Namespace: "default", Name: "test", Identity: "a"}
		ctx, cancel := context.WithCancel(t.Context())
		var d diary
		wait := background(func() error { return leader.Run(ctx, lease, nil, untilDone(&d, "a")) })
		pass(time.Minute)
		cancel()
		g.Expect(wait()).To(Succeed())
		g.Expect(d.read()).To(Equal([]string{"a leads", "a ends: stopping"}))
	})
}

func TestLeaseIsReleasedOnlyAfterTheFunctionReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		api := newLeaseAPI(t)
		e := newElector(t, leaseOf(api.link(1), "a"), nil)
		ctx, cancel := context.WithCancel(t.Context())
		var d diary
		wait := background(func() error {
			return e.Run(ctx, func(ctx context.Context) error {
				<-ctx.Done()
				d.add("%s", causeOf(ctx))
				pass(time.Minute) // drains for four lease durations
				d.add("drained, still leading: %v", e.Status().Leading)
				return nil
			})
		})
		other := newElector(t, leaseOf(api.link(2), "b"), nil)
		pass(time.Second)
		ctx2, cancel2 := context.WithCancel(t.Context())
		wait2 := background(func() error { return other.Run(ctx2, untilDone(&d, "b")) })
		pass(time.Minute)
		cancel()
		g.Expect(wait()).To(Succeed())
		l, err := api.get("test")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(l.Spec.HolderIdentity).To(BeNil())
		pass(3 * time.Second)
		cancel2()
		g.Expect(wait2()).To(Succeed())
		g.Expect(d.read()).To(Equal([]string{
			"stopping", "drained, still leading: true", "b leads", "b ends: stopping",
		}))
	})
}

func TestLossIsCampaignedForAgainInTheSameProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		api := newLeaseAPI(t)
		a := api.link(1)
		e := newElector(t, leaseOf(a, "a"), nil)
		ctx, cancel := context.WithCancel(t.Context())
		var d diary
		wait := background(func() error { return e.Run(ctx, untilDone(&d, "a")) })
		pass(time.Second)
		start := time.Now()

		open := make(chan struct{})
		a.set(func(l *link) { l.cut = open })
		pass(8 * time.Second)
		g.Expect(e.Status().Leading).To(BeTrue())
		pass(3 * time.Second)
		g.Expect(e.Status().Leading).To(BeFalse())
		g.Expect(e.Ready()).To(MatchError(ContainSubstring("deadline exceeded")))
		g.Expect(time.Since(start)).To(BeNumerically("<", leader.DefaultLeaseDuration))
		a.set(func(l *link) { l.cut = nil })
		close(open)
		pass(20 * time.Second)
		cancel()
		g.Expect(wait()).To(Succeed())
		g.Expect(d.read()).To(Equal([]string{"a leads", "a ends: fenced", "a leads", "a ends: stopping"}))
	})
}

func TestLeaseTakenByForceIsLost(t *testing.T) {
	for name, steal := range map[string]func(*leaseAPI){
		"another holder": func(api *leaseAPI) {
			l, _ := api.get("test")
			l.Spec.HolderIdentity = new("thief")
			_, _ = api.update(l)
		},
		"deleted": func(api *leaseAPI) { api.delete("test") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				api := newLeaseAPI(t)
				e := newElector(t, leaseOf(api.link(1), "a"), nil)
				ctx, cancel := context.WithCancel(t.Context())
				var d diary
				wait := background(func() error { return e.Run(ctx, untilDone(&d, "a")) })
				pass(time.Second)
				steal(api)
				pass(3 * time.Second)
				g.Expect(d.read()).To(Equal([]string{"a leads", "a ends: lost"}))
				pass(20 * time.Second)
				cancel()
				g.Expect(wait()).To(Succeed())
				g.Expect(d.read()).To(Equal([]string{"a leads", "a ends: lost", "a leads", "a ends: stopping"}))
			})
		})
	}
}

func TestStandbyWaitsAfterTheLeaseItWatchedWasDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		api := newLeaseAPI(t)
		cut := api.link(1)
		a, b := newElector(t, leaseOf(cut, "a"), nil), newElector(t, leaseOf(api.link(2), "b"), nil)
		ctx, cancel := context.WithCancel(t.Context())
		var d diary
		waitA := background(func() error { return a.Run(ctx, untilDone(&d, "a")) })
		pass(time.Second)
		waitB := background(func() error { return b.Run(ctx, untilDone(&d, "b")) })
		pass(5 * time.Second)
		open := make(chan struct{})
		cut.set(func(l *link) { l.cut = open })
		api.delete("test")
		pass(20 * time.Second)
		g.Expect(d.read()).To(Equal([]string{"a leads", "a ends: fenced", "b leads"}))
		close(open)
		cancel()
		g.Expect(waitA()).To(Succeed())
		g.Expect(waitB()).To(Succeed())
	})
}

func TestLostAnswersDoNotEndALeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		api := newLeaseAPI(t)
		a := api.link(7)
		a.loseTell = 0.1
		e := newElector(t, leaseOf(a, "a"), &leader.Options{
			LeaseDuration: 60 * time.Second, RetryPeriod: time.Second,
			RequestTimeout: 3 * time.Second,
		})
		ctx, cancel := context.WithCancel(t.Context())
		var d diary
		wait := background(func() error { return e.Run(ctx, untilDone(&d, "a")) })
		pass(time.Hour)
		a.set(func(l *link) { l.loseTell = 0 })
		cancel()
		g.Expect(wait()).To(Succeed())
		g.Expect(d.read()).To(Equal([]string{"a leads", "a ends: stopping"}))
		l, err := api.get("test")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(l.Spec.HolderIdentity).To(BeNil())
		g.Expect(*l.Spec.LeaseTransitions).To(BeEquivalentTo(1))
	})
}

func TestRunReturnsWhatTheFunctionReturned(t *testing.T) {
	for _, want := range []error{nil, errors.New("broken")} {
		t.Run(fmt.Sprint(want), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				api := newLeaseAPI(t)
				fn := func(context.Context) error { return want }
				err := leader.Run(t.Context(), leaseOf(api.link(1), "a"), nil, fn)
				if want == nil {
					g.Expect(err).NotTo(HaveOccurred())
				} else {
					g.Expect(err).To(MatchError(want))
				}
				l, err := api.get("test")
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(l.Spec.HolderIdentity).To(BeNil())
			})
		})
	}
}

func TestPanicLeavesTheLeaseToExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		api := newLeaseAPI(t)
		e := newElector(t, leaseOf(api.link(1), "a"), nil)
		g.Expect(func() {
			_ = e.Run(t.Context(), func(context.Context) error { panic("oops") })
		}).To(PanicWith("oops"))
		l, err := api.get("test")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(l.Spec.HolderIdentity).To(HaveValue(HavePrefix("a_")))
		g.Expect(e.Status().Leading).To(BeFalse())
	})
}

func TestSeveralFunctionsShareOneLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		api := newLeaseAPI(t)
		e := newElector(t, leaseOf(api.link(1), "a"), nil)
		first, stopFirst := context.WithCancel(t.Context())
		second, stopSecond := context.WithCancel(t.Context())
		var d diary
		wait1 := background(func() error { return e.Run(first, untilDone(&d, "1")) })
		pass(time.Second)
		wait2 := background(func() error { return e.Run(second, untilDone(&d, "2")) })
		pass(time.Second)
		stopFirst()
		g.Expect(wait1()).To(Succeed())
		pass(time.Minute)
		g.Expect(e.Status().Leading).To(BeTrue())
		stopSecond()
		g.Expect(wait2()).To(Succeed())
		g.Expect(d.read()).To(Equal([]string{"1 leads", "2 leads", "1 ends: stopping", "2 ends: stopping"}))
		l, err := api.get("test")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(l.Spec.HolderIdentity).To(BeNil())
		g.Expect(*l.Spec.LeaseTransitions).To(BeEquivalentTo(1))
	})
}

func TestTwoReplicasWithOneIdentityNeverLeadAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		api := newLeaseAPI(t)
		a, twin := newElector(t, leaseOf(api.link(1), "a"), nil), newElector(t, leaseOf(api.link(2), "a"), nil)
		ctx, cancel := context.WithCancel(t.Context())
		var d diary
		wait1 := background(func() error { return a.Run(ctx, untilDone(&d, "1")) })
		pass(time.Second)
		wait2 := background(func() error { return twin.Run(ctx, untilDone(&d, "2")) })
		pass(time.Minute)
		g.Expect(twin.Ready()).To(MatchError(ContainSubstring(`Lease.Identity "a" is also that of the live replica`)))
		g.Expect(a.Ready()).To(Succeed())
		g.Expect(d.read()).To(Equal([]string{"1 leads"}))
		cancel()
		g.Expect(wait1()).To(Succeed())
		g.Expect(wait2()).To(Succeed())
	})
}

func TestMissingPermissionsAreTheReasonNotToBeReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		api := newLeaseAPI(t)
		l := api.link(1)
		l.fail = apierrors.NewForbidden(leases, "test", errors.New("no RBAC policy matched"))
		e := newElector(t, leaseOf(l, "a"), nil)
		ctx, cancel := context.WithCancel(t.Context())
		var d diary
		wait := background(func() error { return e.Run(ctx, untilDone(&d, "a")) })
		pass(time.Minute)
		g.Expect(e.Ready()).To(MatchError(And(ContainSubstring("grant get, create and update on leases"),
			ContainSubstring(`namespace "default"`), ContainSubstring("no RBAC policy matched"))))
		g.Expect(e.Healthy()).To(Succeed(), "a restart does not help")
		g.Expect(e.Status().Problem).To(MatchError(ContainSubstring("grant")))
		l.set(func(l *link) { l.fail = nil })
		pass(5 * time.Second)
		g.Expect(e.Ready()).To(Succeed())
		cancel()
		g.Expect(wait()).To(Succeed())
	})
}

func TestMissingNamespaceIsTheReasonNotToBeReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		client := fake.NewClientset()
		client.PrependReactor("create", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "away")
		})
		e := newElector(t, leader.Lease{
			Client: client.CoordinationV1(), Namespace: "away", Name: "test", Identity: "a",
		}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		var d diary
		wait := background(func() error { return e.Run(ctx, untilDone(&d, "a")) })
		pass(time.Minute)
		g.Expect(e.Ready()).To(MatchError(And(ContainSubstring(`namespace "away" must exist`),
			ContainSubstring(`namespaces "away" not found`))))
		cancel()
		g.Expect(wait()).To(Succeed())
		g.Expect(d.read()).To(BeEmpty())
	})
}

func TestRequestThatNeverReturnsIsUnhealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		client := fake.NewClientset()
		hang := make(chan struct{})
		client.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			<-hang // deaf to contexts
			return false, nil, nil
		})
		e := newElector(t, leader.Lease{
			Client: client.CoordinationV1(), Namespace: "default", Name: "test", Identity: "a",
		}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		var d diary
		wait := background(func() error { return e.Run(ctx, untilDone(&d, "a")) })
		pass(16 * time.Second)
		g.Expect(d.read()).To(Equal([]string{"a leads", "a ends: fenced"}), "the deadline does not wait for the client")
		g.Expect(e.Healthy()).To(Succeed())
		pass(5 * time.Second)
		g.Expect(e.Healthy()).To(MatchError(ContainSubstring("a request has been under way")))
		close(hang)
		cancel()
		g.Expect(wait()).To(Succeed())
	})
}

func TestWorkThatOutlivesItsLeadershipIsUnhealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		api := newLeaseAPI(t)
		e := newElector(t, leaseOf(api.link(1), "a"), nil)
		ctx, cancel := context.WithCancel(t.Context())
		release := make(chan struct{})
		wait := background(func() error {
			return e.Run(ctx, func(context.Context) error { <-release; return nil })
		})
		pass(time.Second)
		api.delete("test")
		pass(leader.DefaultDrainTimeout)
		g.Expect(e.Healthy()).To(Succeed())
		pass(5 * time.Second)
		g.Expect(e.Healthy()).To(MatchError(ContainSubstring("after the leadership ended")))
		cancel()
		close(release)
		g.Expect(wait()).To(Succeed())
		g.Expect(e.Healthy()).To(Succeed())
	})
}

func TestStatusTellsWhoLeadsSinceWhen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		api := newLeaseAPI(t)
		a, b := newElector(t, leaseOf(api.link(1), "a"), nil), newElector(t, leaseOf(api.link(2), "b"), nil)
		g.Expect(a.String()).To(Equal("nobody leads"))
		g.Expect(a.Ready()).To(MatchError(ContainSubstring("nobody leads yet")))
		ctx, cancel := context.WithCancel(t.Context())
		var d diary
		start := time.Now()
		wait1 := background(func() error { return a.Run(ctx, untilDone(&d, "a")) })
		pass(time.Second)
		wait2 := background(func() error { return b.Run(ctx, untilDone(&d, "b")) })
		pass(time.Minute)
		sa, sb := a.Status(), b.Status()
		g.Expect(sa.Leading).To(BeTrue())
		g.Expect(sa.Since).To(Equal(start))
		g.Expect(sa.TrustedUntil).To(BeTemporally(">", time.Now().Add(7*time.Second)))
		g.Expect(sb.Leading).To(BeFalse())
		g.Expect(sb.Leader).To(Equal(sa.Identity))
		g.Expect(sb.Transitions).To(BeEquivalentTo(1))
		g.Expect(b.Ready()).To(Succeed())
		g.Expect(strings.HasPrefix(sb.String(), "a_")).To(BeTrue())
		cancel()
		g.Expect(wait1()).To(Succeed())
		g.Expect(wait2()).To(Succeed())
	})
}

// pass lets virtual time go by.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

package leader_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
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
	inTrial(t, func(w *trial) {
		client := fake.NewClientset()
		lease := leader.Lease{Client: client.CoordinationV1(), Namespace: "default", Name: "test", Identity: "a"}
		stop := w.run(func(ctx context.Context) error { return leader.Run(ctx, lease, nil, untilDone(w.diary, "a")) })
		pass(time.Minute)
		stop()
		w.Expect(w.read()).To(Equal([]string{"a leads", "a ends: stopping"}))
	})
}

func TestLeaseIsReleasedOnlyAfterTheFunctionReturned(t *testing.T) {
	inTrial(t, func(w *trial) {
		e := w.elector("a")
		stop := w.run(func(ctx context.Context) error {
			return e.Run(ctx, func(ctx context.Context) error {
				<-ctx.Done()
				w.add("%s", causeOf(ctx))
				pass(time.Minute) // drains for four lease durations
				w.add("drained, still leading: %v", e.Status().Leading)
				return nil
			})
		})
		other := w.elector("b")
		pass(time.Second)
		stopOther := w.campaign(other, "b")
		pass(time.Minute)
		stop()
		w.released("test")
		pass(3 * time.Second)
		stopOther()
		w.Expect(w.read()).To(Equal([]string{
			"stopping", "drained, still leading: true", "b leads", "b ends: stopping",
		}))
	})
}

func TestLossIsCampaignedForAgainInTheSameProcess(t *testing.T) {
	inTrial(t, func(w *trial) {
		a := w.api.link(1)
		e := newElector(w.t, leaseOf(a, "a"), nil)
		stop := w.campaign(e, "a")
		pass(time.Second)
		start := time.Now()

		open := make(chan struct{})
		a.set(func(l *link) { l.cut = open })
		pass(8 * time.Second)
		w.Expect(e.Status().Leading).To(BeTrue())
		pass(3 * time.Second)
		w.Expect(e.Status().Leading).To(BeFalse())
		w.Expect(e.Ready()).To(MatchError(ContainSubstring("deadline exceeded")))
		w.Expect(time.Since(start)).To(BeNumerically("<", leader.DefaultLeaseDuration))
		a.set(func(l *link) { l.cut = nil })
		close(open)
		pass(20 * time.Second)
		stop()
		w.Expect(w.read()).To(Equal([]string{"a leads", "a ends: fenced", "a leads", "a ends: stopping"}))
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
			inTrial(t, func(w *trial) {
				e := w.elector("a")
				stop := w.campaign(e, "a")
				pass(time.Second)
				steal(w.api)
				pass(3 * time.Second)
				w.Expect(w.read()).To(Equal([]string{"a leads", "a ends: lost"}))
				pass(20 * time.Second)
				stop()
				w.Expect(w.read()).To(Equal([]string{"a leads", "a ends: lost", "a leads", "a ends: stopping"}))
			})
		})
	}
}

func TestStandbyWaitsAfterTheLeaseItWatchedWasDeleted(t *testing.T) {
	inTrial(t, func(w *trial) {
		cut := w.api.link(1)
		a, b := newElector(w.t, leaseOf(cut, "a"), nil), w.elector("b")
		stopA := w.campaign(a, "a")
		pass(time.Second)
		stopB := w.campaign(b, "b")
		pass(5 * time.Second)
		open := make(chan struct{})
		cut.set(func(l *link) { l.cut = open })
		w.api.delete("test")
		pass(20 * time.Second)
		w.Expect(w.read()).To(Equal([]string{"a leads", "a ends: fenced", "b leads"}))
		close(open)
		stopA()
		stopB()
	})
}

func TestLostAnswersDoNotEndALeadership(t *testing.T) {
	inTrial(t, func(w *trial) {
		a := w.api.link(7)
		a.loseTell = 0.1
		e := newElector(w.t, leaseOf(a, "a"), &leader.Options{
			LeaseDuration: 60 * time.Second, RetryPeriod: time.Second,
			RequestTimeout: 3 * time.Second,
		})
		stop := w.campaign(e, "a")
		pass(time.Hour)
		a.set(func(l *link) { l.loseTell = 0 })
		stop()
		w.Expect(w.read()).To(Equal([]string{"a leads", "a ends: stopping"}))
		w.Expect(*w.released("test").Spec.LeaseTransitions).To(BeZero())
	})
}

func TestRunReturnsWhatTheFunctionReturned(t *testing.T) {
	for _, want := range []error{nil, errors.New("broken")} {
		t.Run(fmt.Sprint(want), func(t *testing.T) {
			inTrial(t, func(w *trial) {
				fn := func(context.Context) error { return want }
				err := leader.Run(w.t.Context(), leaseOf(w.api.link(1), "a"), nil, fn)
				if want == nil {
					w.Expect(err).NotTo(HaveOccurred())
				} else {
					w.Expect(err).To(MatchError(want))
				}
				w.released("test")
			})
		})
	}
}

func TestPanicLeavesTheLeaseToExpire(t *testing.T) {
	inTrial(t, func(w *trial) {
		e := w.elector("a")
		w.Expect(func() {
			_ = e.Run(w.t.Context(), func(context.Context) error { panic("oops") })
		}).To(PanicWith("oops"))
		l, err := w.api.get("test")
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(l.Spec.HolderIdentity).To(HaveValue(HavePrefix("a_")))
		w.Expect(e.Status().Leading).To(BeFalse())
	})
}

func TestSeveralFunctionsShareOneLease(t *testing.T) {
	inTrial(t, func(w *trial) {
		e := w.elector("a")
		stop1 := w.campaign(e, "1")
		pass(time.Second)
		stop2 := w.campaign(e, "2")
		pass(time.Second)
		stop1()
		pass(time.Minute)
		w.Expect(e.Status().Leading).To(BeTrue())
		stop2()
		w.Expect(w.read()).To(Equal([]string{"1 leads", "2 leads", "1 ends: stopping", "2 ends: stopping"}))
		w.Expect(*w.released("test").Spec.LeaseTransitions).To(BeZero())
	})
}

func TestTwoReplicasWithOneIdentityNeverLeadAtOnce(t *testing.T) {
	inTrial(t, func(w *trial) {
		a, twin := w.elector("a"), w.elector("a")
		stop1 := w.campaign(a, "1")
		pass(time.Second)
		stop2 := w.campaign(twin, "2")
		pass(time.Minute)
		w.Expect(twin.Ready()).To(MatchError(ContainSubstring(`Lease.Identity "a" is also that of the live replica`)))
		w.Expect(a.Ready()).To(Succeed())
		w.Expect(w.read()).To(Equal([]string{"1 leads"}))
		stop1()
		stop2()
	})
}

func TestMissingPermissionsAreTheReasonNotToBeReady(t *testing.T) {
	inTrial(t, func(w *trial) {
		l := w.api.link(1)
		l.fail = apierrors.NewForbidden(leases, "test", errors.New("no RBAC policy matched"))
		e := newElector(w.t, leaseOf(l, "a"), nil)
		stop := w.campaign(e, "a")
		pass(time.Minute)
		w.Expect(e.Ready()).To(MatchError(And(ContainSubstring("grant get, create and update on leases"),
			ContainSubstring(`namespace "default"`), ContainSubstring("no RBAC policy matched"))))
		w.Expect(e.Healthy()).To(Succeed(), "a restart does not help")
		w.Expect(e.Status().Problem).To(MatchError(ContainSubstring("grant")))
		l.set(func(l *link) { l.fail = nil })
		pass(5 * time.Second)
		w.Expect(e.Ready()).To(Succeed())
		stop()
	})
}

func TestMissingNamespaceIsTheReasonNotToBeReady(t *testing.T) {
	inTrial(t, func(w *trial) {
		client := fake.NewClientset()
		client.PrependReactor("create", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "away")
		})
		e := newElector(w.t, leader.Lease{
			Client: client.CoordinationV1(), Namespace: "away", Name: "test", Identity: "a",
		}, nil)
		stop := w.campaign(e, "a")
		pass(time.Minute)
		w.Expect(e.Ready()).To(MatchError(And(ContainSubstring(`namespace "away" must exist`),
			ContainSubstring(`namespaces "away" not found`))))
		stop()
		w.Expect(w.read()).To(BeEmpty())
	})
}

func TestRequestThatNeverReturnsIsUnhealthy(t *testing.T) {
	inTrial(t, func(w *trial) {
		client := fake.NewClientset()
		hang := make(chan struct{})
		client.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			<-hang // deaf to contexts
			return false, nil, nil
		})
		e := newElector(w.t, leader.Lease{
			Client: client.CoordinationV1(), Namespace: "default", Name: "test", Identity: "a",
		}, nil)
		stop := w.campaign(e, "a")
		pass(16 * time.Second)
		w.Expect(w.read()).To(Equal([]string{"a leads", "a ends: fenced"}), "the deadline does not wait for the client")
		w.Expect(e.Healthy()).To(Succeed())
		pass(5 * time.Second)
		w.Expect(e.Healthy()).To(MatchError(ContainSubstring("a request has been under way")))
		close(hang)
		stop()
	})
}

func TestWorkThatOutlivesItsLeadershipIsUnhealthy(t *testing.T) {
	inTrial(t, func(w *trial) {
		e := w.elector("a")
		release := make(chan struct{})
		stop := w.run(func(ctx context.Context) error {
			return e.Run(ctx, func(context.Context) error { <-release; return nil })
		})
		pass(time.Second)
		w.api.delete("test")
		pass(leader.DefaultDrainTimeout)
		w.Expect(e.Healthy()).To(Succeed())
		pass(5 * time.Second)
		w.Expect(e.Healthy()).To(MatchError(ContainSubstring("after the leadership ended")))
		close(release)
		stop()
		w.Expect(e.Healthy()).To(Succeed())
	})
}

func TestStatusTellsWhoLeadsSinceWhen(t *testing.T) {
	inTrial(t, func(w *trial) {
		a, b := w.elector("a"), w.elector("b")
		w.Expect(a.String()).To(Equal("nobody leads"))
		w.Expect(a.Ready()).To(MatchError(ContainSubstring("nobody leads yet")))
		start := time.Now()
		stop1 := w.campaign(a, "a")
		pass(time.Second)
		stop2 := w.campaign(b, "b")
		pass(time.Minute)
		sa, sb := a.Status(), b.Status()
		w.Expect(sa.Leading).To(BeTrue())
		w.Expect(sa.Since).To(Equal(start))
		w.Expect(sa.TrustedUntil).To(BeTemporally(">", time.Now().Add(7*time.Second)))
		w.Expect(sb.Leading).To(BeFalse())
		w.Expect(sb.Leader).To(Equal(sa.Identity))
		w.Expect(sb.Transitions).To(BeZero(), "as client-go counts: the first leader of all is no change")
		w.Expect(b.Ready()).To(Succeed())
		w.Expect(strings.HasPrefix(sb.String(), "a_")).To(BeTrue())
		stop1()
		pass(3 * time.Second)
		w.Expect(b.Status().Transitions).To(BeEquivalentTo(1))
		stop2()
	})
}

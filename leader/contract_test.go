package leader_test

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/internal/test/contract"
	"github.com/homeostat/homeostat/internal/test/leaseapi"
	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// What package reconcile asks of a Leader.
var (
	_ reconcile.Leader   = (*leader.Elector)(nil)
	_ inspect.Elector    = (*leader.Elector)(nil)
	_ inspect.LeaseNamer = (*leader.Elector)(nil)
	_ inspect.Warner     = (*leader.Elector)(nil)
)

// trying is the test of a promise in a fixture.
func trying(f func(x *fixture)) func(t *testing.T) {
	return func(t *testing.T) { inBubble(t, f) }
}

// all runs several tests of one promise.
func all(tests ...func(t *testing.T)) func(t *testing.T) {
	return func(t *testing.T) {
		for _, test := range tests {
			test(t)
		}
	}
}

func TestContract(t *testing.T) {
	contract.Check(t, contract.Tests{
		"fn's context is the leadership: it ends with a cause that wraps ErrLost, ErrFenced or ErrStopping.": trying(causes),
		"The Lease is released only after every function under it has returned.":                             trying(releasedLast),
		"Until then it is renewed if the process is stopping, so that a drain may take longer than a lease.": all(
			TestLeaseIsReleasedOnlyAfterTheFunctionReturned, TestFenceStaysOpenForWorkThatDrains),
		"A stop that cut off a request leaves the Lease to expire, because the request may still arrive.": all(
			TestAStopReleasesTheLeaseOnlyIfNoRequestCanArriveAnyMore, TestAStopCountsRequestsThatTheFunctionLeftBehind),
		"Until the request can no longer arrive, this replica does not lead again " +
			"either.": TestAReplicaDoesNotMeetTheRequestsOfItsOwnLastTerm,
		"A lost leadership ends Run and Elector.RunOnce, and their error wraps the cause.": TestALostLeadershipEndsRun,
		"Elector.Run campaigns again once fn has returned, and calls fn for each term.": all(
			TestALostLeaseIsCampaignedForAgainInTheSameProcess, TestLeaseTakenByForceIsLost),
		"Several calls of Elector.Run share one Lease.": TestSeveralFunctionsShareOneLease,
		"The last to return releases it.":               trying(releasedLast),
		"Times in the Lease are never compared with a local clock.": all(
			trying(timesOfAnotherCentury), skewedClocksNeverLeadAtOnce),
		"A standby takes the Lease when its holder has not renewed it for a lease duration, counted from when the " +
			"standby first saw the last renewal, by its own monotonic clock.": trying(takenAfterALeaseDuration),
		"Other edits of the Lease do not prolong it.": TestALeaseThatOnlyOthersTouchExpires,
		"Elector.Fence makes clients that refuse to write outside the trust window.": all(
			TestFenceClosesAtTheRenewDeadline, TestFenceLetsNothingButReadsThroughWhileNotLeading),

		"A fenced request gets a deadline at the end of the window, in the client and, by the timeout parameter, in the " +
			"API server.": all(
			TestRequestEndsInsideTheTrustWindow, TestTheTimeoutOfACallerIsNoLongerThanTheTrustWindow),
		"The clock is read when the request starts and again each time the transport takes bytes of its body.": all(
			TestPauseBetweenPermissionAndSocketSendsNothing, TestFenceClosesAfterTheMachineWasSuspended),
		"A followed log and a proxied request are answered within the window and end with the leadership.": all(
			TestStreamsEndWithTheLeadership, TestAStreamThatIsNotAnsweredEndsWithTheTrustWindow),
		"Requests that switch protocols, such as exec, attach and portforward, are refused.": all(
			TestFenceReadsPathsAsTheServerDoes, TestAnAnswerThatSwitchesProtocolsIsRefused),
		"Fences also read the wall clock, and use it if more time has passed by the wall " +
			"clock.": TestFenceClosesAfterTheMachineWasSuspended,

		"The API server is unreachable: the leader works until the window closes, then its context ends with ErrFenced " +
			"and it campaigns again.": TestALostLeaseIsCampaignedForAgainInTheSameProcess,
		"A proxy or gateway answers in the server's place: its answer is not a renewal, whatever its " +
			"status.": TestARenewalThatTheServerDoesNotAnswerIsNotARenewal,
		"An answer is lost: the next renewal meets a conflict, finds its own name in the Lease and renews the Lease.": all(
			TestLostAnswersDoNotEndALeadership, trying(oneLostAnswer)),
		"Answers come too late to lead: the replica leaves the Lease to the others for a lease " +
			"duration.": TestAReplicaWithoutAnswersLeavesTheLeaseToTheOthers,
		"A connection stops working: clients of Client send the request again on a second one, and close the " +
			"first.": TestAConnectionThatStopsWorkingDoesNotEndALeadership,
		"An API server fails, but keeps its connections: after half a minute without a success, clients of Client use a " +
			"new connection, which may lead to another API server.": TestALeaderLeavesAnAPIServerThatFails,
		"A renewal may use all that is left of the window.": TestARenewalMayUseAllThatIsLeftOfTheWindow,
		"An answer that takes less than half of RenewDeadline is in time to take the Lease and to keep " +
			"it.": TestASlowServerHasALeader,
		"After RequestTimeout without an answer to a write, the Lease is read: if it has the change, the write has " +
			"succeeded, and otherwise the change is sent again.": all(TestASlowServerHasALeader, TestLostAnswersDoNotEndALeadership),
		"The process is paused for longer than the lease: another replica leads, and when the process resumes its fence " +
			"is already closed.": all(
			TestPauseBetweenPermissionAndSocketSendsNothing, TestFenceClosesAfterTheMachineWasSuspended),
		"The process dies: the Lease expires, and another replica leads within LeaseDuration + 1.2 × RetryPeriod, 17.4 " +
			"s.": diesAtAnyTime,
		"The process panics: the Lease is not released.": TestPanicLeavesTheLeaseToExpire,
		"fn does not return after a loss: writes are fenced, others lead, and Elector.Healthy fails after DrainTimeout.": trying(
			outlivesItsLeadership),
		"The release fails: the Lease expires.":                                          trying(releaseFails),
		"The Lease is deleted or taken by hand: the leader notices at its next renewal.": TestLeaseTakenByForceIsLost,
		"A standby that watched the Lease waits for a lease duration.":                   TestStandbyWaitsAfterTheLeaseItWatchedWasDeleted,
		"Two replicas have the same identity: each adds a random suffix, so that only one of them " +
			"leads.": TestTwoReplicasWithOneIdentityNeverLeadAtOnce,
		"The other reports it in Elector.Ready and Status.":                 trying(twins),
		"A client that is not a replica holds the Lease: no replica leads.": TestAForeignHolderOfTheLeaseIsNamedWithAWayOut,
		"The replicas stay ready, and Elector.Warning names the holder and a way " +
			"out.": TestAForeignHolderOfTheLeaseIsNamedWithAWayOut,
		"Permissions or the namespace are missing: Elector.Ready and Status name them.": all(
			TestMissingPermissionsAreTheReasonNotToBeReady, TestMissingNamespaceIsTheReasonNotToBeReady),
	})
}

// causes ends leaderships in each way, and checks that each way has its own
// cause.
func causes(x *fixture) {
	for want, end := range map[error]func(l *leaseapi.Link, stop context.CancelFunc){
		leader.ErrStopping: func(_ *leaseapi.Link, stop context.CancelFunc) { stop() },
		leader.ErrLost:     func(*leaseapi.Link, context.CancelFunc) { x.API.Delete("test") },
		leader.ErrFenced: func(l *leaseapi.Link, _ context.CancelFunc) {
			l.Set(func(l *leaseapi.Link) { l.Fail = errors.New("away") })
		},
	} {
		l := x.API.Link(1)
		e := newElector(x.T, leaseOf(l, "a"), nil)
		ctx, stop := context.WithCancel(x.T.Context())
		cause := make(chan error, 1)
		wait := background(func() error {
			return e.Run(ctx, func(ctx context.Context) error {
				<-ctx.Done()
				x.Expect(ctx.Err()).To(MatchError(context.Canceled))
				cause <- context.Cause(ctx)
				stop()
				return nil
			})
		})
		pass(time.Minute)
		end(l, stop)
		got := <-cause
		for _, other := range []error{leader.ErrStopping, leader.ErrLost, leader.ErrFenced} {
			x.Expect(errors.Is(got, other)).To(Equal(errors.Is(other, want)), "%v is %v", got, other)
		}
		x.Expect(wait()).To(Succeed())
		pass(time.Minute)
	}
}

// releasedLast lets three functions under one Lease return one after the other,
// the stop long past.
func releasedLast(x *fixture) {
	e := x.elector("a")
	var stops []func()
	for i := range 3 {
		stops = append(stops, x.Run(func(ctx context.Context) error {
			return e.Run(ctx, func(ctx context.Context) error {
				<-ctx.Done()
				leaseapi.Wait(time.Duration(i+1) * time.Minute)
				return nil
			})
		}))
	}
	pass(time.Minute)
	for i, stop := range stops {
		l, err := x.API.Get("test")
		x.Expect(err).NotTo(HaveOccurred())
		x.Expect(l.Spec.HolderIdentity).To(HaveValue(HavePrefix("a_")), "%d have returned", i)
		stop()
	}
	x.Released("test")
}

// timesOfAnotherCentury writes times into the Lease that are long past, or far
// in the future.
func timesOfAnotherCentury(x *fixture) {
	for _, years := range []int{-100, 100} {
		x.API.Delete("test")
		l := leaseapi.Object("test")
		l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds = new("other"), new(int32(15))
		l.Spec.RenewTime = new(metav1.NewMicroTime(time.Now().AddDate(years, 0, 0)))
		l.Spec.AcquireTime = l.Spec.RenewTime
		_, err := x.API.Create(l)
		x.Expect(err).NotTo(HaveOccurred())
		e := x.elector("a")
		stop := x.campaign(e, "a")
		pass(15*time.Second - time.Nanosecond)
		x.Expect(e.Status().Leading).To(BeFalse(), "%d years", years)
		pass(time.Nanosecond)
		x.Expect(e.Status().Leading).To(BeTrue(), "%d years", years)
		stop()
	}
}

// takenAfterALeaseDuration renews the Lease by hand at irregular moments, and
// then no longer.
func takenAfterALeaseDuration(x *fixture) {
	l := leaseapi.Object("test")
	l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds = new("other"), new(int32(15))
	l, err := x.API.Create(l)
	x.Expect(err).NotTo(HaveOccurred())
	e := x.elector("a")
	stop := x.campaign(e, "a")
	for _, d := range []time.Duration{14 * time.Second, 7 * time.Second, 11 * time.Second} {
		pass(d)
		x.Expect(e.Status().Leading).To(BeFalse())
		l.Spec.RenewTime = new(metav1.NewMicroTime(time.Now()))
		l, err = x.API.Update(l)
		x.Expect(err).NotTo(HaveOccurred())
	}
	pass(15*time.Second - time.Nanosecond)
	x.Expect(e.Status().Leading).To(BeFalse())
	pass(2400 * time.Millisecond) // when it has seen the last renewal for as long
	x.Expect(e.Status().Leading).To(BeTrue())
	stop()
}

// oneLostAnswer loses the answer to the renewal after two seconds, which is
// given up after five: the next one, after seven, renews the Lease although its
// first request meets a conflict.
func oneLostAnswer(x *fixture) {
	start := time.Now()
	l := x.API.Link(1)
	e := newElector(x.T, leaseOf(l, "a"), nil)
	stop := x.campaign(e, "a")
	pass(time.Second)
	l.Set(func(l *leaseapi.Link) { l.LoseTell = 1 })
	pass(2 * time.Second)
	l.Set(func(l *leaseapi.Link) { l.LoseTell = 0 })
	pass(4500 * time.Millisecond)
	lease, err := x.API.Get("test")
	x.Expect(err).NotTo(HaveOccurred())
	x.Expect(lease.Spec.RenewTime.Time).To(BeTemporally("~", start.Add(7*time.Second), time.Millisecond))
	pass(30 * time.Second)
	x.Expect(x.Read()).To(Equal([]string{"a leads"}))
	stop()
}

// diesAtAnyTime kills the leader at many moments between two renewals, and
// checks the longest wait.
func diesAtAnyTime(t *testing.T) {
	for moment := range 21 {
		inBubble(t, func(x *fixture) {
			dying := x.API.Link(1)
			stopA := x.campaign(newElector(x.T, leaseOf(dying, "a"), nil), "a")
			pass(time.Second)
			b := x.elector("b")
			stopB := x.campaign(b, "b")
			pass(10*time.Second + time.Duration(moment)*100*time.Millisecond)
			dying.Set(func(l *leaseapi.Link) { l.Fail = errors.New("dead") })
			pass(17400 * time.Millisecond)
			x.Expect(b.Status().Leading).To(BeTrue())
			stopB()
			stopA()
		})
	}
}

func outlivesItsLeadership(x *fixture) {
	l := x.API.Link(1)
	e := newElector(x.T, leaseOf(l, "a"), nil)
	var d diary
	client := fencedClient(x.T, e, d.Server)
	release := make(chan struct{})
	stop := x.Run(func(ctx context.Context) error {
		return e.Run(ctx, func(ctx context.Context) error {
			<-release
			x.Expect(write(context.WithoutCancel(ctx), client)).To(MatchError(leader.ErrFenced))
			return nil
		})
	})
	pass(time.Second)
	b := x.elector("b")
	stopB := x.campaign(b, "b")
	pass(5 * time.Second)
	l.Set(func(l *leaseapi.Link) { l.Fail = errors.New("away") })
	pass(20 * time.Second)
	l.Set(func(l *leaseapi.Link) { l.Fail = nil })
	x.Expect(b.Status().Leading).To(BeTrue())
	x.Expect(e.Healthy()).To(Succeed())
	pass(time.Minute)
	x.Expect(e.Healthy()).To(MatchError(ContainSubstring("Options.DrainTimeout")))
	x.Expect(write(context.Background(), client)).To(MatchError(leader.ErrFenced))
	x.Expect(d.Read()).To(BeEmpty())
	close(release)
	pass(time.Second)
	x.Expect(e.Healthy()).To(Succeed())
	stop()
	stopB()
}

func releaseFails(x *fixture) {
	l := x.API.Link(1)
	stop := x.campaign(newElector(x.T, leaseOf(l, "a"), nil), "a")
	pass(time.Second)
	l.Set(func(l *leaseapi.Link) { l.Fail = errors.New("away") })
	stop()
	b := x.elector("b")
	stopB := x.campaign(b, "b")
	pass(14 * time.Second)
	x.Expect(b.Status().Leading).To(BeFalse())
	pass(3400 * time.Millisecond)
	x.Expect(b.Status().Leading).To(BeTrue())
	stopB()
}

func twins(x *fixture) {
	a, twin := x.elector("a"), x.elector("a")
	stop := x.campaign(a, "1")
	pass(time.Second)
	stopTwin := x.campaign(twin, "2")
	pass(time.Minute)
	for _, err := range []error{twin.Ready(), twin.Status().Problem} {
		x.Expect(err).To(MatchError(ContainSubstring("is also the identity of the live replica")))
	}
	x.Expect(a.Status().Problem).NotTo(HaveOccurred())
	x.Expect(a.Status().Identity).NotTo(Equal(twin.Status().Identity))
	stop()
	stopTwin()
}

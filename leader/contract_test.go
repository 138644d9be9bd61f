package leader_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/proof/contract"
	"github.com/homeostat/homeostat/leader"
)

// trying is the test of a promise in a trial.
func trying(f func(w *trial)) func(t *testing.T) {
	return func(t *testing.T) { inTrial(t, f) }
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
		"A stop that cut off a request does not release the Lease, which expires: the request may still arrive.": all(
			TestAStopReleasesTheLeaseOnlyIfNoRequestCanArriveAnyMore, TestAStopCountsRequestsThatTheFunctionLeftBehind),
		"This replica does not lead again, either, before it can no longer arrive.": TestAReplicaDoesNotMeetTheRequestsOfItsOwnLastTerm,
		"A lost leadership does not end the process: once fn has returned, the replica campaigns again.": all(
			TestLossIsCampaignedForAgainInTheSameProcess, TestLeaseTakenByForceIsLost),
		"Several calls of Elector.Run share one Lease.": TestSeveralFunctionsShareOneLease,
		"The last to return releases it.":               trying(releasedLast),
		"Times that stand in the Lease are never compared with a local clock.": all(
			trying(timesOfAnotherCentury), skewedClocksNeverLeadAtOnce),
		"A standby takes the Lease when its holder has not renewed it for a lease duration since the standby first saw it so, " +
			"by its own monotonic clock.": trying(takenAfterALeaseDuration),
		"Other edits of the Lease do not prolong it.": TestALeaseThatOnlyOthersTouchExpires,
		"Elector.Fence makes clients that refuse to write outside the trust window.": all(
			TestFenceClosesAtTheRenewDeadline, TestFenceLetsNothingButReadsThroughWhileNotLeading),

		"A fenced request gets a deadline at the end of the window, and so does the API server, by the timeout parameter.": all(
			TestRequestEndsInsideTheTrustWindow, TestCallersShorterTimeoutStays),
		"The clock is read when the request starts and again each time the transport takes bytes of its body.": all(
			TestPauseBetweenPermissionAndSocketSendsNothing, TestFenceClosesAfterTheMachineWasSuspended),
		"A followed log and a proxied request are answered within the window and end with the leadership.": all(
			TestStreamsEndWithTheLeadership, TestAStreamThatIsNotAnsweredEndsWithTheTrustWindow),
		"What switches protocols, such as exec, attach and portforward, is refused.": all(
			TestFenceReadsPathsAsTheServerDoes, TestAnAnswerThatSwitchesProtocolsIsRefused),
		"Fences believe the wall clock as well, if that says that more time has passed.": TestFenceClosesAfterTheMachineWasSuspended,

		"The API server is away: the leader works until the window closes, then its context ends with ErrFenced and it " +
			"campaigns again.": TestLossIsCampaignedForAgainInTheSameProcess,
		"An answer is lost: the next renewal meets a conflict, finds its own name in the Lease and renews that.": all(
			TestLostAnswersDoNotEndALeadership, trying(oneLostAnswer)),
		"The process is paused for longer than the lease: another leads, and when it goes on its fence is closed at once.": all(
			TestPauseBetweenPermissionAndSocketSendsNothing, TestFenceClosesAfterTheMachineWasSuspended),
		"The process dies: the Lease expires, and another leads within LeaseDuration and 1.2 × RetryPeriod, 17.4 s.": diesAtAnyTime,
		"The process panics: the Lease is not released.":                                                             TestPanicLeavesTheLeaseToExpire,
		"fn does not return after a loss: writes are fenced, others lead, and Elector.Healthy fails after DrainTimeout.": trying(
			outlivesItsLeadership),
		"The release fails: the Lease expires.":                                                 trying(releaseFails),
		"The Lease is deleted or taken by hand: the leader notices at its next renewal.":        TestLeaseTakenByForceIsLost,
		"A standby that watched it waits a lease duration.":                                     TestStandbyWaitsAfterTheLeaseItWatchedWasDeleted,
		"Two replicas have one identity: each adds a random suffix, so that one of them leads.": TestTwoReplicasWithOneIdentityNeverLeadAtOnce,
		"The other says so in Elector.Ready and Status.":                                        trying(twins),
		"Permissions or the namespace are missing: Elector.Ready and Status name them.": all(
			TestMissingPermissionsAreTheReasonNotToBeReady, TestMissingNamespaceIsTheReasonNotToBeReady),

		"A slot is given to another only after its function has returned, and not while a request of its member that was cut " +
			"off can still arrive.": all(TestPlannedMoveWaitsForTurnsInFlight, TestASlotWhoseRequestsWereCutOffIsNotGivenAway),
		"The slots of a dead member are free once the member's record has been changed by compare-and-swap after a whole lease " +
			"duration without renewal.": all(TestShardsDivideAndFollowTheMembers, TestTheRecordOfADeadMemberThatOthersTouchExpires),
		"A late watch makes no second owner: the swap fails if the member lives.":           TestLateWatchDoesNotBuryTheLiving,
		"Each term of a membership has a holder's name of its own.":                         trying(termsHaveNames),
		"A member that joins for less than ShardOptions.Settle moves no slot.":              TestShortVisitMovesNothing,
		"After that, shares differ by one at most, and no more slots move than that takes.": func(t *testing.T) { changeMembers(t, 3) },
		"A member that renews but does not take its slots is passed over.": all(
			TestMemberThatTakesNothingIsPassedOver, TestManyMembersThatTakeNothingCostNoMoreTimeThanOne),
		"A member that stops gives up its slots as they are drained, and gets no more.": TestStoppingMemberGetsNoMoreSlots,
		"While one replica is undisturbed, a slot is without owner for 2 × LeaseDuration, 30 s, at most, whatever happens to " +
			"the others.": oneWorld,
		"A replica that disagrees with the recorded number of slots, hash or part of the key does not join: ErrDivision.": all(
			TestReplicaThatDividesDifferentlyDoesNotJoin, trying(anotherHash)),
	})
}

// causes ends leaderships in each way, and wants each to be told apart.
func causes(w *trial) {
	for want, end := range map[error]func(l *link, stop context.CancelFunc){
		leader.ErrStopping: func(_ *link, stop context.CancelFunc) { stop() },
		leader.ErrLost:     func(*link, context.CancelFunc) { w.api.delete("test") },
		leader.ErrFenced:   func(l *link, _ context.CancelFunc) { l.set(func(l *link) { l.fail = errors.New("away") }) },
	} {
		l := w.api.link(1)
		e := newElector(w.t, leaseOf(l, "a"), nil)
		ctx, stop := context.WithCancel(w.t.Context())
		cause := make(chan error, 1)
		wait := background(func() error {
			return e.Run(ctx, func(ctx context.Context) error {
				<-ctx.Done()
				w.Expect(ctx.Err()).To(MatchError(context.Canceled))
				cause <- context.Cause(ctx)
				stop()
				return nil
			})
		})
		pass(time.Minute)
		end(l, stop)
		got := <-cause
		for _, other := range []error{leader.ErrStopping, leader.ErrLost, leader.ErrFenced} {
			w.Expect(errors.Is(got, other)).To(Equal(errors.Is(other, want)), "%v is %v", got, other)
		}
		w.Expect(wait()).To(Succeed())
		pass(time.Minute)
	}
}

// releasedLast lets three functions under one Lease return one after the other, the stop long past.
func releasedLast(w *trial) {
	e := w.elector("a")
	var stops []func()
	for i := range 3 {
		stops = append(stops, w.run(func(ctx context.Context) error {
			return e.Run(ctx, func(ctx context.Context) error {
				<-ctx.Done()
				wait(time.Duration(i+1) * time.Minute)
				return nil
			})
		}))
	}
	pass(time.Minute)
	w.api.written = nil
	for i, stop := range stops {
		l, err := w.api.get("test")
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(l.Spec.HolderIdentity).To(HaveValue(HavePrefix("a_")), "%d have returned", i)
		stop()
	}
	w.released("test")
}

// timesOfAnotherCentury writes times into the Lease that are long past, or far in the future.
func timesOfAnotherCentury(w *trial) {
	for _, years := range []int{-100, 100} {
		w.api.delete("test")
		l := leaseObject("test")
		l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds = new("other"), new(int32(15))
		l.Spec.RenewTime = new(microTime(time.Now().AddDate(years, 0, 0)))
		l.Spec.AcquireTime = l.Spec.RenewTime
		_, err := w.api.create(l)
		w.Expect(err).NotTo(HaveOccurred())
		e := w.elector("a")
		stop := w.campaign(e, "a")
		pass(15*time.Second - time.Nanosecond)
		w.Expect(e.Status().Leading).To(BeFalse(), "%d years", years)
		pass(time.Nanosecond)
		w.Expect(e.Status().Leading).To(BeTrue(), "%d years", years)
		stop()
	}
}

// takenAfterALeaseDuration renews the Lease by hand at odd moments, and then no more.
func takenAfterALeaseDuration(w *trial) {
	l := leaseObject("test")
	l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds = new("other"), new(int32(15))
	l, err := w.api.create(l)
	w.Expect(err).NotTo(HaveOccurred())
	e := w.elector("a")
	stop := w.campaign(e, "a")
	for _, d := range []time.Duration{14 * time.Second, 7 * time.Second, 11 * time.Second} {
		pass(d)
		w.Expect(e.Status().Leading).To(BeFalse())
		l.Spec.RenewTime = new(microTime(time.Now()))
		l, err = w.api.update(l)
		w.Expect(err).NotTo(HaveOccurred())
	}
	pass(15*time.Second - time.Nanosecond)
	w.Expect(e.Status().Leading).To(BeFalse())
	pass(2400 * time.Millisecond) // when it has seen the last renewal for as long
	w.Expect(e.Status().Leading).To(BeTrue())
	stop()
}

// oneLostAnswer loses the answer to the renewal after two seconds, which is given up after five: the next one, after
// seven, renews the Lease although its first request meets a conflict.
func oneLostAnswer(w *trial) {
	start := time.Now()
	l := w.api.link(1)
	e := newElector(w.t, leaseOf(l, "a"), nil)
	stop := w.campaign(e, "a")
	pass(time.Second)
	l.set(func(l *link) { l.loseTell = 1 })
	pass(2 * time.Second)
	l.set(func(l *link) { l.loseTell = 0 })
	pass(4500 * time.Millisecond)
	lease, err := w.api.get("test")
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(lease.Spec.RenewTime.Time).To(BeTemporally("~", start.Add(7*time.Second), time.Millisecond))
	pass(30 * time.Second)
	w.Expect(w.read()).To(Equal([]string{"a leads"}))
	stop()
}

// diesAtAnyTime kills the leader at many moments between two renewals, and wants the longest wait of all.
func diesAtAnyTime(t *testing.T) {
	for moment := range 21 {
		inTrial(t, func(w *trial) {
			dying := w.api.link(1)
			stopA := w.campaign(newElector(w.t, leaseOf(dying, "a"), nil), "a")
			pass(time.Second)
			b := w.elector("b")
			stopB := w.campaign(b, "b")
			pass(10*time.Second + time.Duration(moment)*100*time.Millisecond)
			dying.set(func(l *link) { l.fail = errors.New("dead") })
			pass(17400 * time.Millisecond)
			w.Expect(b.Status().Leading).To(BeTrue())
			stopB()
			stopA()
		})
	}
}

func outlivesItsLeadership(w *trial) {
	l := w.api.link(1)
	e := newElector(w.t, leaseOf(l, "a"), nil)
	var d diary
	client := fencedClient(w.t, e, d.server)
	release := make(chan struct{})
	stop := w.run(func(ctx context.Context) error {
		return e.Run(ctx, func(ctx context.Context) error {
			<-release
			w.Expect(write(context.WithoutCancel(ctx), client)).To(MatchError(leader.ErrFenced))
			return nil
		})
	})
	pass(time.Second)
	b := w.elector("b")
	stopB := w.campaign(b, "b")
	pass(5 * time.Second)
	l.set(func(l *link) { l.fail = errors.New("away") })
	pass(20 * time.Second)
	l.set(func(l *link) { l.fail = nil })
	w.Expect(b.Status().Leading).To(BeTrue())
	w.Expect(e.Healthy()).To(Succeed())
	pass(leader.DefaultDrainTimeout)
	w.Expect(e.Healthy()).To(MatchError(ContainSubstring("Options.DrainTimeout")))
	w.Expect(write(context.Background(), client)).To(MatchError(leader.ErrFenced))
	w.Expect(d.read()).To(BeEmpty())
	close(release)
	pass(time.Second)
	w.Expect(e.Healthy()).To(Succeed())
	stop()
	stopB()
}

func releaseFails(w *trial) {
	l := w.api.link(1)
	stop := w.campaign(newElector(w.t, leaseOf(l, "a"), nil), "a")
	pass(time.Second)
	l.set(func(l *link) { l.fail = errors.New("away") })
	stop()
	b := w.elector("b")
	stopB := w.campaign(b, "b")
	pass(14 * time.Second)
	w.Expect(b.Status().Leading).To(BeFalse())
	pass(3400 * time.Millisecond)
	w.Expect(b.Status().Leading).To(BeTrue())
	stopB()
}

func twins(w *trial) {
	a, twin := w.elector("a"), w.elector("a")
	stop := w.campaign(a, "1")
	pass(time.Second)
	stopTwin := w.campaign(twin, "2")
	pass(time.Minute)
	for _, err := range []error{twin.Ready(), twin.Status().Problem} {
		w.Expect(err).To(MatchError(ContainSubstring("is also that of the live replica")))
	}
	w.Expect(a.Status().Problem).NotTo(HaveOccurred())
	w.Expect(a.Status().Identity).NotTo(Equal(twin.Status().Identity))
	stop()
	stopTwin()
}

// termsHaveNames ends memberships by hand, and wants no holder's name twice.
func termsHaveNames(w *trial) {
	seen := map[string]bool{}
	a := w.shards("a", nil)
	for range 5 {
		pass(20 * time.Second)
		l, err := w.api.get("test-member-a")
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(seen).NotTo(HaveKey(*l.Spec.HolderIdentity))
		seen[*l.Spec.HolderIdentity] = true
		slot, err := w.api.get("test-slot-0")
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(slot.Spec.HolderIdentity).To(Equal(l.Spec.HolderIdentity))
		w.api.delete("test-member-a")
	}
	pass(time.Minute)
	a.end()
}

func anotherHash(w *trial) {
	a := w.shards("a", nil)
	pass(10 * time.Second)
	a.end()
	l, err := w.api.get("test")
	w.Expect(err).NotTo(HaveOccurred())
	for name := range l.Annotations {
		if strings.HasSuffix(name, "/hash") {
			l.Annotations[name] = "another"
		}
	}
	_, err = w.api.update(l)
	w.Expect(err).NotTo(HaveOccurred())
	b := newShards(w.t, w.api.link(2), "b", nil)
	w.Expect(b.Run(w.t.Context(), w.work("b", 0))).To(MatchError(leader.ErrDivision))
	synctest.Wait()
}

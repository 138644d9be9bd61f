package leader_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	clienttesting "k8s.io/client-go/testing"

	"github.com/homeostat/homeostat/internal/test/leaseapi"
	"github.com/homeostat/homeostat/leader"
)

func TestRunLeadsAndReleasesOnAFakeClientset(t *testing.T) {
	inBubble(t, func(x *fixture) {
		client := fake.NewClientset()
		lease := leader.Lease{Client: client.CoordinationV1(), Namespace: "default", Name: "test", Identity: "a"}
		stop := x.Run(func(ctx context.Context) error { return leader.Run(ctx, lease, nil, untilDone(x.Diary, "a")) })
		pass(time.Minute)
		stop()
		x.Expect(x.Read()).To(Equal([]string{"a leads", "a ends: stopping"}))
	})
}

func TestLeaseIsReleasedOnlyAfterTheFunctionReturned(t *testing.T) {
	inBubble(t, func(x *fixture) {
		e := x.elector("a")
		stop := x.Run(func(ctx context.Context) error {
			return e.Run(ctx, func(ctx context.Context) error {
				<-ctx.Done()
				x.Add("%s", causeOf(ctx))
				pass(time.Minute) // drains for four lease durations
				x.Add("drained, still leading: %v", e.Status().Leading)
				return nil
			})
		})
		other := x.elector("b")
		pass(time.Second)
		stopOther := x.campaign(other, "b")
		pass(time.Minute)
		stop()
		x.Released("test")
		pass(3 * time.Second)
		stopOther()
		x.Expect(x.Read()).To(Equal([]string{
			"stopping", "drained, still leading: true", "b leads", "b ends: stopping",
		}))
	})
}

func TestALostLeaseIsCampaignedForAgainInTheSameProcess(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a := x.API.Link(1)
		e := newElector(x.T, leaseOf(a, "a"), nil)
		stop := x.campaign(e, "a")
		pass(time.Second)
		start := time.Now()

		open := make(chan struct{})
		a.Set(func(l *leaseapi.Link) { l.Cut = open })
		pass(8 * time.Second)
		x.Expect(e.Status().Leading).To(BeTrue())
		pass(3 * time.Second)
		x.Expect(e.Status().Leading).To(BeFalse())
		x.Expect(e.Ready()).To(MatchError(ContainSubstring("deadline exceeded")))
		x.Expect(time.Since(start)).To(BeNumerically("<", 15*time.Second))
		a.Set(func(l *leaseapi.Link) { l.Cut = nil })
		close(open)
		pass(20 * time.Second)
		stop()
		x.Expect(x.Read()).To(Equal([]string{"a leads", "a ends: fenced", "a leads", "a ends: stopping"}))
	})
}

func TestLeaseTakenByForceIsLost(t *testing.T) {
	for name, steal := range map[string]func(*leaseapi.API){
		"another holder": func(api *leaseapi.API) {
			l, _ := api.Get("test")
			l.Spec.HolderIdentity = new("thief")
			_, _ = api.Update(l)
		},
		"deleted": func(api *leaseapi.API) { api.Delete("test") },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(x *fixture) {
				e := x.elector("a")
				stop := x.campaign(e, "a")
				pass(time.Second)
				steal(x.API)
				stolen := x.API.Newest()
				pass(3 * time.Second)
				x.Expect(x.Read()).To(Equal([]string{"a leads", "a ends: lost"}))
				x.Expect(x.API.Newest()).To(Equal(stolen), "nothing is written to the thief's Lease")
				pass(20 * time.Second)
				stop()
				x.Expect(x.Read()).To(Equal([]string{"a leads", "a ends: lost", "a leads", "a ends: stopping"}))
			})
		})
	}
}

func TestStandbyWaitsAfterTheLeaseItWatchedWasDeleted(t *testing.T) {
	inBubble(t, func(x *fixture) {
		cut := x.API.Link(1)
		a, b := newElector(x.T, leaseOf(cut, "a"), nil), x.elector("b")
		stopA := x.campaign(a, "a")
		pass(time.Second)
		stopB := x.campaign(b, "b")
		pass(5 * time.Second)
		open := make(chan struct{})
		cut.Set(func(l *leaseapi.Link) { l.Cut = open })
		x.API.Delete("test")
		pass(20 * time.Second)
		x.Expect(x.Read()).To(Equal([]string{"a leads", "a ends: fenced", "b leads"}))
		close(open)
		stopA()
		stopB()
	})
}

func TestLostAnswersDoNotEndALeadership(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a := x.API.Link(7)
		a.LoseTell = 0.1
		e := newElector(x.T, leaseOf(a, "a"), &leader.Options{
			LeaseDuration: 60 * time.Second, RetryPeriod: time.Second,
			RequestTimeout: 3 * time.Second,
		})
		stop := x.campaign(e, "a")
		pass(time.Hour)
		a.Set(func(l *leaseapi.Link) { l.LoseTell = 0 })
		stop()
		x.Expect(x.Read()).To(Equal([]string{"a leads", "a ends: stopping"}))
		x.Expect(*x.Released("test").Spec.LeaseTransitions).To(BeZero())
	})
}

func TestRunReturnsWhatTheFunctionReturned(t *testing.T) {
	for _, want := range []error{nil, errors.New("broken")} {
		t.Run(fmt.Sprint(want), func(t *testing.T) {
			inBubble(t, func(x *fixture) {
				fn := func(context.Context) error { return want }
				err := leader.Run(x.T.Context(), leaseOf(x.API.Link(1), "a"), nil, fn)
				if want == nil {
					x.Expect(err).NotTo(HaveOccurred())
				} else {
					x.Expect(err).To(MatchError(want))
				}
				x.Released("test")
			})
		})
	}
}

// A function that was told to stop may return the error of its context. Run
// does not return that error.
func TestAFunctionThatWasToldToStopMaySayWhy(t *testing.T) {
	broken := errors.New("broken")
	for _, says := range []error{nil, context.Canceled, leader.ErrStopping, leader.ErrLost, leader.ErrFenced, broken} {
		t.Run(fmt.Sprint(says), func(t *testing.T) {
			inBubble(t, func(x *fixture) {
				ctx, cancel := context.WithCancel(x.T.Context())
				e := x.elector("a")
				wait := background(func() error {
					return e.Run(ctx, func(ctx context.Context) error {
						<-ctx.Done()
						if says != nil {
							return fmt.Errorf("working: %w", says)
						}
						return nil
					})
				})
				pass(time.Second)
				cancel()
				if err := wait(); errors.Is(says, broken) {
					x.Expect(err).To(MatchError(broken))
				} else {
					x.Expect(err).NotTo(HaveOccurred())
				}
				x.Released("test")
			})
		})
	}
}

func TestALostLeadershipEndsRun(t *testing.T) {
	for name, how := range map[string]struct {
		lose func(x *fixture, l *leaseapi.Link)
		want error
	}{
		"lost":   {func(x *fixture, _ *leaseapi.Link) { x.API.Delete("test") }, leader.ErrLost},
		"fenced": {func(_ *fixture, l *leaseapi.Link) { l.Set(func(l *leaseapi.Link) { l.LoseAsk = 1 }) }, leader.ErrFenced},
	} {
		for _, own := range []error{nil, context.Canceled, errors.New("broken")} {
			t.Run(fmt.Sprint(name, own), func(t *testing.T) {
				inBubble(t, func(x *fixture) {
					l, calls := x.API.Link(1), 0
					wait := background(func() error {
						return leader.Run(x.T.Context(), leaseOf(l, "a"), nil, func(ctx context.Context) error {
							calls++
							<-ctx.Done()
							pass(time.Minute)
							return own
						})
					})
					pass(3 * time.Second)
					how.lose(x, l)
					err := wait()
					x.Expect(err).To(MatchError(how.want))
					x.Expect(err).To(MatchError(ContainSubstring(`leading under lease "default/test": `)))
					x.Expect(errors.Is(err, own)).To(Equal(own != nil && own != context.Canceled)) //nolint:errorlint // itself
					x.Expect(calls).To(Equal(1))
				})
			})
		}
	}
}

func TestAnErrorThatIsNotTheLossOfTheLeadershipIsLogged(t *testing.T) {
	for err, logged := range map[error]int{
		errors.New("broken"): 1, context.Canceled: 0, leader.ErrLost: 0, leader.ErrFenced: 0, nil: 0,
	} {
		t.Run(fmt.Sprint(err), func(t *testing.T) {
			inBubble(t, func(x *fixture) {
				e, lines := x.elector("a"), 0
				log := funcr.New(func(_, line string) {
					if strings.Contains(line, "work failed after the leadership ended") {
						lines++
					}
				}, funcr.Options{})
				stop := x.Run(func(ctx context.Context) error {
					return e.Run(logr.NewContext(ctx, log), func(ctx context.Context) error {
						<-ctx.Done()
						return err
					})
				})
				pass(time.Second)
				x.API.Delete("test")
				pass(3 * time.Second)
				x.Expect(lines).To(Equal(logged))
				stop()
			})
		})
	}
}

func TestPanicLeavesTheLeaseToExpire(t *testing.T) {
	inBubble(t, func(x *fixture) {
		e := x.elector("a")
		x.Expect(func() {
			_ = e.Run(x.T.Context(), func(context.Context) error { panic("oops") })
		}).To(PanicWith("oops"))
		l, err := x.API.Get("test")
		x.Expect(err).NotTo(HaveOccurred())
		x.Expect(l.Spec.HolderIdentity).To(HaveValue(HavePrefix("a_")))
		x.Expect(e.Status().Leading).To(BeFalse())
	})
}

func TestSeveralFunctionsShareOneLease(t *testing.T) {
	inBubble(t, func(x *fixture) {
		e := x.elector("a")
		stop1 := x.campaign(e, "1")
		pass(time.Second)
		stop2 := x.campaign(e, "2")
		pass(time.Second)
		stop1()
		pass(time.Minute)
		x.Expect(e.Status().Leading).To(BeTrue())
		stop2()
		x.Expect(x.Read()).To(Equal([]string{"1 leads", "2 leads", "1 ends: stopping", "2 ends: stopping"}))
		x.Expect(*x.Released("test").Spec.LeaseTransitions).To(BeZero())
	})
}

func TestTwoReplicasWithOneIdentityNeverLeadAtOnce(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a, twin := x.elector("a"), x.elector("a")
		stop1 := x.campaign(a, "1")
		pass(time.Second)
		stop2 := x.campaign(twin, "2")
		pass(time.Minute)
		x.Expect(twin.Ready()).To(MatchError(ContainSubstring(`Lease.Identity "a" is also the identity of the live replica`)))
		x.Expect(a.Ready()).To(Succeed())
		x.Expect(x.Read()).To(Equal([]string{"1 leads"}))
		stop1()
		stop2()
	})
}

func TestMissingPermissionsAreTheReasonNotToBeReady(t *testing.T) {
	inBubble(t, func(x *fixture) {
		l := x.API.Link(1)
		l.Fail = apierrors.NewForbidden(leaseapi.Leases, "test", errors.New("no RBAC policy matched"))
		e := newElector(x.T, leaseOf(l, "a"), nil)
		stop := x.campaign(e, "a")
		pass(time.Minute)
		x.Expect(e.Ready()).To(MatchError(And(ContainSubstring("grant get, create and update on leases"),
			ContainSubstring(`namespace "default"`), ContainSubstring("no RBAC policy matched"))))
		x.Expect(e.Healthy()).To(Succeed(), "a restart does not help")
		x.Expect(e.Status().Problem).To(MatchError(ContainSubstring("grant")))
		x.Expect(e.String()).To(MatchRegexp(`^no replica leads \(.*grant get, create and update.*\)$`))
		l.Set(func(l *leaseapi.Link) { l.Fail = nil })
		pass(5 * time.Second)
		x.Expect(e.Ready()).To(Succeed())
		stop()
	})
}

// A cause that stops a campaign repeatedly is logged when it begins or changes.
func TestAProblemThatStaysIsLoggedOnce(t *testing.T) {
	inBubble(t, func(x *fixture) {
		logger := funcr.New(func(_, args string) {
			if _, text, found := strings.Cut(args, `"error"="`); found {
				x.Add("%s", text[:strings.LastIndex(text, ": ")])
			}
		}, funcr.Options{})
		l := x.API.Link(1)
		fail := func(err error) {
			l.Set(func(l *leaseapi.Link) { l.Fail = err })
			pass(time.Minute)
		}
		fail(errors.New("no route: 1"))
		e := newElector(x.T, leaseOf(l, "a"), nil)
		stop := x.Run(func(ctx context.Context) error {
			return e.Run(logr.NewContext(ctx, logger), func(ctx context.Context) error {
				<-ctx.Done()
				return nil
			})
		})
		pass(time.Minute)
		fail(errors.New("no name: 2"))
		fail(nil)
		x.Expect(x.Read()).To(Equal([]string{
			`reading lease \"default/test\": no route`, `reading lease \"default/test\": no name`,
		}))
		stop()
	})
}

func TestMissingNamespaceIsTheReasonNotToBeReady(t *testing.T) {
	inBubble(t, func(x *fixture) {
		client := fake.NewClientset()
		client.PrependReactor("create", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "away")
		})
		e := newElector(x.T, leader.Lease{
			Client: client.CoordinationV1(), Namespace: "away", Name: "test", Identity: "a",
		}, nil)
		stop := x.campaign(e, "a")
		pass(time.Minute)
		x.Expect(e.Ready()).To(MatchError(And(ContainSubstring(`namespace "away" must exist`),
			ContainSubstring(`namespaces "away" not found`))))
		stop()
		x.Expect(x.Read()).To(BeEmpty())
	})
}

func TestRequestThatNeverReturnsIsUnhealthy(t *testing.T) {
	inBubble(t, func(x *fixture) {
		client := &deafClient{LeaseInterface: x.API.Link(1), hang: make(chan struct{})}
		e := newElector(x.T, leader.Lease{Client: client, Namespace: "default", Name: "test", Identity: "a"}, nil)
		stop := x.campaign(e, "a")
		pass(16 * time.Second)
		x.Expect(x.Read()).To(Equal([]string{"a leads", "a ends: fenced"}), "the deadline does not wait for the client")
		pass(time.Until(client.asked.Add(15 * time.Second)))
		x.Expect(e.Healthy()).To(Succeed(), "for a LeaseDuration")
		pass(1)
		x.Expect(e.Healthy()).To(MatchError(`requesting lease "default/test": a request has not returned for 15s, longer than ` +
			"leader.Options.LeaseDuration (15s), so this replica cannot lead: restart the process, and find what ignores the end " +
			"of requests, such as the credential plugin of a kubeconfig"))
		close(client.hang)
		stop()
	})
}

// deafClient ignores the end of a context while it updates a Lease.
type deafClient struct {
	coordinationclient.LeaseInterface
	hang  chan struct{}
	once  sync.Once
	asked time.Time // first
}

func (d *deafClient) Leases(string) coordinationclient.LeaseInterface { return d }

func (d *deafClient) Update(context.Context, *coordinationv1.Lease, metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	d.once.Do(func() { d.asked = time.Now() })
	<-d.hang
	return nil, errors.New("the end of the test")
}

func TestWorkThatOutlivesItsLeadershipIsUnhealthy(t *testing.T) {
	for leads, lose := range map[string]func(x *fixture){
		"no replica leads": func(x *fixture) { x.API.Delete("test") },
		`no replica is known to lead; "thief" held lease "default/test" until `: func(x *fixture) {
			l, err := x.API.Get("test")
			x.Expect(err).NotTo(HaveOccurred())
			l.Spec.HolderIdentity = new("thief")
			_, err = x.API.Update(l)
			x.Expect(err).NotTo(HaveOccurred())
		},
	} {
		t.Run(leads, func(t *testing.T) {
			inBubble(t, func(x *fixture) {
				e := x.elector("a")
				release := make(chan struct{})
				var ended time.Time
				stop := x.Run(func(ctx context.Context) error {
					return e.Run(ctx, func(ctx context.Context) error {
						<-ctx.Done()
						ended = time.Now()
						<-release
						return nil
					})
				})
				pass(3 * time.Second)
				lose(x)
				pass(30 * time.Second)
				x.Expect(e.Status().String()).To(HavePrefix(leads), "while this one still works")
				pass(time.Until(ended.Add(time.Minute)))
				x.Expect(e.Healthy()).To(Succeed())
				pass(1)
				x.Expect(e.Healthy()).To(MatchError(`leading under lease "default/test": work still runs 1m0s after the leadership ` +
					"ended, longer than leader.Options.DrainTimeout (1m0s), so this replica cannot lead again: restart the process, " +
					"and make the work end with its context"))
				close(release)
				stop()
				x.Expect(e.Healthy()).To(Succeed())
			})
		})
	}
}

func TestStatusTellsWhoLeadsSinceWhen(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a, b := x.elector("a"), x.elector("b")
		x.Expect(a.String()).To(Equal("no replica leads"))
		x.Expect(a.Ready()).To(MatchError(ContainSubstring("no replica leads yet")))
		start := time.Now()
		stop1 := x.campaign(a, "a")
		pass(time.Second)
		stop2 := x.campaign(b, "b")
		pass(time.Minute)
		sa, sb := a.Status(), b.Status()
		x.Expect(sa.Leading).To(BeTrue())
		x.Expect(sa.Since).To(Equal(start))
		x.Expect(sa.TrustedUntil).To(BeTemporally(">", time.Now().Add(7*time.Second)))
		x.Expect(sb.Leading).To(BeFalse())
		x.Expect(sb.Leader).To(Equal(sa.Identity))
		x.Expect(sb.Transitions).To(BeZero(), "as client-go counts: the first leader of all is no change")
		x.Expect(b.Ready()).To(Succeed())
		x.Expect(strings.HasPrefix(sb.String(), "a_")).To(BeTrue())
		stop1()
		pass(3 * time.Second)
		x.Expect(b.Status().Transitions).To(BeEquivalentTo(1))
		stop2()
	})
}

// A lost leadership is logged as an error for the person on call. A failed
// request of a standby is not.
func TestALostLeadershipIsAnErrorAndAStandbysFailedRequestIsNot(t *testing.T) {
	inBubble(t, func(x *fixture) {
		log := func(name string) logr.Logger {
			return funcr.New(func(_, line string) {
				for _, what := range []string{"leadership lost", "lease request failed", "lease request of a standby failed"} {
					if strings.Contains(line, what) {
						x.Add("%s: %s %t", name, what, strings.Contains(line, `"error"=`))
					}
				}
			}, funcr.Options{})
		}
		run := func(name string) (*leaseapi.Link, func()) {
			l := x.API.Link(1)
			e := newElector(x.T, leaseOf(l, name), nil)
			return l, x.Run(func(ctx context.Context) error {
				return e.Run(logr.NewContext(ctx, log(name)), func(ctx context.Context) error {
					<-ctx.Done()
					return nil
				})
			})
		}
		a, stopA := run("a")
		pass(10 * time.Second)
		b, stopB := run("b")
		pass(10 * time.Second)
		fail := func(l *leaseapi.Link, err error) { l.Set(func(l *leaseapi.Link) { l.Fail = err }) }
		fail(b, errors.New("no route"))
		pass(10 * time.Second)
		x.Expect(x.Read()).To(Equal([]string{"b: lease request of a standby failed false"}))
		fail(b, nil)
		pass(10 * time.Second)
		fail(a, errors.New("no route"))
		pass(time.Minute)
		x.Expect(x.Read()).To(ContainElements("a: lease request failed true", "a: leadership lost true"))
		fail(a, nil)
		stopB()
		stopA()
	})
}

// moment matches a time as it stands in the texts of a Status: in UTC and with
// its date, because a replica may lead for days.
const moment = `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`

// A standby sees the holder, but not whether the holder works. So the text must
// not call every holder a leader, and no holder a leader forever.
func TestStatusDoesNotCallEveryHolderALeader(t *testing.T) {
	inBubble(t, func(x *fixture) {
		x.Expect(leader.Status{}.String()).To(Equal("no replica leads"))
		links := []*leaseapi.Link{x.API.Link(1), x.API.Link(2)}
		a, b := newElector(x.T, leaseOf(links[0], "a"), nil), newElector(x.T, leaseOf(links[1], "b"), nil)
		stopA := x.campaign(a, "a")
		pass(5 * time.Second)
		stopB := x.campaign(b, "b")
		pass(time.Second)
		for _, e := range []*leader.Elector{a, b} {
			x.Expect(e.String()).To(MatchRegexp(`^a_[0-9a-f]{8} leads; this replica has seen it since ` + moment + `$`))
		}
		for _, l := range links {
			l.Set(func(l *leaseapi.Link) { l.Fail = errors.New("no route") })
		}
		pass(11 * time.Second)
		x.Expect(a.String()).To(MatchRegexp(`^this replica does not know who leads; as far as it knows, a_[0-9a-f]{8} led until ` + moment + ` \(.*no route\)$`))
		x.Expect(a.Status().Ended).To(BeTemporally("~", time.Now(), 3*time.Second))
		x.Expect(b.String()).To(HavePrefix("a_"), "the Lease has not expired yet")
		pass(10 * time.Second)
		x.Expect(b.String()).To(MatchRegexp(`^this replica does not know who leads; as far as it knows, a_[0-9a-f]{8} led until ` + moment + ` \(.*no route\)$`))
		for _, l := range links {
			l.Set(func(l *leaseapi.Link) { l.Fail = nil })
		}
		x.hold("stranger")
		pass(5 * time.Second)
		for _, e := range []*leader.Elector{a, b} {
			x.Expect(e.String()).To(MatchRegexp(`^no replica of this program leads: "stranger", which is not the name of one, ` +
				`holds lease "default/test"; this replica has seen it since ` + moment + `$`))
			x.Expect(e.Ready()).To(Succeed(), "a standby is ready")
		}
		x.API.Delete("test")
		pass(time.Minute)
		x.Expect(a.String()).To(ContainSubstring(" leads; "), "another client's deletion makes the Lease free")
		stopA()
		stopB()
	})
}

// hold makes another client hold the Lease.
func (x *fixture) hold(holder string) {
	x.T.Helper()
	l, err := x.API.Get("test")
	x.Expect(err).NotTo(HaveOccurred())
	l.Spec.HolderIdentity, l.Spec.RenewTime = new(holder), new(metav1.NowMicro())
	_, err = x.API.Update(l)
	x.Expect(err).NotTo(HaveOccurred())
}

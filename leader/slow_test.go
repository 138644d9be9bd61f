package leader_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/test/leaseapi"
	"github.com/homeostat/homeostat/leader"
)

// A server whose answers take longer than RequestTimeout still has a leader.
func TestASlowServerHasALeader(t *testing.T) {
	const slow = 4 * time.Second
	for name, set := range map[string]func(l *leaseapi.Link){
		"answers to writes":         func(l *leaseapi.Link) { l.Writes.Response = slow },
		"writes":                    func(l *leaseapi.Link) { l.Writes.Request = slow },
		"all answers":               func(l *leaseapi.Link) { l.Writes.Response, l.Reads.Response = slow, slow },
		"all requests":              func(l *leaseapi.Link) { l.Writes.Request, l.Reads.Request = slow, slow },
		"answers to writes, by far": func(l *leaseapi.Link) { l.Writes.Response = 9 * time.Second },
		"answers that never come":   func(l *leaseapi.Link) { l.Writes.Response = time.Hour },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(x *fixture) {
				l := x.API.Link(1)
				set(l)
				stop := x.campaign(newElector(x.T, leaseOf(l, "a"), nil), "a")
				pass(10 * time.Minute)
				x.Expect(x.Read()).To(Equal([]string{"a leads"}))
				l.Set(func(l *leaseapi.Link) { l.Writes, l.Reads = leaseapi.Delay{}, leaseapi.Delay{} })
				pass(time.Minute)
				stop()
				x.Released("test")
			})
		})
	}
}

// A replica whose writes are answered too late must not keep the Lease from the
// other replicas.
func TestAReplicaWithoutAnswersLeavesTheLeaseToTheOthers(t *testing.T) {
	type delay = leaseapi.Delay
	for name, row := range map[string]struct{ writes, reads delay }{
		"requests":            {delay{Request: 6 * time.Second}, delay{Request: 6 * time.Second}},
		"answers":             {delay{Response: 6 * time.Second}, delay{Response: 6 * time.Second}},
		"writes above all":    {delay{Response: 6 * time.Second}, delay{Response: 3 * time.Second}},
		"writes, both ways":   {delay{Request: 8 * time.Second, Response: 8 * time.Second}, delay{}},
		"writes, and a pause": {delay{Request: 4 * time.Second, Response: time.Hour}, delay{Response: 3 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(x *fixture) {
				l := x.API.Link(1)
				l.Writes, l.Reads = row.writes, row.reads
				stopA := x.campaign(newElector(x.T, leaseOf(l, "a"), nil), "a")
				pass(time.Minute)
				stopB := x.campaign(x.elector("b"), "b")
				pass(3 * time.Minute)
				x.Expect(x.Read()).To(Equal([]string{"b leads"}))
				pass(10 * time.Minute)
				x.Expect(x.Read()).To(Equal([]string{"b leads"}))
				stopB()
				stopA()
			})
		})
	}
}

func TestARenewalMayUseAllThatIsLeftOfTheWindow(t *testing.T) {
	inBubble(t, func(x *fixture) {
		l := x.API.Link(1)
		stop := x.campaign(newElector(x.T, leaseOf(l, "a"), nil), "a")
		pass(time.Minute)
		slow := leaseapi.Delay{Response: 7 * time.Second}
		l.Set(func(l *leaseapi.Link) { l.Writes, l.Reads = slow, slow })
		pass(3 * time.Second) // one renewal is sent, with 8 s left
		l.Set(func(l *leaseapi.Link) { l.Writes, l.Reads = leaseapi.Delay{}, leaseapi.Delay{} })
		pass(time.Minute)
		x.Expect(x.Read()).To(Equal([]string{"a leads"}))
		stop()
		x.Released("test")
	})
}

func TestAStopDoesNotWaitForASlowRenewal(t *testing.T) {
	inBubble(t, func(x *fixture) {
		l := x.API.Link(1)
		stop := x.campaign(newElector(x.T, leaseOf(l, "a"), nil), "a")
		pass(time.Minute)
		l.Set(func(l *leaseapi.Link) { l.Writes.Response = time.Minute })
		pass(3 * time.Second)
		began := time.Now()
		stop()
		x.Expect(time.Since(began)).To(BeNumerically("<=", 10*time.Second))
		x.Expect(x.Read()).To(Equal([]string{"a leads", "a ends: stopping"}))
	})
}

func TestTheDurationsOfKubernetesProgramsAreTaken(t *testing.T) {
	for name, o := range map[string]leader.Options{
		"the defaults":     {LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second},
		"an old default":   {LeaseDuration: 60 * time.Second, RenewDeadline: 40 * time.Second, RetryPeriod: 5 * time.Second},
		"OpenShift's":      {LeaseDuration: 137 * time.Second, RenewDeadline: 107 * time.Second, RetryPeriod: 26 * time.Second},
		"a single replica": {LeaseDuration: 270 * time.Second, RenewDeadline: 240 * time.Second, RetryPeriod: 60 * time.Second},
		"little room":      {LeaseDuration: 15 * time.Second, RenewDeadline: 12 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := leader.New(leaseOf(leaseapi.New(t).Link(1), "a"), &o)
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
		})
	}
}

package informer_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// later calls s after a while, because a watch that ends at once counts as
// never opened.
func later(s step) step {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(5 * time.Second):
			s(w, r)
		case <-r.Context().Done():
		}
	}
}

// Faults are visible in Status.Reason before the first list and in
// Status.LastError after it, in the log, and in the counters that package
// metrics shows.
func TestFaultsAreVisible(t *testing.T) {
	forbidden := refuse(http.StatusForbidden, metav1.StatusReasonForbidden)
	unknown := refuse(http.StatusNotFound, metav1.StatusReasonNotFound)
	expired := event("ERROR", failure(http.StatusGone, metav1.StatusReasonExpired))
	first := []any{added(versioned("a", "1", "5")), listEnd("10")}
	began := func(last step, events ...any) step { return stream(last, append(first[:2:2], events...)...) }
	failures := func(match types.GomegaMatcher) types.GomegaMatcher { return HaveField("Failures", match) }

	for name, c := range map[string]struct {
		steps  []step
		after  time.Duration
		status types.GomegaMatcher
		log    string
	}{
		"403": {
			steps: []step{forbidden, forbidden, forbidden, forbidden, forbidden, forbidden, forbidden, forbidden}, after: 3 * time.Second,
			status: And(HaveField("Reason", And(ContainSubstring("refused by the script: Forbidden"), ContainSubstring("the verbs list and watch are needed"))),
				failures(BeNumerically(">=", 2))),
			log: "request failed, retrying",
		},
		"403 after the first list": {
			steps: []step{began(later(drop)), forbidden, forbidden, forbidden, forbidden, forbidden, forbidden}, after: 8 * time.Second,
			status: And(HaveField("Synced", true), HaveField("LastError", ContainSubstring("Forbidden")), failures(BeNumerically(">=", 1))),
			log:    "Forbidden",
		},
		"410": {
			steps: []step{began(later(stream(end, expired))), stream(hold, listEnd("20"))}, after: time.Minute,
			status: And(HaveField("Lists", BeEquivalentTo(2)), HaveField("Objects", 0), HaveField("LastError", "")),
			log:    "listed again",
		},
		"a dropped connection": {
			steps: []step{began(later(drop)), hold}, after: time.Minute,
			status: And(HaveField("Watches", BeEquivalentTo(2)), HaveField("Lists", BeEquivalentTo(1)), HaveField("LastError", "")),
			log:    "watch ended",
		},
		"a server that is restarted": {
			steps: []step{began(later(drop)), drop, drop, drop, drop, drop, drop, drop, drop}, after: 7 * time.Second,
			status: And(HaveField("Synced", true), HaveField("LastError", ContainSubstring("EOF")), failures(BeNumerically(">=", 1))),
			log:    "request failed, retrying",
		},
		"no bookmark": {
			steps: []step{stream(hold, first[0])}, after: 20 * time.Second,
			status: HaveField("Reason", ContainSubstring("(1 objects so far, but not the bookmark that ends the list")),
			log:    "but not the bookmark",
		},
		"no bookmark, given up": {
			steps: []step{stream(hold, first[0]), list("10")}, after: time.Minute,
			status: And(HaveField("Stalls", BeEquivalentTo(1)), HaveField("Synced", true)),
			log:    "streaming list did not end, falling back to a plain list",
		},
		"a silent watch": {
			steps: []step{began(hold, bookmark("20"))}, after: 2 * watchIdle,
			status: HaveField("Stalls", BeNumerically(">=", 1)),
			log:    "watch stalled, reopening",
		},
		"a kind that there is not yet": {
			steps: []step{unknown, unknown, unknown, unknown, unknown, unknown, unknown, unknown, unknown, unknown}, after: 15 * time.Second,
			status: And(HaveField("Reason", ContainSubstring("NotFound")), failures(BeNumerically(">=", 2))),
			log:    "still waiting for the first list",
		},
		"a kind that there is not any more": {
			steps: []step{began(later(stream(end, expired))), unknown, unknown, unknown, unknown, unknown, unknown, unknown}, after: 10 * time.Second,
			status: And(HaveField("LastError", ContainSubstring("NotFound")), failures(BeNumerically(">=", 2))),
			log:    "request failed, retrying",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				nodes, _ := scripted(t, nil, c.steps...)
				logs := &logbook{}
				stop := running(logs.context(t.Context()), nodes)
				defer stop()
				<-time.After(c.after)
				synctest.Wait()
				g.Expect(nodes.Status()).To(c.status)
				g.Expect(logs.matching(c.log)).NotTo(BeEmpty(), "%v", logs.lines)
			})
		})
	}
}

// Whatever has caused a gap in the watch, each deletion during the gap is
// delivered once.
func TestNoGapLosesADeletion(t *testing.T) {
	forbidden := refuse(http.StatusForbidden, metav1.StatusReasonForbidden)
	unknown := refuse(http.StatusNotFound, metav1.StatusReasonNotFound)
	gone := refuse(http.StatusGone, metav1.StatusReasonExpired)
	expired := event("ERROR", failure(http.StatusGone, metav1.StatusReasonExpired))
	first := func(last step, events ...any) step {
		return stream(last, append([]any{added(versioned("a", "1", "5")), added(versioned("b", "2", "6")), listEnd("10")}, events...)...)
	}
	relist := stream(hold, added(versioned("b", "2", "6")), listEnd("20"))
	for name, steps := range map[string][]step{
		"the watch expires":                        {first(later(stream(end, expired))), relist},
		"the connection drops, the watch goes on":  {first(later(drop)), stream(hold, deleted(versioned("a", "1", "12")))},
		"the connection drops, and it has expired": {first(later(drop)), gone, relist},
		"the server is restarted":                  {first(later(drop)), drop, drop, drop, gone, relist},
		"the rights are taken away":                {first(later(drop)), forbidden, gone, forbidden, forbidden, relist},
		"the kind is taken away":                   {first(later(stream(end, expired))), unknown, unknown, relist},
		"the second list never ends":               {first(later(stream(end, expired))), stream(hold, added(versioned("b", "2", "6"))), list("20", versioned("b", "2", "6"))},
		"the second list breaks": {
			first(later(stream(end, expired))), stream(drop, added(versioned("b", "2", "6"))), relist,
		},
		"the watch falls silent": {first(hold, bookmark("11")), gone, relist},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				nodes, _ := scripted(t, nil, steps...)
				told := &record{}
				nodes.Handle(told.hear)
				stop := running(t.Context(), nodes)
				defer stop()
				<-time.After(3 * watchIdle)
				synctest.Wait()
				g.Expect(told.heard()).To(Equal([]string{"known a/1", "known b/2", "deleted a/1"}))
				g.Expect(keys(nodes)).To(Equal([]string{"/b"}))
			})
		})
	}
}

// A request that is repeated as usual is not logged as an error.
func TestAnExpiredWatchIsNoError(t *testing.T) {
	for name, gone := range map[string]step{
		"it is refused": refuse(http.StatusGone, metav1.StatusReasonGone),
		"it is too old": refuse(http.StatusGone, metav1.StatusReasonExpired),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				nodes, _ := scripted(t, nil, stream(later(drop), listEnd("10")), gone, stream(hold, listEnd("20")))
				logs := &logbook{}
				stop := running(logs.important(t.Context()), nodes)
				defer stop()
				g.Expect(nodes.WaitFor(t.Context(), "20")).To(Succeed())
				g.Expect(logs.lines).To(ConsistOf(ContainSubstring("listed again")))
			})
		})
	}
}

// Each failing request is logged in one line, and no error is logged twice.
func TestTheLogOfAFailingServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		forbidden := refuse(http.StatusForbidden, metav1.StatusReasonForbidden)
		nodes, _ := scripted(t, nil, forbidden, forbidden, stream(later(drop), listEnd("10")), hold)
		logs := &logbook{}
		stop := running(logs.context(t.Context()), nodes)
		defer stop()
		g.Expect(nodes.WaitForSync(t.Context())).To(Succeed())
		g.Expect(logs.matching("watch ended")).To(BeEmpty(), "none was open")
		g.Expect(logs.matching("request failed, retrying")).To(HaveLen(1))
		g.Expect(logs.matching("list or watch failed")).To(BeEmpty())
		<-time.After(time.Minute)
		synctest.Wait()
		g.Expect(logs.matching("watch ended")).To(HaveLen(1))
	})
}

func TestTheObjectsOfAStreamThatBreaksAreNotCountedWithThoseOfTheNext(t *testing.T) {
	a := added(versioned("a", "1", "5"))
	with(t, func(x *fixture) {
		<-time.After(20 * time.Second)
		x.Expect(x.why()).To(MatchError(ContainSubstring("(1 objects so far")))
	}, stream(drop, a), stream(hold, a))
}

func TestAWatchThatIsOpenedAgainIsActivity(t *testing.T) {
	with(t, func(x *fixture) {
		x.sees("10", nil)
		<-time.After(time.Minute)
		synctest.Wait()
		status := x.nodes.Status()
		x.Expect(status.Watches).To(BeEquivalentTo(2))
		x.Expect(status.LastActivity).To(BeTemporally("==", status.WatchSince))
	}, stream(later(drop), listEnd("10")), hold)
}

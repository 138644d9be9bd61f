package informer

import (
	"errors"
	"fmt"
	"net"
	"net/http/httptrace"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/informer/internal/requests"
)

func TestAProblemIsLoggedWhenItIsNewAndThenAtDoubledIntervals(t *testing.T) {
	g := NewWithT(t)
	var all loggedErrors
	began := time.Now()
	due := func(text string, after time.Duration) bool { return all.isDue(text, began.Add(after)) }
	g.Expect(due("dial tcp 10.0.0.1:443: refused", 0)).To(BeTrue())
	g.Expect(due("dial tcp 10.0.0.2:444: refused", time.Second)).To(BeFalse(), "ports and addresses differ each time")
	g.Expect(due("bad gateway, request id 3f-ab12", 0)).To(BeTrue())
	g.Expect(due("bad gateway, request id cd4-567e", time.Second)).To(BeFalse(), "an id differs each time")
	g.Expect(due("no such host", time.Second)).To(BeTrue())
	refused := "dial tcp 10.0.0.3:445: refused"
	g.Expect(due(refused, 2*time.Second)).To(BeTrue())
	g.Expect(due(refused, 5*time.Second)).To(BeFalse())
	g.Expect(due(refused, 6*time.Second)).To(BeTrue())
	g.Expect(due(refused, 13*time.Second)).To(BeFalse())
	g.Expect(due(refused, 14*time.Second)).To(BeTrue())
	for n := range 10 * maxLoggedErrors {
		g.Expect(due(strings.Repeat("x", n), 15*time.Second)).To(BeTrue())
		g.Expect(len(all)).To(BeNumerically("<=", maxLoggedErrors))
	}
}

// When a server is replaced, its watches end. If no server answers after that,
// this is logged as one error, although the failing requests and their texts
// differ.
func TestAWatchThatEndsWithItsServerIsNoErrorUntilThatLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var lines []string
		p := &progress{counted: &counters{}, log: funcr.New(func(_, args string) {
			kind := "info"
			if strings.Contains(args, `"error"=`) {
				kind = "error"
			}
			lines = append(lines, kind)
		}, funcr.Options{})}
		refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		said := func(after time.Duration, err error) []string {
			lines = nil
			<-time.After(after)
			p.answered(t.Context(), err)
			return lines
		}
		g.Expect(said(0, refused)).To(Equal([]string{"error"}), "there is no watch yet")
		g.Expect(said(0, nil)).To(BeEmpty())
		p.synced.Store(true)
		g.Expect(said(time.Minute, refused)).To(Equal([]string{"info"}))
		p.request.phase = phaseList
		g.Expect(said(time.Second, fmt.Errorf("error from a previous attempt: %w", refused))).To(BeEmpty())
		g.Expect(said(time.Second, refused)).To(Equal([]string{"error"}))
		g.Expect(said(time.Second, errors.New("another one"))).To(Equal([]string{"error"}))
		g.Expect(said(0, nil)).To(BeEmpty())
		g.Expect(said(0, refused)).To(Equal([]string{"info"}))
	})
}

func TestTheLogSaysWhetherTheAnswerToAListHasBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var line string
		p := &progress{
			counted: &counters{}, wake: make(chan struct{}, 1),
			log: funcr.New(func(_, args string) { line = args }, funcr.Options{}),
		}
		p.begin(phaseList)
		asked, list := requests.WithDeadline(t.Context(), time.Minute, time.Minute)
		defer list.End()
		p.asking(list)
		<-time.After(2 * time.Second)
		p.warnOfSilence()
		g.Expect(line).To(ContainSubstring(`"no answer from the server yet"`))
		httptrace.ContextClientTrace(asked).GotFirstResponseByte()
		<-time.After(4 * time.Second)
		p.warnOfSilence()
		g.Expect(line).To(ContainSubstring(`"no complete answer from the server yet"`))
	})
}

func TestTheReasonSaysHowFarTheFirstListHasCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		p := &progress{
			source: source{namespace: "b"}, counted: &counters{}, log: logr.Discard(), wake: make(chan struct{}, 1),
		}
		g.Expect(p.whyNotSynced()).To(Equal(`namespace "b": no request has been sent yet`))
		p.begin(phaseList)
		<-time.After(3 * time.Second)
		g.Expect(p.whyNotSynced()).To(Equal(`namespace "b": listing: no answer for 3s`))
		p.answered(t.Context(), errors.New("too busy"))
		g.Expect(p.whyNotSynced()).To(Equal(`namespace "b": listing: too busy`))
		p.begin(phaseList)
		<-time.After(2 * time.Second)
		g.Expect(p.whyNotSynced()).To(Equal(`namespace "b": listing: no answer for 2s; before that, listing: too busy`))
		p.answered(t.Context(), nil)
		<-time.After(time.Second)
		g.Expect(p.whyNotSynced()).To(Equal(`namespace "b": listing: the answer is not complete after 3s`))
		p.listed()
		g.Expect(p.whyNotSynced()).To(Equal(`namespace "b": the list is stored and is being delivered to the handlers`))
		p.synced.Store(true)
		g.Expect(p.whyNotSynced()).To(BeEmpty())
	})
}

func TestTheStatusOfSeveralWatchesShowsTheOldest(t *testing.T) {
	g := NewWithT(t)
	none, first, later := time.Time{}, time.Unix(1, 0), time.Unix(2, 0)
	g.Expect(requests.Earlier(none, none)).To(BeZero())
	for _, pair := range [][2]time.Time{{first, later}, {later, first}, {first, none}, {none, first}, {first, first}} {
		g.Expect(requests.Earlier(pair[0], pair[1])).To(Equal(first), "%v", pair)
	}
}

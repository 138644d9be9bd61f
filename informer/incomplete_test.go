package informer_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
)

// narrowPath is a path on which the answer to a list stops after its headers,
// such as one with a wrong MTU. Small answers pass.
type narrowPath struct {
	stalled atomic.Bool
	lists   atomic.Int32
}

func (n *narrowPath) answer(r *http.Request) (*http.Response, error) {
	if trace := httptrace.ContextClientTrace(r.Context()); trace != nil && trace.GetConn != nil {
		trace.GetConn("away")
		defer trace.GotFirstResponseByte()
	}
	switch query := r.URL.Query(); {
	case query.Get("sendInitialEvents") != "":
		return refusing(http.StatusUnprocessableEntity, "Invalid")(r)
	case query.Get("watch") != "" && n.stalled.Load():
		return expiring(r)
	case query.Get("watch") != "":
		answer, err := open(r)
		answer.Body = &lasting{http.NoBody, r.Context(), time.After(time.Minute)}
		return answer, err
	}
	n.lists.Add(1)
	answer := answered(r, http.StatusOK, runtime.ContentTypeJSON,
		`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"10"}}`)
	answer.Body = &stallingBody{answer.Body, n, r.Context(), make(chan struct{})}
	return answer, nil
}

type stallingBody struct {
	io.ReadCloser
	path   *narrowPath
	ctx    context.Context //nolint:containedctx // of a request
	closed chan struct{}
}

func (b *stallingBody) Read(p []byte) (int, error) {
	var next <-chan time.Time
	if !b.path.stalled.Load() {
		next = time.After(time.Second)
	}
	select {
	case <-next:
		return b.ReadCloser.Read(p)
	case <-b.ctx.Done():
		return 0, b.ctx.Err()
	case <-b.closed:
		return 0, io.ErrClosedPipe
	}
}

func (b *stallingBody) Close() error {
	close(b.closed)
	return b.ReadCloser.Close()
}

// The answer to a list begins and stops. The list is named, as one without a
// complete answer, and is sent again.
func TestAListWhoseAnswerDoesNotEndIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, path := NewWithT(t), &narrowPath{}
		path.stalled.Store(true)
		pods := podsOf(t, path.answer)
		defer running(t.Context(), pods)()
		<-time.After(5 * time.Minute)
		synctest.Wait()
		g.Expect(pods.Status().Reason).To(HavePrefix("listing: no complete answer for 5m"))
		<-time.After(6 * time.Minute)
		synctest.Wait()
		g.Expect(path.lists.Load()).To(BeEquivalentTo(2))
		path.stalled.Store(false)
		<-time.After(20 * time.Minute)
		g.Expect(pods.HasSynced()).To(BeTrue(), "the list that had stalled is replaced")
		g.Expect(pods.Status().Problems).To(BeEmpty())

		path.stalled.Store(true)
		<-time.After(5 * time.Minute)
		synctest.Wait()
		problems := pods.Status().Problems
		g.Expect(problems).To(HaveLen(1))
		g.Expect(problems[0].Cause).To(Equal("no answer"), "and not the watch before the list, which has expired")
		g.Expect(problems[0].Reason).To(MatchRegexp(`^listing: no complete answer for \dm`))
		path.stalled.Store(false)
		<-time.After(12 * time.Minute)
		synctest.Wait()
		g.Expect(pods.Status().Problems).To(BeEmpty())
	})
}

// narrowLine is a slow line: a page of a list takes the given times, and all of
// it arrives in the end.
type narrowLine struct {
	mu    sync.Mutex // guards lists
	lists []string   // the pages that were asked for

	pages   []time.Duration
	expired atomic.Bool // whether watches have expired, so that all objects are listed again
}

func (n *narrowLine) answer(r *http.Request) (*http.Response, error) {
	if trace := httptrace.ContextClientTrace(r.Context()); trace != nil && trace.GetConn != nil {
		trace.GetConn("away")
		defer trace.GotFirstResponseByte()
	}
	query := r.URL.Query()
	switch {
	case query.Get("sendInitialEvents") != "":
		return refusing(http.StatusUnprocessableEntity, "Invalid")(r)
	case query.Get("watch") != "" && n.expired.CompareAndSwap(true, false):
		return expiring(r)
	case query.Get("watch") != "":
		answer, err := open(r)
		answer.Body = &lasting{http.NoBody, r.Context(), time.After(time.Minute)}
		return answer, err
	}
	page := max(0, strings.Index("012", query.Get("continue")))
	if limit := query.Get("limit"); limit == "" || limit == "500" { // not a look at how new the server is
		n.mu.Lock()
		n.lists = append(n.lists, fmt.Sprint(page))
		n.mu.Unlock()
	}
	next := ""
	if page+1 < len(n.pages) {
		next = fmt.Sprint(page + 1)
	}
	answer := answered(r, http.StatusOK, runtime.ContentTypeJSON, fmt.Sprintf(
		`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"10","continue":%q},"items":[{"metadata":`+
			`{"namespace":"d","name":"%d","uid":"1","resourceVersion":"9"}}]}`, next, page))
	answer.Body = &slowBody{answer.Body, r.Context(), n.pages[page]}
	return answer, nil
}

// asked returns the pages that were asked for, and forgets them.
func (n *narrowLine) asked() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	pages := strings.Join(n.lists, " ")
	n.lists = nil
	return pages
}

type slowBody struct {
	io.ReadCloser
	ctx  context.Context //nolint:containedctx // of a request
	left time.Duration
}

func (b *slowBody) Read(p []byte) (int, error) {
	select {
	case <-time.After(b.left):
		b.left = 0
		return b.ReadCloser.Read(p)
	case <-b.ctx.Done():
		return 0, b.ctx.Err()
	}
}

// A list takes twelve minutes. Only the first one has too little time.
func TestAListThatIsOnlySlowIsCutOnce(t *testing.T) {
	for name, c := range map[string]struct {
		pages []time.Duration
		asked string
	}{
		"one answer":         {[]time.Duration{12 * time.Minute}, "0 0"},
		"a fast page before": {[]time.Duration{time.Second, 12 * time.Minute}, "0 1 0 1"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, line := NewWithT(t), &narrowLine{pages: c.pages}
				pods := podsOf(t, line.answer)
				defer running(t.Context(), pods)()
				<-time.After(23 * time.Minute)
				synctest.Wait()
				g.Expect(pods.HasSynced()).To(BeTrue())
				g.Expect(line.asked()).To(Equal(c.asked))
				if len(c.pages) > 1 {
					return
				}
				lists := pods.Status().Lists
				line.expired.Store(true)
				<-time.After(14 * time.Minute)
				synctest.Wait()
				g.Expect(pods.Status().Lists).To(Equal(lists + 1))
				g.Expect(line.asked()).To(Equal("0"), "the next one has enough time")
			})
		})
	}
}

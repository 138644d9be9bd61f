package leader_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/test/leaseapi"
	"github.com/homeostat/homeostat/leader"
)

// A path is judged by what it names, not by the words in it.
func TestFenceReadsPathsAsTheServerDoes(t *testing.T) {
	const passes, refused = true, false
	for _, c := range []struct {
		request string
		standby bool // whether another replica leads
		leading bool
	}{
		{"GET /api/v1/namespaces/services/configmaps/proxy", passes, passes},
		{"PUT /api/v1/namespaces/services/configmaps/proxy", refused, passes},
		{"DELETE /apis/apps/v1/namespaces/pods/deployments/exec", refused, passes},
		{"GET /apis/apps/v1/namespaces/nodes/deployments/proxy", passes, passes},
		{"GET /api/v1/namespaces/default/services/proxy", passes, passes},
		{"GET /api/v1/namespaces/default/services/web/proxy", refused, passes},
		{"GET /api/v1/namespaces/default/services/web/proxy/some/path", refused, passes},
		{"POST /api/v1/namespaces/default/services/web/proxy/some/path", refused, passes},
		{"GET /api/v1/proxy/nodes/node-1/metrics", refused, passes},
		{"GET /api/v1/nodes/node-1/proxy/metrics", refused, passes},
		{"GET /api/v1/watch/namespaces/default/pods", passes, passes},
		{"GET /api/v1/namespaces/exec/status", passes, passes},
		{"PUT /api/v1/namespaces/exec/finalize", refused, passes},
		{"GET /api/v1/namespaces/default/pods/p/log", passes, passes},
		{"GET /api/v1/namespaces/default/pods/p/log?follow=false", passes, passes},
		{"GET /api/v1/namespaces/default/pods/p/log?follow=true", refused, passes},
		{"GET /api/v1/namespaces/default/pods?watch=true", passes, passes},
		{"GET /api/v1/namespaces/default/pods/p/exec?command=ls", refused, refused},
		{"POST /api/v1/namespaces/default/pods/p/exec?command=ls", refused, refused},
		{"POST /api/v1/namespaces/default/pods/p/attach", refused, refused},
		{"POST /api/v1/namespaces/default/pods/p/portforward", refused, refused},
		{"GET /apis/subresources.kubevirt.io/v1/namespaces/default/virtualmachines/v/portforward/22", refused, refused},
		{"GET /version", passes, passes},
		{"GET /apis", passes, passes},
		{"POST /anything", refused, passes},
	} {
		for _, host := range []string{"http://api", "http://api/k8s/clusters/proxy/"} {
			method, path, _ := strings.Cut(c.request, " ")
			t.Run(c.request+" at "+host, func(t *testing.T) {
				var d diary
				judge := func(ctx context.Context, e *leader.Elector, want bool) {
					g := NewWithT(t)
					res, err := through(ctx, e, strings.TrimSuffix(host, "/"), d.Server, method, path)
					if want == refused {
						g.Expect(err).To(MatchError(leader.ErrFenced))
						return
					}
					g.Expect(err).NotTo(HaveOccurred())
					_ = res.Body.Close()
				}
				synctest.Test(t, func(t *testing.T) {
					judge(t.Context(), newElector(t, leaseOf(leaseapi.New(t).Link(1), "b"), nil), c.standby)
				})
				led(t, func(ctx context.Context, e *leader.Elector, _ *leaseapi.API, _ *leaseapi.Link) {
					judge(ctx, e, c.leading)
				})
			})
		}
	}
}

// endless is an answer without end, which stops with its request.
func endless(req *http.Request) (*http.Response, error) {
	r, in := io.Pipe()
	context.AfterFunc(req.Context(), func() { _ = in.CloseWithError(req.Context().Err()) })
	res := reply(req, http.StatusOK, "")
	res.Body = &pipe{PipeReader: r, in: in}
	return res, nil
}

// pipe is the body of an answer, and the writer that feeds it.
type pipe struct {
	*io.PipeReader

	in *io.PipeWriter
}

func TestStreamsEndWithTheLeadership(t *testing.T) {
	for _, path := range []string{
		"/api/v1/namespaces/default/pods/p/log?follow=1", "/api/v1/namespaces/default/services/web/proxy/events",
	} {
		t.Run(path, func(t *testing.T) {
			led(t, func(_ context.Context, e *leader.Elector, _ *leaseapi.API, l *leaseapi.Link) {
				g := NewWithT(t)
				res, err := through(context.Background(), e, "http://api", endless, http.MethodGet, path)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(res.Request.URL.Query()).NotTo(HaveKey("timeout"), "it is for the other end")
				ended := make(chan time.Time, 1)
				go func() {
					_, _ = io.Copy(io.Discard, res.Body)
					ended <- time.Now()
				}()
				pass(time.Hour)
				g.Expect(ended).NotTo(Receive(), "renewals keep it open")
				open, start := make(chan struct{}), time.Now()
				l.Set(func(l *leaseapi.Link) { l.Cut = open })
				pass(time.Minute)
				var at time.Time
				g.Expect(ended).To(Receive(&at))
				g.Expect(at.Sub(start)).To(BeNumerically("<=", 10*time.Second))
				l.Set(func(l *leaseapi.Link) { l.Cut = nil })
				close(open)
			})
		})
	}
}

func TestAStreamThatIsNotAnsweredEndsWithTheTrustWindow(t *testing.T) {
	led(t, func(_ context.Context, e *leader.Elector, _ *leaseapi.API, _ *leaseapi.Link) {
		g := NewWithT(t)
		start := time.Now()
		_, err := through(context.Background(), e, "http://api", func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return nil, req.Context().Err()
		}, http.MethodGet, "/api/v1/nodes/n/proxy/")
		g.Expect(err).To(MatchError(leader.ErrFenced))
		g.Expect(time.Since(start)).To(BeNumerically("<=", 10*time.Second))
	})
}

func TestAnAnswerThatSwitchesProtocolsIsRefused(t *testing.T) {
	led(t, func(ctx context.Context, e *leader.Elector, _ *leaseapi.API, _ *leaseapi.Link) {
		g := NewWithT(t)
		closed := false
		_, err := through(ctx, e, "http://api", func(req *http.Request) (*http.Response, error) {
			res := reply(req, http.StatusSwitchingProtocols, "")
			res.Body = closing{Reader: strings.NewReader(""), closed: &closed}
			return res, nil
		}, http.MethodPost, "/apis/example.com/v1/namespaces/default/machines/m/console")
		g.Expect(err).To(MatchError(leader.ErrFenced))
		g.Expect(err).To(MatchError(ContainSubstring("open it with a client of the original config")))
		g.Expect(closed).To(BeTrue())
	})
}

type closing struct {
	io.Reader

	closed *bool
}

func (c closing) Close() error { *c.closed = true; return nil }

// stubborn is an answer that comes from a buffer or a paused process: in two
// parts, a minute apart, whether or not its request has ended.
type stubborn struct{ parts int }

func (s *stubborn) Read(p []byte) (int, error) {
	if s.parts++; s.parts > 1 {
		<-time.After(time.Minute)
	}
	return copy(p, "log"), nil
}

func TestAStreamDeliversNothingAfterTheLeadership(t *testing.T) {
	led(t, func(_ context.Context, e *leader.Elector, _ *leaseapi.API, l *leaseapi.Link) {
		g := NewWithT(t)
		res, err := through(context.Background(), e, "http://api", func(req *http.Request) (*http.Response, error) {
			res := reply(req, http.StatusOK, "")
			res.Body = io.NopCloser(&stubborn{})
			return res, nil
		}, http.MethodGet, "/api/v1/namespaces/default/pods/p/log?follow=1")
		g.Expect(err).NotTo(HaveOccurred())
		defer res.Body.Close()
		part := make([]byte, 10)
		g.Expect(res.Body.Read(part)).To(Equal(3))
		open := make(chan struct{})
		l.Set(func(l *leaseapi.Link) { l.Cut = open })
		n, err := res.Body.Read(part)
		g.Expect(n).To(BeZero(), "it came after the window had closed")
		g.Expect(err).To(MatchError(leader.ErrFenced))
		l.Set(func(l *leaseapi.Link) { l.Cut = nil })
		close(open)
	})
}

func TestAnAnswerThatIsClosedFreesItsDeadline(t *testing.T) {
	led(t, func(ctx context.Context, e *leader.Elector, _ *leaseapi.API, _ *leaseapi.Link) {
		g := NewWithT(t)
		var sent context.Context
		res, err := through(ctx, e, "http://api", func(req *http.Request) (*http.Response, error) {
			sent = req.Context()
			return reply(req, http.StatusOK, "{}"), nil
		}, http.MethodPut, "/api/v1/x")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(sent.Err()).To(Succeed())
		g.Expect(res.Body.Close()).To(Succeed())
		g.Expect(sent.Err()).To(MatchError(context.Canceled))
	})
}

func TestAnAnswerIsReadToItsEnd(t *testing.T) {
	led(t, func(ctx context.Context, e *leader.Elector, _ *leaseapi.API, _ *leaseapi.Link) {
		g := NewWithT(t)
		res, err := through(ctx, e, "http://api", func(req *http.Request) (*http.Response, error) {
			res, err := endless(req)
			in := res.Body.(*pipe).in
			go func() {
				_, _ = io.WriteString(in, "one ")
				_, _ = io.WriteString(in, "two")
				_ = in.Close()
			}()
			return res, err
		}, http.MethodPut, "/api/v1/x")
		g.Expect(err).NotTo(HaveOccurred())
		defer res.Body.Close()
		g.Expect(io.ReadAll(res.Body)).To(BeEquivalentTo("one two"))
	})
}

package leader

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"path"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/internal/proxied"
	"github.com/homeostat/homeostat/leader/internal/record"
)

const (
	// probeLimit is how long a probe waits for an answer.
	probeLimit = 30 * time.Second
	// probePause is how long the cause that a probe has found is used, before
	// another probe looks for the cause again.
	probePause = 20 * time.Second
	// slowAnswer is the time after which an answer to a probe counts as slow.
	slowAnswer = time.Second
)

// probe finds out why requests have no answer: it asks the API server whether
// it is ready, on a new connection and with more patience. A connection that
// cannot be made, a handshake without an answer, a late answer and a check that
// fails are different causes. One probe runs at a time.
type probe struct {
	way    *way
	server *url.URL
	place  string // the server in messages, with the proxy of the requests, if there is one

	mu      sync.Mutex // guards the fields below
	running bool
	ended   time.Time
	cause   string // the cause that the last probe found; empty if an answer has arrived since
}

func newProbe(config *rest.Config) (*probe, error) {
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	place := server.Host
	if proxy := proxied.Of(config).Proxy(server); proxy != "" {
		place += " (through the proxy " + proxy + ")"
	}
	w, err := newWay(config)
	return &probe{way: w, server: server, place: place}, err
}

// explain adds the cause, as far as it is known, to the error of a request
// without an answer. It starts a probe if the cause is unknown or was found
// long ago.
func (p *probe) explain(err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running && (p.cause == "" || time.Since(p.ended) >= probePause) {
		p.running = true
		go p.run()
	}
	const unknown = "the cause is not known yet: asking the server's /readyz on a new connection"
	return &record.CauseError{Err: err, Cause: cmp.Or(p.cause, unknown)}
}

// answered forgets the cause, because a request was answered in time.
func (p *probe) answered() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cause = ""
}

func (p *probe) run() {
	found := p.ask()
	p.way.dialer.CloseAll()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running, p.ended, p.cause = false, time.Now(), found
}

// stages records when a probe got a connection, and when the connection was
// secure. The times are zero until then.
type stages struct {
	mu                sync.Mutex // guards the fields below
	connected, secure time.Time
}

func (s *stages) trace() *httptrace.ClientTrace {
	note := func(t *time.Time) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if t.IsZero() {
			*t = time.Now()
		}
	}
	return &httptrace.ClientTrace{
		TLSHandshakeStart: func() { note(&s.connected) },
		TLSHandshakeDone: func(_ tls.ConnectionState, err error) {
			if err == nil {
				note(&s.secure)
			}
		},
		GotConn: func(httptrace.GotConnInfo) {
			note(&s.connected)
			note(&s.secure)
		},
	}
}

// timings contains the durations of the parts of an answered probe.
type timings struct{ connection, handshake, answer time.Duration }

// durations returns how long each part of a probe took that was answered just
// now. began is the time at which the probe began.
func (s *stages) durations(began time.Time) timings {
	s.mu.Lock()
	defer s.mu.Unlock()
	return timings{s.connected.Sub(began), s.secure.Sub(s.connected), time.Since(s.secure)}
}

// ask sends one request to /readyz, and returns the likely cause, as text for
// an error. For example, the text may begin "/readyz has no answer: a new
// connection to 10.0.0.1 is made at once".
func (p *probe) ask() string {
	ctx, cancel := context.WithTimeout(context.Background(), probeLimit)
	defer cancel()
	var s stages
	target := *p.server
	target.Path = path.Join("/", target.Path, "readyz")
	target.RawQuery = "verbose"
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, s.trace()), http.MethodGet, target.String(),
		http.NoBody)
	if err != nil {
		return record.CauseUnknown
	}
	began := time.Now()
	res, err := p.way.RoundTrip(req)
	if err != nil {
		return p.unanswered(&s, began, err)
	}
	defer res.Body.Close()
	const maxBody = 64 << 10
	body, err := io.ReadAll(io.LimitReader(res.Body, maxBody))
	if err != nil {
		return p.unanswered(&s, began, err)
	}
	return p.judge(res.StatusCode, body, s.durations(began))
}

// unanswered returns the likely reason why a probe got no answer. It depends on
// the stages that the probe has reached.
func (p *probe) unanswered(s *stages, began time.Time, err error) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	waited := coarse(time.Since(began))
	if named, ok := errors.AsType[*proxied.Error](err); ok {
		err = named.Unwrap() // place has the proxy already
	}
	switch {
	case s.connected.IsZero():
		return fmt.Sprintf("no new connection to %s can be made (%v): %s; on the way look for a firewall or a route "+
			"that drops "+
			"packets, and at the server for a machine that is down", p.place, err, record.HowToDecide)
	case s.secure.IsZero():
		return fmt.Sprintf("nothing comes back: %s accepts a new connection, but its TLS handshake has no answer after "+
			"%v: %s; on the way look for a proxy or load balancer without a server, and for lost packets", p.place,
			waited, record.HowToDecide)
	}
	return fmt.Sprintf("/readyz has no answer: a new connection to %s is made at once, TLS included, but the request is "+
		"not answered within %v: %s, or its etcd", p.place, waited, record.HowToDecide)
}

// judge returns the likely reason why earlier requests had no answer, although
// the probe has one. It depends on the checks that fail, and on the times that
// the parts of the probe took.
func (p *probe) judge(status int, body []byte, parts timings) string {
	took := parts.connection + parts.handshake + parts.answer
	var failed []string
	for line := range bytes.Lines(body) {
		if check, ok := bytes.CutPrefix(line, []byte("[-]")); ok {
			name, _, _ := strings.Cut(strings.TrimSpace(string(check)), " ")
			failed = append(failed, name)
		}
	}
	switch {
	case len(failed) > 0:
		return fmt.Sprintf("the API server answers, but is not ready: its checks %s fail", strings.Join(failed, ", "))
	case took >= slowAnswer:
		const share = 3 // an answer is in time within a third of a lease duration
		subject, network := "the API server at %s, or a proxy before it,", ", so the network is probably not the reason"
		if parts.connection >= slowAnswer {
			subject, network = "the network to the API server at %s", ""
		}
		return fmt.Sprintf(subject+" is slow: a new connection was made after %v%s; its TLS handshake took %v, and /readyz "+
			"was answered %v later; as a stopgap, until it is faster, a lease duration of more than %v helps", p.place,
			coarse(parts.connection), network, coarse(parts.handshake), coarse(parts.answer), coarse(share*took))
	}
	return fmt.Sprintf("the API server and the way to it are quick: /readyz on a new connection was answered with %d "+
		"after %v; only requests for Leases get no answer: run `kubectl get leases -A`, and check its etcd", status,
		coarse(took))
}

// coarse rounds d, because a message about the same cause should stay the same.
func coarse(d time.Duration) time.Duration {
	if d < time.Second {
		return (d + 100*time.Millisecond).Truncate(100 * time.Millisecond)
	}
	return d.Round(time.Second)
}

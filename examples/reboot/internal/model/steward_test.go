package model_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	policyv1 "k8s.io/api/policy/v1"

	"github.com/homeostat/homeostat/examples/reboot/internal/machine"
)

// clock is the wall clock of a machine, which may be wrong, and may be set.
type clock struct{ off atomic.Int64 }

func (c *clock) now() time.Time        { return time.Now().Add(time.Duration(c.off.Load())) }
func (c *clock) set(off time.Duration) { c.off.Store(int64(off)) }

// hull is a machine that goes down and comes back by itself, and may misbehave.
type hull struct {
	name string
	away func(asked bool) // is called when it goes down

	mu        sync.Mutex // guards the fields below
	boots     int        // that took place
	id        int        // of the boot, as the kernel shows it
	off       bool
	blind     bool // its boot id stays
	refuses   bool
	deaf      bool   // it answers, and does nothing
	mute      bool   // it does not answer
	inhibited string // what forbids a reboot
	slow      time.Duration
}

func (h *hull) BootID(context.Context) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.off {
		return "", errors.New("the machine is off")
	}
	return h.bootID(), nil
}

func (h *hull) bootID() string {
	return h.name + "-boot-" + string(rune('A'+h.id%26)) + strings.Repeat("'", h.id/26)
}

func (h *hull) Inhibitors(context.Context) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.inhibited, nil
}

func (h *hull) Reboot(ctx context.Context, bootID string) error {
	h.mu.Lock()
	switch {
	case h.off:
		h.mu.Unlock()
		return errors.New("the machine is off")
	case h.bootID() != bootID:
		h.mu.Unlock()
		return machine.ErrOtherBoot
	case h.refuses || h.inhibited != "":
		h.mu.Unlock()
		<-time.After(5 * time.Second) // meanwhile the controller sees that the machine was told
		return errors.New("the init system says no")
	case h.deaf:
		h.mu.Unlock()
		return nil
	case h.mute:
		h.mu.Unlock()
		<-ctx.Done()
		return ctx.Err()
	}
	slow := h.slow
	h.mu.Unlock()
	time.AfterFunc(slow, func() { h.goDown(true) })
	return nil
}

// goDown is the moment at which the machine stops.
func (h *hull) goDown(asked bool) {
	h.mu.Lock()
	if h.off {
		h.mu.Unlock()
		return
	}
	h.off = true
	h.mu.Unlock()
	h.away(asked)
}

// powerOn begins the next boot.
func (h *hull) powerOn() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.off = false
	h.boots++
	if !h.blind {
		h.id++
	}
}

func (h *hull) change(f func(h *hull)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f(h)
}

func (h *hull) isOff() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.off
}

// proxy is between a client and the server. While it lies, an answer may be a
// page, may get lost, or may arrive without the client's knowledge.
type proxy struct {
	evicted func(uid string)

	mu    sync.Mutex // guards the fields below
	rng   *rand.Rand
	until time.Time // it lies
	// swallows says that it answers every eviction itself.
	swallows bool
}

func (p *proxy) lie(until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.until = until
}

// pass lets evictions through from now on.
func (p *proxy) pass() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.swallows = false
}

// answers reports whether the proxy itself answers the eviction of a Pod.
func (p *proxy) answers(uid string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.swallows && uid != ""
}

func (p *proxy) choice() float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Now().After(p.until) {
		return 1
	}
	return p.rng.Float64()
}

type lying struct {
	*proxy
	next http.RoundTripper
}

func (l lying) RoundTrip(r *http.Request) (*http.Response, error) {
	uid := evictedUID(r)
	switch c := l.choice(); {
	case l.answers(uid):
		return page(r, http.StatusBadGateway, "text/plain", "bad gateway"), nil
	case c < 0.05:
		return page(r, http.StatusNotFound, "text/html", "<html>no such page"), nil
	case c < 0.10:
		return page(r, http.StatusBadGateway, "text/plain", "bad gateway"), nil
	case c < 0.15:
		answer := page(r, http.StatusTooManyRequests, "text/plain", "too many")
		answer.Header.Set("Retry-After", "7")
		return answer, nil
	case c < 0.20:
		return nil, errors.New("connection reset by peer")
	case c < 0.25 && r.URL.Query().Get("watch") == "":
		select {
		case <-r.Context().Done():
		case <-time.After(40 * time.Second):
		}
		return nil, errors.New("i/o timeout")
	case c < 0.30 && r.Method != http.MethodGet: // the server has done it, and the client does not learn that
		answer, err := l.next.RoundTrip(r)
		if err == nil {
			_ = answer.Body.Close()
			l.seen(uid)
		}
		return nil, errors.New("unexpected EOF")
	}
	l.seen(uid)
	return l.next.RoundTrip(r)
}

func (l lying) seen(uid string) {
	if uid != "" {
		l.evicted(uid)
	}
}

// evictedUID returns the UID of the Pod that the request asks to evict, or "".
func evictedUID(r *http.Request) string {
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/eviction") {
		return ""
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var e policyv1.Eviction
	if err := json.Unmarshal(body, &e); err != nil || e.DeleteOptions == nil {
		panic("an eviction without a UID")
	}
	return string(*e.DeleteOptions.Preconditions.UID)
}

func page(r *http.Request, status int, kind, text string) *http.Response {
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Request: r, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(strings.NewReader(text)),
	}
}

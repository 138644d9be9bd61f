package informer

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/homeostat/homeostat/internal/redact"
)

const (
	// outageTime is how long no watch must have worked for that to be a problem:
	// restarts of an API server are shorter.
	outageTime = time.Minute
	// steady is how long a watch must be open to be one that works, if it brings
	// nothing.
	steady = 10 * time.Second
)

// outage is the time since a watch of a source last worked: one that has brought
// something, or that has been open for a while. A list that succeeds does not end it.
type outage struct {
	since time.Time // of the first failure; zero while a watch works
	err   error     // of the last failure
	// cause is causeOf(err), and causeSince when all failures began to have it.
	cause      string
	causeSince time.Time
}

// add notes a failure.
func (o *outage) add(err error) {
	now := time.Now()
	if o.since.IsZero() {
		o.since = now
	}
	if cause := causeOf(err); cause != o.cause {
		o.cause, o.causeSince = cause, now
	}
	o.err = err
}

// errEndsAtOnce is the failure of watches that end before they bring anything. Why they
// do, only the reflector's log knows.
var errEndsAtOnce = errors.New("watching: the server opens watches and ends them at once")

// watchWorks reports whether the last request is a watch that works, or worked until it
// ended. The caller holds mu.
func (p *progress) watchWorks() bool {
	r := p.request
	if r.phase != phaseWatch || r.opened.IsZero() {
		return false
	}
	end := r.ended
	if end.IsZero() {
		end = time.Now()
	}
	return p.lastActivity().After(r.opened) || end.Sub(r.opened) >= steady
}

// noteEnd notes, before the next request, whether the last one was a watch that worked.
// The caller holds mu.
func (p *progress) noteEnd() {
	switch {
	case p.watchWorks():
		p.outage = outage{}
	case p.request.phase == phaseWatch && !p.request.opened.IsZero():
		p.outage.add(errEndsAtOnce)
	}
}

// timedWatch notes when the reflector stops it.
type timedWatch struct {
	watch.Interface
	progress *progress
}

// Stop implements [watch.Interface].
func (w timedWatch) Stop() {
	w.progress.mu.Lock()
	if r := &w.progress.request; r.ended.IsZero() {
		r.ended = time.Now()
	}
	w.progress.mu.Unlock()
	w.Interface.Stop()
}

// problem returns the outage as a problem, if it has lasted for outageTime, and since when
// every request has been answered with 401: zero if another answer came, or if the first
// list has never come.
func (p *progress) problem() (found []Problem, unauthorizedSince time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := &p.outage
	if o.since.IsZero() || p.watchWorks() || !p.synced.Load() {
		return nil, time.Time{}
	}
	if o.cause == causeUnauthorized {
		unauthorizedSince = o.causeSince
	}
	if time.Since(o.since) < outageTime {
		return nil, unauthorizedSince
	}
	problem := Problem{
		Cause: o.cause, Reason: redact.Text(o.err.Error()), Remedy: remedies[o.cause], Since: o.since,
	}
	if p.source.namespace != "" {
		problem.Object = fmt.Sprintf("namespace %q", p.source.namespace)
	}
	return []Problem{problem}, unauthorizedSince
}

// Causes of outages.
const (
	causeUnauthorized = "Unauthorized"
	causeForbidden    = "Forbidden"
	causeNotServed    = "not served"
	causeUnreachable  = "unreachable"
	causeNoAnswer     = "no answer"
	causeCertificate  = "certificate"
	causeThrottled    = "throttled"
	causeServerError  = "server error"
	causeEndsAtOnce   = "watch ends at once"
	causeOther        = "failed"
)

// remedies say what a person can do, by cause.
var remedies = map[string]string{ //nolint:gochecknoglobals // a constant
	causeUnauthorized: "renew the credentials of this program",
	causeForbidden:    "grant the verbs list and watch",
	causeNotServed:    "serve this version of the kind again, or upgrade this program",
	causeUnreachable:  "look whether the API server runs, and at the network between",
	causeNoAnswer:     "look whether the API server is overloaded, and at the network between",
	causeCertificate:  "look at the API server's certificate, and at the authority in the kubeconfig",
	causeThrottled:    "look at the API server's priority levels and flow schemas",
}

// causeOf returns why a list or a watch failed, in a word or two.
func causeOf(err error) string {
	var status apierrors.APIStatus
	answered := errors.As(err, &status)
	switch {
	case errors.Is(err, errEndsAtOnce):
		return causeEndsAtOnce
	case apierrors.IsUnauthorized(err):
		return causeUnauthorized
	case apierrors.IsForbidden(err):
		return causeForbidden
	case apierrors.IsNotFound(err), //nolint:forbidigo // a word for people, nothing is concluded
		apierrors.IsMethodNotSupported(err), apierrors.IsNotAcceptable(err):
		return causeNotServed
	case apierrors.IsTooManyRequests(err):
		return causeThrottled
	case errors.Is(err, errNoAnswer), errors.Is(err, errCutOff), errors.Is(err, context.DeadlineExceeded),
		utilnet.IsTimeout(err), answered && apierrors.IsTimeout(err):
		return causeNoAnswer
	case answered && status.Status().Code >= http.StatusInternalServerError:
		return causeServerError
	case isOfCertificate(err):
		return causeCertificate
	case isOfNetwork(err):
		return causeUnreachable
	}
	return causeOther
}

// isOfCertificate reports whether err shows that the server's certificate is not trusted.
func isOfCertificate(err error) bool {
	_, refused := errors.AsType[*tls.CertificateVerificationError](err)
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	_, invalid := errors.AsType[x509.CertificateInvalidError](err)
	return refused || unknown || invalid
}

// isOfNetwork reports whether err shows that no server was reached.
func isOfNetwork(err error) bool {
	_, ok := errors.AsType[*net.OpError](err)
	_, noHost := errors.AsType[*net.DNSError](err)
	return ok || noHost || utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) ||
		utilnet.IsProbableEOF(err)
}

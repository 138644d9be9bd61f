// Package hostclock compares the clock of this machine with the clock of an API
// server. Each answer of the server has the time in its header Date.
//
// A clock that is wrong does not stop a controller, because Homeostat compares
// no times of two machines. It makes other things wrong: the times in the log,
// in Events and in Leases, and the decision whether a certificate or a token is
// valid. A person who sees only these suspects the certificate, so the program
// names the clock.
package hostclock

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// Remedy is what a person does about two clocks that differ.
const Remedy = "run `date -u` on a third machine; if it agrees with the API server, set the clock of this replica's " +
	"node, and if it agrees with this replica, set the clock of the API server's machine"

// tolerance is the difference up to which two clocks count as equal.
const tolerance = time.Minute

// Comparison compares the clock of this machine with the clock of one API
// server. It is safe for concurrent use. Make it with [New].
type Comparison struct {
	// OnChange, if set, is called when the clocks begin to differ by more than
	// a minute, and with 0 when they agree again; see Difference. offset is how
	// far the clock of this machine is ahead of the server's.
	OnChange func(offset time.Duration)

	inquiry *inquiry // nil without TLS, or without settings for TLS; see newInquiry

	mu          sync.Mutex // guards the fields below
	lastReading reading
	apart       reading // the last one that differed, until the clocks agree
}

// reading is what an answer of the server shows about the two clocks. The zero
// reading stands for no answer.
type reading struct {
	answered time.Time     // when the answer arrived, by the clock of this machine
	offset   time.Duration // how far that clock was ahead of the server's
	took     time.Duration // how long the request took; the server has read its clock in that time
}

// differs reports whether the clocks differ by more than the tolerance,
// whenever during the request the server has read its clock.
func (r reading) differs() bool { return r.offset.Abs()-r.took/2 > tolerance }

// difference returns how far the clock of this machine was ahead, or 0 if the
// clocks agreed.
func (r reading) difference() time.Duration {
	if r.differs() {
		return r.offset.Round(time.Second)
	}
	return 0
}

// set returns how far the clock of this machine was set forward between the
// reading and the time now, when elapsed has passed since the reading.
func (r reading) set(now time.Time, elapsed time.Duration) time.Duration {
	return now.Round(0).Sub(r.answered.Round(0)) - elapsed
}

// pastAt reports whether a difference in r says nothing about the time now,
// because it is a minute old, or because the clock of this machine was set.
func (r reading) pastAt(now time.Time, elapsed time.Duration) bool {
	return elapsed > tolerance || r.set(now, elapsed).Abs() > tolerance/2
}

// New returns a comparison with the clock of the API server of config. It sends
// no request.
//
// New returns an error if no client can be built from config.
func New(config *rest.Config) (*Comparison, error) {
	i, err := newInquiry(config)
	return &Comparison{inquiry: i}, err
}

// Wrap returns a transport that compares the clocks at each answer, and that
// explains the errors about certificates.
func (c *Comparison) Wrap(next http.RoundTripper) http.RoundTripper { return &transport{c, next} }

type transport struct {
	clock *Comparison
	next  http.RoundTripper
}

// WrappedRoundTripper returns the inner transport, as client-go requires of
// wrappers.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	sent := time.Now()
	res, err := t.next.RoundTrip(req)
	if err != nil {
		return nil, t.clock.Explain(req.Context(), err)
	}
	t.clock.Answered(sent, res)
	return res, nil
}

// Answered compares the clocks at an answer to a request that was sent at the
// given time. It ignores an answer that a cache has kept, and the page of a
// gateway, which has the gateway's time.
func (c *Comparison) Answered(sent time.Time, res *http.Response) { c.note(sent, res) }

// note is like Answered, and reports whether the answer has the server's time.
func (c *Comparison) note(sent time.Time, res *http.Response) bool {
	date, err := http.ParseTime(res.Header.Get("Date"))
	if err != nil || res.Header.Get("Age") != "" || isPage(res) {
		return false
	}
	const half = time.Second / 2 // the header has whole seconds
	r := reading{answered: time.Now()}
	r.took = r.answered.Sub(sent)
	r.offset = r.answered.Round(0).Sub(date.Add(half)) - r.took/2
	if c.keep(r) && c.OnChange != nil {
		offset, _ := c.Difference()
		c.OnChange(offset)
	}
	return true
}

// isPage reports whether res is a text that an API server has not sent. Each
// answer of an API server has the header Audit-Id, and nearly all of them are
// JSON or protobuf.
func isPage(res *http.Response) bool {
	return strings.HasPrefix(res.Header.Get("Content-Type"), "text/") && res.Header.Get("Audit-Id") == ""
}

// keep makes r the last reading, and reports whether OnChange must be called.
func (c *Comparison) keep(r reading) (changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastReading = r
	differed := c.apart.differs()
	switch {
	case r.differs():
		c.apart = r
	case differed && c.apart.pastAt(r.answered, r.answered.Sub(c.apart.answered)):
		c.apart = reading{}
	}
	return differed != c.apart.differs()
}

// Difference returns how far the clock of this machine was ahead of the
// server's at the last answer that differed, and when that answer arrived by
// the clock of this machine. offset is negative if the clock was behind, and 0
// if the clocks agree within a minute or if no answer has shown the server's
// clock.
//
// One address may have several servers, of which one has a wrong clock. So the
// clocks agree again only if an answer agrees a minute after the last one that
// differed, or after the clock of this machine was set.
func (c *Comparison) Difference() (offset time.Duration, answered time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.apart.difference(), c.apart.answered
}

// Explain adds to an error about the certificate of the server which certificate
// the server has presented, and what is wrong: for a certificate out of its
// time, whether it or the clock is. Explain then asks the server for its time,
// unless it has asked a short time ago. It returns every other error as it is.
func (c *Comparison) Explain(ctx context.Context, err error) error {
	leaf := presented(err)
	if _, explained := errors.AsType[*certificateError](err); explained || leaf == nil {
		return err
	}
	return &certificateError{err: err, text: c.diagnosis(ctx, err, leaf) + "; " + identity(leaf)}
}

// diagnosis says what is wrong with the certificate in err.
func (c *Comparison) diagnosis(ctx context.Context, err error, leaf *x509.Certificate) string {
	if _, otherName := errors.AsType[x509.HostnameError](err); otherName {
		return err.Error() + ": another server has answered, or the address of the server is wrong"
	}
	if _, unknown := errors.AsType[x509.UnknownAuthorityError](err); unknown {
		return err.Error() + ": another server has answered, or the authority is new"
	}
	invalid, ok := errors.AsType[x509.CertificateInvalidError](err)
	if !ok || invalid.Reason != x509.Expired || invalid.Cert == nil {
		return err.Error()
	}
	now, side, limit, subject := time.Now().UTC(), "after", invalid.Cert.NotAfter, "the certificate of the server"
	if now.Before(invalid.Cert.NotBefore) {
		side, limit = "before", invalid.Cert.NotBefore
	}
	if !invalid.Cert.Equal(leaf) {
		subject = fmt.Sprintf("the certificate %s, which has signed the server's,", name(&invalid.Cert.Subject))
	}
	return fmt.Sprintf("%s is not valid %s %s, and the clock of this machine says %s: %s", subject, side,
		limit.UTC().Format(time.RFC3339), now.Format(time.RFC3339), c.verdict(ctx, err, invalid.Cert))
}

// verdict says whether the certificate or the clock is wrong or, if that is not
// known, how to find out.
func (c *Comparison) verdict(ctx context.Context, err error, certificate *x509.Certificate) string {
	if c.inquiry.ask(ctx, c) {
		offset := c.reading().difference()
		serverTime := time.Now().Add(-offset)
		switch {
		case offset == 0:
			return "the server has said the same time, so the clock is right: renew the certificate of the server"
		case serverTime.Before(certificate.NotBefore) || serverTime.After(certificate.NotAfter):
			return fmt.Sprintf("the clock of this machine is %s the server's, and the certificate is not valid by either "+
				"clock: renew the certificate of the server, and compare both clocks with `date -u` on a third machine",
				Apart(offset))
		}
		return fmt.Sprintf("the clock of this machine is %s the server's, so a clock is wrong, and not the certificate: %s",
			Apart(offset), Remedy)
	}
	r := c.reading()
	const compare = "run `date -u` on this machine and on another machine: if the times differ, the clock is wrong, and " +
		"otherwise the certificate"
	if hint := r.hint(time.Now(), time.Since(r.answered)); hint != "" {
		return hint + c.inquiry.signed(err)
	}
	return compare + c.inquiry.signed(err)
}

func (c *Comparison) reading() reading {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lastReading
}

// hint says whether a clock or the certificate is wrong. It returns "" if that
// is not known at the time now, when elapsed has passed since the reading. The
// clock of a machine that sleeps seems to be set forward, so hint draws no
// conclusion from a clock that was set forward.
func (r reading) hint(now time.Time, elapsed time.Duration) string {
	if r.answered.IsZero() {
		return ""
	}
	answered := r.answered.UTC().Format(time.RFC3339)
	switch set := r.set(now, elapsed); {
	case set > tolerance:
		return ""
	case set < -tolerance:
		return fmt.Sprintf("the clock of this machine was set back by %v after %s: look at the clock first",
			(-set).Round(time.Second), answered)
	case r.differs():
		return fmt.Sprintf("the clock of this machine was %s the server's in its last answer, at %s: one of the two is "+
			"wrong, and `date -u` on a third machine says which", Apart(r.offset), answered)
	}
	return fmt.Sprintf("this clock agreed with the server's in its last answer, at %s, and was not set since: look at "+
		"the certificate", answered)
}

// Apart says how far a clock is ahead of another, or behind it. For example, it
// returns "2h0m0s ahead of".
func Apart(offset time.Duration) string {
	if offset < 0 {
		return fmt.Sprintf("%v behind", (-offset).Round(time.Second))
	}
	return fmt.Sprintf("%v ahead of", offset.Round(time.Second))
}

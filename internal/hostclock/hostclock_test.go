package hostclock_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/internal/hostclock"
)

// fixture is a server with a certificate that is valid from a given time on,
// and with a clock that is ahead of this machine's.
type fixture struct {
	*WithT

	t      *testing.T
	config *rest.Config
	age    string      // the header Age of answers
	tokens atomic.Bool // a request had credentials

	presented string // the end of errors about the server's certificate
}

func newFixture(t *testing.T, start time.Time, ahead time.Duration) *fixture {
	x := &fixture{WithT: NewWithT(t), t: t}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Authorization") != "" || len(req.TLS.PeerCertificates) > 0 {
			x.tokens.Store(true)
		}
		w.Header().Set("Date", time.Now().Add(ahead).UTC().Format(http.TimeFormat))
		w.Header()["Age"] = nil
		if x.age != "" {
			w.Header().Set("Age", x.age)
		}
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	certificate, authority := x.certificate(start)
	x.presented = fmt.Sprintf(`its subject is "CN=api.example.com,O=Example", its issuer is "CN=api.example.com,O=Example", `+
		`and it is valid from %s to %s`, start.UTC().Format(time.RFC3339), start.Add(time.Hour).UTC().Format(time.RFC3339))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.StartTLS()
	t.Cleanup(server.Close)
	x.config = &rest.Config{Host: server.URL, BearerToken: "secret"}
	x.config.CAData = authority
	return x
}

// certificate returns a certificate of this machine, and the authority that has
// issued it.
func (x *fixture) certificate(start time.Time) (certificate tls.Certificate, authority []byte) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	x.Expect(err).NotTo(HaveOccurred())
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: start, NotAfter: start.Add(time.Hour),
		Subject:     pkix.Name{CommonName: "api.example.com", Organization: []string{"Example"}},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	x.Expect(err).NotTo(HaveOccurred())
	certificate = tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	return certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// request sends a request, and returns its error and the comparison.
func (x *fixture) request() (*hostclock.Comparison, error) {
	c, err := hostclock.New(x.config)
	x.Expect(err).NotTo(HaveOccurred())
	x.config.Wrap(c.Wrap)
	client, err := rest.HTTPClientFor(x.config)
	x.Expect(err).NotTo(HaveOccurred())
	req, err := http.NewRequestWithContext(x.t.Context(), http.MethodGet, x.config.Host+"/version", http.NoBody)
	x.Expect(err).NotTo(HaveOccurred())
	res, err := client.Do(req)
	if err == nil {
		_ = res.Body.Close()
	}
	return c, err
}

func TestACertificateOutOfItsTimeNamesTheClockThatIsWrong(t *testing.T) {
	const hour, right = time.Hour, "the server has said the same time, so the clock is right: renew the certificate"
	for name, row := range map[string]struct {
		start, ahead time.Duration // of the certificate and of the server, from this clock
		side, want   string
	}{
		"a clock that is behind": {
			hour, 90 * time.Minute, "before",
			"the clock of this machine is 1h(30m|29m5)\\ds behind the server's, so a clock is wrong, and not the certificate: run",
		},
		"a clock that is ahead": {
			-3 * hour, -150 * time.Minute, "after", "the clock of this machine is 2h(30m|29m5)\\ds ahead of the server's, so a clock is wrong",
		},
		"a certificate of the future":  {hour, 0, "before", right},
		"a certificate that has ended": {-3 * hour, 0, "after", right},
		"a certificate and a clock": {
			-30 * hour, -2 * hour, "after", "the clock of this machine is (2h0m|1h59m5)\\ds ahead of the server's, and the certificate is not " +
				"valid by either clock: renew the certificate",
		},
	} {
		t.Run(name, func(t *testing.T) {
			x := newFixture(t, time.Now().Add(row.start), row.ahead)
			c, err := x.request()
			x.Expect(err).To(MatchError(MatchRegexp(`^Get "https://127.0.0.1:\d+/version": the certificate of the server is ` +
				`not valid ` + row.side + ` \S+Z, and the clock of this machine says \S+Z: ` + row.want)))
			x.Expect(err).To(MatchError(HaveSuffix(x.presented)))
			_, is := errors.AsType[x509.CertificateInvalidError](err)
			x.Expect(is).To(BeTrue())
			ahead, _ := c.Difference()
			x.Expect(ahead).To(BeNumerically("~", -row.ahead, time.Minute))
			x.Expect(x.tokens.Load()).To(BeFalse(), "credentials were sent to a server that is not verified")
		})
	}
}

// Without the issuer and the subject a person can look for the other server only
// with a second tool, on the node of the replica.
func TestACertificateThatIsNotAcceptedIsNamed(t *testing.T) {
	for name, row := range map[string]struct {
		change func(x *fixture)
		want   string
	}{
		"of another authority": {
			func(x *fixture) { _, x.config.CAData = x.certificate(time.Now().Add(-time.Minute)) },
			`x509: certificate signed by unknown authority.*: another server has answered, or the authority is new; `,
		},
		"of another name": {
			func(x *fixture) { x.config.ServerName = "kubernetes.default.svc" },
			`x509: .*kubernetes\.default\.svc.*: another server has answered, or the address of the server is wrong; `,
		},
	} {
		t.Run(name, func(t *testing.T) {
			x := newFixture(t, time.Now().Add(-time.Minute), 0)
			row.change(x)
			_, err := x.request()
			x.Expect(err).To(MatchError(MatchRegexp(row.want + regexp.QuoteMeta(x.presented) + `$`)))
			_, is := errors.AsType[*tls.CertificateVerificationError](err)
			x.Expect(is).To(BeTrue(), "callers look for the cause in the error")
		})
	}
}

func TestAServerOfAnotherAuthorityIsNotAskedForItsTime(t *testing.T) {
	x := newFixture(t, time.Now().Add(time.Hour), 2*time.Hour)
	_, x.config.CAData = x.certificate(time.Now())
	c, err := x.request()
	x.Expect(err).To(MatchError(HaveSuffix("run `date -u` on this machine and on another machine: if the times differ, the clock is " +
		"wrong, and otherwise the certificate; it is not signed by an authority that this program trusts: another server has " +
		"answered, or the authority is new; " + x.presented)))
	ahead, _ := c.Difference()
	x.Expect(ahead).To(BeZero())
}

func TestEachAnswerComparesTheClocks(t *testing.T) {
	for name, row := range map[string]struct {
		ahead, want time.Duration
		age         string
	}{
		"that agree within a minute":      {ahead: 50 * time.Second},
		"of which the server's is ahead":  {ahead: 2 * time.Hour, want: -2 * time.Hour},
		"of which the server's is behind": {ahead: -2 * time.Hour, want: 2 * time.Hour},
		"unless a cache has kept it":      {ahead: -2 * time.Hour, age: "7200"},
	} {
		t.Run(name, func(t *testing.T) {
			x := newFixture(t, time.Now().Add(-time.Minute), row.ahead)
			x.age = row.age
			c, err := x.request()
			x.Expect(err).NotTo(HaveOccurred())
			ahead, _ := c.Difference()
			x.Expect(ahead).To(BeNumerically("~", row.want, 10*time.Second))
		})
	}
}

func TestAnAnswerThatIsUnderWayForLongBlamesNoClock(t *testing.T) {
	g := NewWithT(t)
	c, err := hostclock.New(&rest.Config{Host: "http://localhost"})
	g.Expect(err).NotTo(HaveOccurred())
	now := time.Now()
	answer := &http.Response{Header: http.Header{"Date": {now.Add(-10 * time.Minute).UTC().Format(http.TimeFormat)}}}
	c.Answered(now.Add(-11*time.Minute), answer)
	ahead, _ := c.Difference()
	g.Expect(ahead).To(BeZero())
	c.Answered(now, answer)
	ahead, _ = c.Difference()
	g.Expect(ahead).To(BeNumerically("~", 10*time.Minute, time.Minute))
}

// answer is an answer of a server when this clock is ahead of the server's.
func answer(ahead time.Duration) *http.Response {
	return &http.Response{Header: http.Header{"Date": {time.Now().Add(-ahead).UTC().Format(http.TimeFormat)}}}
}

// A difference of about a minute must not be reported at each answer.
func TestAClockThatChangesIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var told []time.Duration
		c := &hostclock.Comparison{OnChange: func(ahead time.Duration) { told = append(told, ahead.Round(time.Minute)) }}
		for _, ahead := range []time.Duration{
			0, 2 * time.Hour, 2 * time.Hour, 50 * time.Second, 70 * time.Second, 10 * time.Second, 0, 0, -time.Hour, 0, 0,
		} {
			c.Answered(time.Now(), answer(ahead))
			<-time.After(40 * time.Second)
		}
		g.Expect(told).To(Equal([]time.Duration{2 * time.Hour, 0, -time.Hour, 0}))
		offset, _ := c.Difference()
		g.Expect(offset).To(BeZero())
	})
}

// Three servers have one address, and one of them is five minutes behind.
func TestAServerAmongOthersWithAWrongClockIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		told := 0
		c := &hostclock.Comparison{OnChange: func(time.Duration) { told++ }}
		for n := range 300 {
			ahead := time.Duration(0)
			if n%3 == 0 {
				ahead = 5 * time.Minute
			}
			c.Answered(time.Now(), answer(ahead))
			offset, _ := c.Difference()
			g.Expect(offset).To(BeNumerically("~", 5*time.Minute, 2*time.Second))
			<-time.After(2 * time.Second)
		}
		g.Expect(told).To(Equal(1))
	})
}

// A gateway between has its own clock.
func TestThePageOfAGatewayShowsNoClockOfTheServer(t *testing.T) {
	g := NewWithT(t)
	for _, server := range []time.Duration{0, time.Hour} {
		c := &hostclock.Comparison{}
		c.Answered(time.Now(), answer(server))
		want, _ := c.Difference()
		for _, kind := range []string{"text/html", "text/plain; charset=utf-8"} {
			page := answer(time.Hour - server)
			page.Header.Set("Content-Type", kind)
			c.Answered(time.Now(), page)
			offset, _ := c.Difference()
			g.Expect(offset).To(Equal(want), kind)

			page.Header.Set("Audit-Id", "5f2c")
			own := &hostclock.Comparison{}
			own.Answered(time.Now(), page)
			offset, _ = own.Difference()
			if server == 0 {
				g.Expect(offset).NotTo(BeZero(), "the API server has sent it")
			} else {
				g.Expect(offset).To(BeZero(), "the API server has sent it")
			}
		}
	}
}

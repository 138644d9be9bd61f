package hostclock

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"net/url"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

const (
	// askLimit is how long the server may take to answer with its time.
	askLimit = 3 * time.Second
	// askPause is the shortest time between two questions.
	askPause = 10 * time.Second
)

// inquiry asks a server for its time although its certificate is not valid by
// the clock of this machine. It verifies the name and the authority of the
// certificate, but not the time, and it sends no credentials. The answer is
// used for messages only.
type inquiry struct {
	address string
	name    string         // the name in the server's certificate
	roots   *x509.CertPool // nil means the certificates of the machine
	client  *http.Client

	mu       sync.Mutex // guards the fields below
	asking   bool
	asked    time.Time
	answered bool
}

// newInquiry returns an inquiry to the server of config. It returns nil if the
// server has no TLS.
func newInquiry(config *rest.Config) (*inquiry, error) {
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil || server.Scheme != "https" {
		return nil, err
	}
	trust, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	if trust == nil { // config has no settings for TLS
		trust = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	i := &inquiry{
		address: (&url.URL{Scheme: server.Scheme, Host: server.Host, Path: "/readyz"}).String(),
		name:    config.ServerName, roots: trust.RootCAs,
	}
	if i.name == "" {
		i.name = server.Hostname()
	}
	proxy := config.Proxy
	if proxy == nil {
		proxy = http.ProxyFromEnvironment
	}
	i.client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // another server may have another time
	}, Transport: &http.Transport{
		DialContext: config.Dial, Proxy: proxy, DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{
			ServerName: config.ServerName, MinVersion: tls.VersionTLS12,
			InsecureSkipVerify: true, //nolint:gosec // verify does the rest
			VerifyConnection:   i.verify,
		},
	}}
	return i, nil
}

// verify checks the name and the authority of the server's certificate. It
// checks them for the time at which the certificate becomes valid, and not for
// the present time of this machine.
func (i *inquiry) verify(state tls.ConnectionState) error {
	return i.issued(state.PeerCertificates, i.name)
}

// issued returns an error unless an authority that the program trusts has
// issued the first of the certificates. If name is not empty, the certificate
// must also be for this name.
func (i *inquiry) issued(certificates []*x509.Certificate, name string) error {
	if len(certificates) == 0 {
		return errors.New("the server has shown no certificate")
	}
	leaf, intermediates := certificates[0], x509.NewCertPool()
	for _, certificate := range certificates[1:] {
		intermediates.AddCert(certificate)
	}
	_, err := leaf.Verify(x509.VerifyOptions{
		DNSName: name, Roots: i.roots, Intermediates: intermediates, CurrentTime: leaf.NotBefore,
	})
	return err
}

// ask asks the server for its time, records the answer in c, and reports
// whether the server has answered. While another call is asking, and for
// askPause after that call, ask only returns the last result.
func (i *inquiry) ask(ctx context.Context, c *Comparison) bool {
	if i == nil {
		return false
	}
	i.mu.Lock()
	if i.asking || !i.asked.IsZero() && time.Since(i.asked) < askPause {
		defer i.mu.Unlock()
		return i.answered
	}
	i.asking = true
	i.mu.Unlock()
	answered := i.send(ctx, c)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.asking, i.asked, i.answered = false, time.Now(), answered
	return answered
}

// send sends the question, records the answer in c, and reports whether the
// answer has the server's time.
func (i *inquiry) send(ctx context.Context, c *Comparison) bool {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, i.address, http.NoBody)
	if err != nil {
		return false
	}
	sent := time.Now()
	res, err := i.client.Do(req)
	if err != nil {
		return false
	}
	defer res.Body.Close()
	return c.note(sent, res)
}

// signed returns a text for messages that says whether an authority that this
// program trusts has signed the certificate in err. It returns "" if that is
// not known.
func (i *inquiry) signed(err error) string {
	refused, ok := errors.AsType[*tls.CertificateVerificationError](err)
	if i == nil || !ok || len(refused.UnverifiedCertificates) == 0 {
		return ""
	}
	err = i.issued(refused.UnverifiedCertificates, "")
	if err == nil {
		return "; it is signed by an authority that this program trusts"
	}
	if _, unknown := errors.AsType[x509.UnknownAuthorityError](err); unknown {
		return "; it is not signed by an authority that this program trusts: another server has answered, or " +
			"the authority is new"
	}
	return ""
}

package supervisor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	probeInterval = 50 * time.Millisecond
	probeTimeout  = 5 * time.Second
	// probeAnswer bounds the part of an answer other than 200 in an error.
	probeAnswer = 2 << 10
)

// newProbe returns a client that trusts the control plane and has the
// administrator's certificate.
func newProbe(d *dataDir) (*http.Client, error) {
	k, err := d.kubeconfig(adminName)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(k.Cert, k.Key)
	if err != nil {
		return nil, fmt.Errorf("reading the administrator's certificate: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(k.CA) {
		return nil, fmt.Errorf("reading %s: no certificate in it", d.pki(caCert))
	}
	return &http.Client{
		Timeout: probeTimeout,
		Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}},
			// No connection may outlive a component: the next one on its port
			// must not be asked through it.
			DisableKeepAlives: true,
		},
	}, nil
}

// probe returns nil if all URLs answer 200. Otherwise it returns an error about
// the first URL that does not.
func probe(ctx context.Context, c *http.Client, urls []string) error {
	for _, url := range urls {
		if err := get(ctx, c, url); err != nil {
			return err
		}
	}
	return nil
}

func get(ctx context.Context, c *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("asking %s: %w", url, err)
	}
	answer, err := c.Do(request)
	if err != nil {
		return fmt.Errorf("asking the API server whether it is ready: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, probeAnswer))
	err = errors.Join(err, answer.Body.Close())
	if err != nil {
		return fmt.Errorf("asking %s: %w", url, err)
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("asking %s: %s: %s", url, answer.Status, strings.TrimSpace(string(text)))
	}
	return nil
}

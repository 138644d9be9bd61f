package operator

import (
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/reconcile/inspect"
)

// certificate is the TLS certificate of a Server. Handshakes read its files
// again, so a renewed certificate needs no restart. While the files do not
// match, for example because they are being replaced, or the new certificate is
// not valid yet, handshakes use the previous certificate.
type certificate struct {
	certFile, keyFile string

	mu      sync.Mutex // guards the fields below
	current *tls.Certificate
	readAt  time.Time
	// readErr is the error of the last reading of the files, or nil.
	readErr error
}

// readCertificate reads a certificate from its files. It returns nil if both
// names are empty.
//
// It returns an error if only one file is named, if a file cannot be read, or
// if the key does not match the certificate.
func readCertificate(certFile, keyFile string) (*certificate, error) {
	if certFile == "" && keyFile == "" {
		return nil, nil
	}
	if certFile == "" || keyFile == "" {
		return nil, errors.New("Server.CertFile and Server.KeyFile: must both be set, or neither")
	}
	c := &certificate{certFile: certFile, keyFile: keyFile}
	c.load()
	return c, c.readErr
}

// load reads the files. It keeps the current certificate if the new one cannot
// be read or is not valid yet. The caller holds mu, unless no other goroutine
// knows c yet.
func (c *certificate) load() {
	c.readAt, c.readErr = time.Now(), nil
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		c.readErr = fmt.Errorf("reading the certificate %s and its key %s: %w", c.certFile, c.keyFile, err)
		return
	}
	if c.current != nil && time.Now().Before(pair.Leaf.NotBefore) {
		c.readErr = futureError("certificate in "+c.certFile, pair)
		return
	}
	c.current = &pair
}

// futureError returns the error for a certificate that is not valid yet.
func futureError(name string, pair tls.Certificate) error {
	return fmt.Errorf("the %s is not valid before %s", name, pair.Leaf.NotBefore.Format(time.RFC3339))
}

// get returns the certificate for a handshake.
func (c *certificate) get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.readAt) >= readInterval {
		previous := c.readErr
		if c.load(); c.readErr != nil && (previous == nil || previous.Error() != c.readErr.Error()) {
			klog.FromContext(hello.Context()).Error(c.readErr,
				"reading the certificate failed, keeping the old one and retrying later")
		}
	}
	return c.current, nil
}

// problems returns a problem if the last reading of the files failed, or if the
// certificate has expired or is not valid yet.
func (c *certificate) problems() []inspect.Problem {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.readErr
	if end := c.current.Leaf.NotAfter; time.Now().After(end) {
		err = errors.Join(fmt.Errorf("the certificate of the status page expired at %s", end.Format(time.RFC3339)), err)
	}
	if time.Now().Before(c.current.Leaf.NotBefore) {
		err = errors.Join(futureError("certificate of the status page", *c.current), err)
	}
	if err == nil {
		return nil
	}
	return []inspect.Problem{{
		Check: "certificate", Cause: "certificate", Reason: err.Error(),
		Remedy: "renew the files, which are read again every " + readInterval.String(),
	}}
}

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

// certificate is the one of a Server. Handshakes read its files again, so a renewed
// certificate needs no restart. Until the files are a pair, as while they are being
// replaced, the last one is served.
type certificate struct {
	certFile, keyFile string

	mu      sync.Mutex // guards the fields below
	now     *tls.Certificate
	read    time.Time
	trouble error // why the files are not followed; nil if they are
}

// readCertificate reads a certificate. It returns nil without files.
//
// Errors: only one file is named, or they are not a pair.
func readCertificate(certFile, keyFile string) (*certificate, error) {
	if certFile == "" && keyFile == "" {
		return nil, nil
	}
	if certFile == "" || keyFile == "" {
		return nil, errors.New("Server.CertFile and Server.KeyFile: must both be set, or neither")
	}
	c := &certificate{certFile: certFile, keyFile: keyFile}
	c.load()
	return c, c.trouble
}

// load reads the files. The caller holds mu, or nobody else has c yet.
func (c *certificate) load() {
	c.read, c.trouble = time.Now(), nil
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		c.trouble = fmt.Errorf("reading the certificate %s and its key %s: %w", c.certFile, c.keyFile, err)
		return
	}
	c.now = &pair
}

// get returns the certificate for a handshake.
func (c *certificate) get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.read) >= readEvery {
		before := c.trouble
		if c.load(); c.trouble != nil && (before == nil || before.Error() != c.trouble.Error()) {
			klog.FromContext(hello.Context()).Error(c.trouble, "kept the certificate, reading its files again later")
		}
	}
	return c.now, nil
}

// problems returns why the files are not followed, and whether the certificate has
// expired.
func (c *certificate) problems() []inspect.Problem {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.trouble
	if end := c.now.Leaf.NotAfter; time.Now().After(end) {
		err = errors.Join(fmt.Errorf("the certificate of this page expired at %s", end.Format(time.RFC3339)), err)
	}
	if err == nil {
		return nil
	}
	return []inspect.Problem{{
		Check: "certificate", Cause: "certificate", Reason: err.Error(),
		Remedy: "renew the files, which are read again every " + readEvery.String(),
	}}
}

package hostclock

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// certificateError is the error of a request to a server whose certificate this
// program does not accept.
type certificateError struct {
	text string
	err  error
}

func (c *certificateError) Error() string { return c.text }

// Unwrap returns the error of the request.
func (c *certificateError) Unwrap() error { return c.err }

// presented returns the certificate that a server has presented and that was
// not accepted, or nil if err is about something else.
func presented(err error) *x509.Certificate {
	if refused, ok := errors.AsType[*tls.CertificateVerificationError](err); ok &&
		len(refused.UnverifiedCertificates) > 0 {
		return refused.UnverifiedCertificates[0]
	}
	if unknown, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return unknown.Cert
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		return invalid.Cert
	}
	if mismatch, ok := errors.AsType[x509.HostnameError](err); ok {
		return mismatch.Certificate
	}
	return nil
}

// identity says whose certificate it is. For example, it returns `its subject
// is "CN=kube-apiserver", its issuer is "CN=kubernetes", and it is valid from
// 2026-11-27T12:00:05Z to 2027-11-27T12:00:05Z`. Some public authorities issue
// certificates without a subject. For these, identity returns the names of the
// servers that they are for.
func identity(c *x509.Certificate) string {
	subject := "its subject is " + name(&c.Subject)
	if len(c.Subject.Names) == 0 {
		names := slices.Clone(c.DNSNames)
		for _, address := range c.IPAddresses {
			names = append(names, address.String())
		}
		subject = "it is for " + quoted(strings.Join(names, ", "))
	}
	return fmt.Sprintf("%s, its issuer is %s, and it is valid from %s to %s", subject, name(&c.Issuer),
		c.NotBefore.UTC().Format(time.RFC3339), c.NotAfter.UTC().Format(time.RFC3339))
}

// name returns a distinguished name in quotes, such as "CN=kubernetes".
func name(n *pkix.Name) string { return quoted(n.String()) }

// quoted returns a text in quotes, and cuts it if it is too long, since a
// stranger may have chosen it.
func quoted(text string) string {
	const limit = 100
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "") + "…"
	}
	return fmt.Sprintf("%q", text)
}

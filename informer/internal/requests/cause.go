package requests

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/homeostat/homeostat/internal/absent"
	"github.com/homeostat/homeostat/internal/proxied"
)

// Causes of failed requests. They are labels of a metric, so they are constant.
const (
	CauseUnauthorized = "Unauthorized"
	CauseForbidden    = "Forbidden"
	CauseForeign      = "foreign answer"
	CauseNotServed    = "not served"
	CauseUnreachable  = "unreachable"
	CauseNoAnswer     = "no answer"
	CauseCertificate  = "certificate"
	CauseThrottled    = "throttled"
	CauseServerError  = "server error"
	CauseEndsAtOnce   = "watch ends at once"
	CauseMute         = "watch silent"
	CauseUnwatchable  = "no watch"
	CauseOther        = "failed"
)

// RemedyOf returns what a person can do about a cause. It returns "" if no
// remedy is known, for example for an error inside the server.
func RemedyOf(cause string) string { return remedies[cause] }

var remedies = map[string]string{ //nolint:gochecknoglobals // a constant
	CauseUnauthorized: "renew the credentials of this program",
	CauseForbidden:    "grant the verbs list and watch",
	CauseForeign: "check the proxies and gateways in between: this refusal is not in the form of the API server's, so " +
		"it says nothing about the credentials and permissions there",
	CauseNotServed: "run `kubectl get crd` with the name in the brackets: if it is not found, the kind was deleted " +
		"together with its objects; otherwise serve this version of the kind again, or upgrade this program",
	CauseUnreachable: "check that the API server is running, and check the network in between and the proxy, if the " +
		"error names one",
	CauseNoAnswer: "check whether the API server is overloaded, the network in between, and the credential plugin of " +
		"the kubeconfig",
	CauseCertificate: "check the API server's certificate, the authority in the kubeconfig, and the clock (`date -u`)",
	CauseThrottled:   "check the API server's priority levels and flow schemas",
	CauseMute: "check the proxies and load balancers in between: perhaps one of them holds the data of watches back, " +
		"such as nginx with proxy_buffering",
	CauseUnwatchable: "the server cannot list or watch this kind, so it cannot be cached: read its objects one by one",
	CauseEndsAtOnce:  "check whether the API server restarts or is slow, and the proxies and load balancers in between",
}

// CauseOf returns why a list or a watch failed, in a few words, such as
// "Forbidden".
func CauseOf(err error) string {
	var status apierrors.APIStatus
	answered := errors.As(err, &status)
	switch {
	case errors.Is(err, ErrEndsAtOnce):
		return CauseEndsAtOnce
	case errors.Is(err, ErrMute):
		return CauseMute
	case apierrors.IsMethodNotSupported(err):
		return CauseUnwatchable
	case absent.IsForeign(err) && (apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err)):
		return CauseForeign
	case apierrors.IsUnauthorized(err):
		return CauseUnauthorized
	case apierrors.IsForbidden(err):
		return CauseForbidden
	case apierrors.IsNotFound(err), //nolint:forbidigo // this only names the cause for people
		apierrors.IsNotAcceptable(err):
		return CauseNotServed
	case apierrors.IsTooManyRequests(err), errors.Is(err, ErrAsksToWait):
		return CauseThrottled
	case errors.Is(err, ErrNoAnswer), errors.Is(err, ErrCutOff), errors.Is(err, context.DeadlineExceeded),
		utilnet.IsTimeout(err), answered && apierrors.IsTimeout(err):
		return CauseNoAnswer
	case answered && status.Status().Code >= http.StatusInternalServerError:
		return CauseServerError
	case isOfCertificate(err):
		return CauseCertificate
	case isOfNetwork(err):
		return CauseUnreachable
	}
	return CauseOther
}

// isOfCertificate reports whether err shows that the server's certificate is
// not trusted.
func isOfCertificate(err error) bool {
	_, refused := errors.AsType[*tls.CertificateVerificationError](err)
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	_, invalid := errors.AsType[x509.CertificateInvalidError](err)
	return refused || unknown || invalid
}

// isOfNetwork reports whether err shows that no server was reached, or that the
// connection broke off before the answer was complete.
func isOfNetwork(err error) bool {
	_, ok := errors.AsType[*net.OpError](err)
	_, noHost := errors.AsType[*net.DNSError](err)
	_, byProxy := errors.AsType[*proxied.Error](err) // such as a proxy that refuses to connect to the server
	return ok || noHost || byProxy || utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) ||
		utilnet.IsProbableEOF(err)
}

// Package proxied adds the proxy of a failed request to the error.
//
// A client sends its requests through a proxy if the kubeconfig has a proxy-url,
// or if HTTPS_PROXY is set in the environment and NO_PROXY does not contain the
// server. The errors of package net/http do not show this. For example, the error
// is "Forbidden" if the proxy refuses to connect to the server, and "context
// deadline exceeded" if the proxy drops all packets. A person who reads this
// looks at the permissions of the program, or at the API server.
package proxied

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"net/url"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/internal/ownwrites"
)

// Way describes how the requests of a client reach a server: through a proxy, or
// directly. Make it with [Of]. The zero Way has no proxy.
type Way struct {
	proxy         func(*http.Request) (*url.URL, error)
	byEnvironment bool
}

// Of returns the Way of clients that are made from config. It returns the zero
// Way if config has a Transport, whose proxy cannot be seen.
func Of(config *rest.Config) Way {
	switch {
	case config.Transport != nil:
		return Way{}
	case config.Proxy != nil:
		return Way{proxy: config.Proxy}
	}
	return Way{proxy: http.ProxyFromEnvironment, byEnvironment: true}
}

// Proxy returns the address of the proxy for requests to server, without
// credentials, such as "http://proxy.example.com:3128". It returns "" if there
// is no proxy.
func (w Way) Proxy(server *url.URL) string {
	if w.proxy == nil || server == nil {
		return ""
	}
	proxy, err := w.proxy(&http.Request{URL: server, Header: http.Header{}})
	if err != nil || proxy == nil {
		return ""
	}
	return (&url.URL{Scheme: proxy.Scheme, Host: proxy.Host}).String()
}

// Wrap returns a transport that sends requests through next, and returns an
// [Error] for a request that fails without an answer, if it has a proxy. Some
// errors are not changed, such as io.EOF and context.Canceled, because client-go
// recognizes them by their type or text.
func (w Way) Wrap(next http.RoundTripper) http.RoundTripper { return &transport{w, next} }

type transport struct {
	way  Way
	next http.RoundTripper
}

// WrappedRoundTripper returns the inner transport, as client-go requires of
// wrappers.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := t.next.RoundTrip(req)
	if err == nil || isPlain(err) {
		return res, err
	}
	proxy := t.way.Proxy(req.URL)
	if proxy == "" {
		return res, err
	}
	return res, &Error{err, t.way.text(proxy, req.URL)}
}

// isPlain reports whether err stays as it is: because it is not about the way to
// the server, because client-go knows it only by its text or type, or because
// it names the proxy already.
func isPlain(err error) bool {
	_, named := errors.AsType[*Error](err)
	_, neverSent := errors.AsType[ownwrites.NeverSent](err)
	_, noTLS := errors.AsType[tls.RecordHeaderError](err)
	return named || neverSent || noTLS || errors.Is(err, context.Canceled) || utilnet.IsProbableEOF(err)
}

// text says that a request to server goes through proxy, and who says so.
func (w Way) text(proxy string, server *url.URL) string {
	text := "the request goes through the proxy " + proxy
	if !w.byEnvironment {
		return text + " (proxy-url in the kubeconfig, or rest.Config.Proxy)"
	}
	variable := "HTTPS_PROXY"
	if server.Scheme == "http" {
		variable = "HTTP_PROXY"
	}
	return text + " (" + variable + " in the environment); if the API server needs no proxy, add " + server.Hostname() +
		" to NO_PROXY"
}

// Error is the error of a request without an answer that went through a proxy.
type Error struct {
	err  error
	text string
}

func (e *Error) Error() string { return e.err.Error() + ": " + e.text }

// Unwrap returns the error without the proxy.
func (e *Error) Unwrap() error { return e.err }

// Timeout reports whether the request timed out. Package net/http calls it.
func (e *Error) Timeout() bool {
	inner, ok := errors.AsType[timeout](e.err)
	return ok && inner.Timeout()
}

type timeout interface {
	error
	Timeout() bool
}

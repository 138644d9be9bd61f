package proxied

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"testing"

	. "github.com/onsi/gomega"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

type failing struct{ err error }

func (f failing) RoundTrip(*http.Request) (*http.Response, error) { return nil, f.err }

// ask returns the error of a request that fails with err on the way w.
func ask(t *testing.T, w Way, server string, err error) error {
	t.Helper()
	req, invalid := http.NewRequestWithContext(t.Context(), http.MethodGet, server, http.NoBody)
	NewWithT(t).Expect(invalid).NotTo(HaveOccurred())
	res, got := w.Wrap(failing{err}).RoundTrip(req)
	if res != nil {
		_ = res.Body.Close()
	}
	return got
}

func TestTheErrorOfARequestNamesItsProxy(t *testing.T) {
	proxy := http.ProxyURL(&url.URL{Scheme: "http", User: url.UserPassword("me", "secret"), Host: "proxy:3128"})
	byConfig, byEnvironment := Of(&rest.Config{Proxy: proxy}), Way{proxy: proxy, byEnvironment: true}
	for name, row := range map[string]struct {
		way    Way
		server string
		want   string
	}{
		"of the config": {byConfig, "https://10.96.0.1:443/api", "Forbidden: the request goes through the proxy " +
			"http://proxy:3128 (proxy-url in the kubeconfig, or rest.Config.Proxy)"},
		"of the environment": {byEnvironment, "https://10.96.0.1:443/api", "Forbidden: the request goes through the proxy " +
			"http://proxy:3128 (HTTPS_PROXY in the environment); if the API server needs no proxy, add 10.96.0.1 to NO_PROXY"},
		"of the environment, without TLS": {byEnvironment, "http://server/api", "Forbidden: the request goes through the " +
			"proxy http://proxy:3128 (HTTP_PROXY in the environment); if the API server needs no proxy, add server to NO_PROXY"},
		"none":                          {Way{}, "https://10.96.0.1:443/api", "Forbidden"},
		"none for this server":          {Of(&rest.Config{}), "https://localhost/api", "Forbidden"},
		"of a transport, so not known":  {Of(&rest.Config{Transport: failing{}, Proxy: proxy}), "https://server/api", "Forbidden"},
		"of a function that has failed": {Way{proxy: func(*http.Request) (*url.URL, error) { return nil, io.EOF }}, "https://server/api", "Forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(ask(t, row.way, row.server, errors.New("Forbidden"))).To(MatchError(row.want))
		})
	}
}

// client-go recognises some errors by their type or their text, and repeats the
// requests.
func TestAnErrorIsStillRecognised(t *testing.T) {
	g := NewWithT(t)
	way := Of(&rest.Config{Proxy: http.ProxyURL(&url.URL{Scheme: "socks5", Host: "proxy:1080"})})
	const server = "https://server/api"
	for _, err := range []error{io.EOF, io.ErrUnexpectedEOF, context.Canceled} {
		g.Expect(ask(t, way, server, err)).To(BeIdenticalTo(err))
	}
	late := ask(t, way, server, context.DeadlineExceeded)
	g.Expect(late).To(And(MatchError(context.DeadlineExceeded), MatchError(ContainSubstring("socks5://proxy:1080"))))
	g.Expect(utilnet.IsTimeout(&url.Error{Err: late})).To(BeTrue())
	g.Expect((&url.Error{Err: late}).Timeout()).To(BeTrue())
	g.Expect(ask(t, way, server, late)).To(BeIdenticalTo(late), "it is named once")

	dial := &net.OpError{Op: "dial", Err: errors.New("no route")}
	refused := ask(t, way, server, dial)
	got, ok := errors.AsType[*net.OpError](refused)
	g.Expect(ok && got == dial).To(BeTrue())
	g.Expect((&url.Error{Err: ask(t, way, server, errors.New("Forbidden"))}).Timeout()).To(BeFalse())
}

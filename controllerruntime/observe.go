package controllerruntime

import (
	"context"
	"net/http"

	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/cluster"
)

// ObserveWrites returns a copy of config for a manager whose reconcilers are
// made by [SeeOwnWrites]. The clients of the copy report each write to the
// reconcile in whose context it is sent.
func ObserveWrites(config *rest.Config) *rest.Config {
	copied := rest.CopyConfig(config)
	copied.Wrap(func(next http.RoundTripper) http.RoundTripper {
		reporter, err := reporting(config, next)
		if err != nil { // making a client with this config fails with the same error
			return next
		}
		return &observing{reporter, next}
	})
	return copied
}

// observing is a transport that reports writes. It also answers the probe of
// isObserved.
type observing struct{ observed, next http.RoundTripper }

// WrappedRoundTripper returns the inner transport, as client-go requires of
// wrappers.
func (o *observing) WrappedRoundTripper() http.RoundTripper { return o.next }

// RoundTrip implements [http.RoundTripper].
func (o *observing) RoundTrip(req *http.Request) (*http.Response, error) {
	if found, ok := req.Context().Value(probe{}).(*bool); ok {
		*found = true
		return nil, context.Canceled
	}
	return o.observed.RoundTrip(req)
}

// probe is the context key of a request that only looks for an observing
// transport.
type probe struct{}

// isObserved reports whether a client was made from a config of ObserveWrites.
// To find out, it passes a request through the client's transport. The request
// never reaches the server, because its context has already ended.
func isObserved(client *http.Client, config *rest.Config) bool {
	found := false
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), probe{}, &found))
	cancel()
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil || client.Transport == nil {
		return false
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.String(), http.NoBody)
	if err != nil {
		return false
	}
	if res, err := client.Transport.RoundTrip(req); err == nil {
		_ = res.Body.Close()
	}
	return found
}

// reporting returns a transport that sends requests through next, and reports
// each write to the observer in the context of its request.
func reporting(config *rest.Config, next http.RoundTripper) (http.RoundTripper, error) {
	observed, err := cluster.New(&rest.Config{Host: config.Host, UserAgent: config.UserAgent, Transport: next}, nil)
	if err != nil {
		return nil, err
	}
	return rest.TransportFor(observed.Config())
}

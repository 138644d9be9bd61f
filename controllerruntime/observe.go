package controllerruntime

import (
	"context"
	"net/http"

	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/cluster"
)

// ObserveWrites returns a copy of config for a manager with reconcilers of
// [SeeOwnWrites]: its clients report each write to the reconcile with whose
// context it is sent.
func ObserveWrites(config *rest.Config) *rest.Config {
	out := rest.CopyConfig(config)
	out.Wrap(func(next http.RoundTripper) http.RoundTripper {
		through, err := reporting(config, next)
		if err != nil { // a client of this config will not be made either
			return next
		}
		return &observing{through, next}
	})
	return out
}

// observing reports writes. It also answers the probe of isObserved.
type observing struct{ through, next http.RoundTripper }

// WrappedRoundTripper returns the transport below, for client-go.
func (o *observing) WrappedRoundTripper() http.RoundTripper { return o.next }

// RoundTrip implements [http.RoundTripper].
func (o *observing) RoundTrip(req *http.Request) (*http.Response, error) {
	if found, ok := req.Context().Value(probe{}).(*bool); ok {
		*found = true
		return nil, context.Canceled
	}
	return o.through.RoundTrip(req)
}

// probe is the context key of a request that only looks for an observing
// transport.
type probe struct{}

// isObserved reports whether a client is one of a config of ObserveWrites. It
// sends nothing: the context of its request has ended.
func isObserved(of *http.Client, config *rest.Config) bool {
	found := false
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), probe{}, &found))
	cancel()
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil || of.Transport == nil {
		return false
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.String(), http.NoBody)
	if err != nil {
		return false
	}
	if res, err := of.Transport.RoundTrip(req); err == nil {
		_ = res.Body.Close()
	}
	return found
}

// reporting returns next behind a transport that reports each write to the
// observer in its context.
func reporting(config *rest.Config, next http.RoundTripper) (http.RoundTripper, error) {
	observed, err := cluster.New(&rest.Config{Host: config.Host, UserAgent: config.UserAgent, Transport: next}, nil)
	if err != nil {
		return nil, err
	}
	return rest.TransportFor(observed.Config())
}

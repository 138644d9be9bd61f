package leaseapi

import (
	"context"
	"io"
	"net/http"
	"strings"

	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// Transport is an API server, or a connection to one, for requests about
// resources other than Leases.
type Transport func(*http.Request) (*http.Response, error)

// RoundTrip calls f.
func (f Transport) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// Reply returns an answer with a JSON body.
func Reply(req *http.Request, code int, body string) *http.Response {
	return &http.Response{
		StatusCode: code, Request: req, Body: io.NopCloser(strings.NewReader(body)),
		Header: http.Header{"Content-Type": {"application/json"}},
	}
}

// Server is a Transport that records every request in the diary and answers it
// at once.
func (d *Diary) Server(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return nil, err
		}
	}
	d.Add("%s %s", req.Method, req.URL.Path)
	return Reply(req, http.StatusOK, `{"kind":"ConfigMap","apiVersion":"v1"}`), nil
}

// Deaf is a Transport that never answers. It returns when the request's context
// ends.
func Deaf(req *http.Request) (*http.Response, error) {
	_, _ = io.Copy(io.Discard, req.Body)
	<-req.Context().Done()
	return nil, req.Context().Err()
}

// fencer is implemented by electors and shards.
type fencer interface {
	Fence(config *rest.Config) *rest.Config
}

// SendFenced sends one request through the fence of e to an API server at host.
func SendFenced(ctx context.Context, e fencer, host string, rt Transport, method, path string) (*http.Response, error) {
	client, err := rest.HTTPClientFor(Serializing(e.Fence(&rest.Config{Host: host, Transport: rt})))
	if err != nil {
		return nil, err
	}
	var body io.Reader
	if method != http.MethodGet {
		body = strings.NewReader("x")
	}
	req, err := http.NewRequestWithContext(ctx, method, host+path, body)
	if err != nil {
		return nil, err
	}
	return client.Do(req)
}

// Serializing sets the codecs of client-go's own kinds in c and returns c. A
// client cannot be made from a config without codecs.
func Serializing(c *rest.Config) *rest.Config {
	c.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	return c
}

// Package balanced simulates a load balancer in front of two API servers, of
// which the first one has failed.
package balanced

import (
	"io"
	"net/http"
	"strings"
)

// failure is the answer of the first server.
const failure = `{"kind":"Status","apiVersion":"v1","status":"Failure","code":500,"reason":"InternalError",` +
	`"message":"etcd is gone"}`

// A Transport leads one client to the servers. Its connection stays at the
// first server, which answers 500. A request that closes its connection is the
// last one that the first server gets. It is not safe for concurrent use.
type Transport struct {
	Answer string // the answer of the second server to every request, with status 200
	Second bool   // whether the connection is at the second server
}

// RoundTrip implements [http.RoundTripper].
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	status, body := http.StatusInternalServerError, failure
	if t.Second {
		status, body = http.StatusOK, t.Answer
	}
	t.Second = t.Second || req.Close
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Request: req,
		Body: io.NopCloser(strings.NewReader(body)),
	}, nil
}

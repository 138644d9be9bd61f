package apisim

import (
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
)

// Handler returns a handler that serves the API over HTTP, in real time and
// without authentication. For example, kubectl and other processes can use it
// on a loopback port. The server treats each request as the admin's.
func (s *Server) Handler() http.Handler {
	admin := s.Admin()
	target, err := url.Parse(admin.Host)
	if err != nil {
		panic(err) // the host is a constant
	}
	return &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     admin.Transport,
		FlushInterval: -1, // sends the events of watches immediately
		ErrorLog:      log.New(io.Discard, "", 0),
	}
}

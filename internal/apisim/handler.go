package apisim

import (
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
)

// Handler serves the API over HTTP, in real time and without authentication, so that kubectl and other processes can
// use it on a loopback port. Each request is the admin's.
func (s *Server) Handler() http.Handler {
	admin := s.Admin()
	target, err := url.Parse(admin.Host)
	if err != nil {
		panic(err) // the host is our own
	}
	return &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     admin.Transport,
		FlushInterval: -1, // events of watches go out at once
		ErrorLog:      log.New(io.Discard, "", 0),
	}
}

package ownwrites_test

import (
	"io"
	"net/http"
	"path"
	"sync"
	"time"
)

type transport func(req *http.Request) (*http.Response, error)

func (t transport) RoundTrip(req *http.Request) (*http.Response, error) { return t(req) }

// pass sends a request, and makes the events of a watch of Secrets late.
func (w *world) pass(next http.RoundTripper, req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodGet {
		w.mu.Lock()
		w.gets[req.URL.Path]++
		w.mu.Unlock()
	}
	res, err := next.RoundTrip(req)
	if err == nil && req.URL.Query().Get("watch") != "" && path.Base(req.URL.Path) == "secrets" {
		res.Body = newLateBody(res.Body, w.late)
	}
	return res, err
}

// lateBody returns the bytes of inner, each piece later.
type lateBody struct {
	inner  io.ReadCloser
	pieces chan piece
	rest   []byte
	closed chan struct{}
	close  func()
}

type piece struct {
	data []byte
	at   time.Time
	err  error
}

// newLateBody reads from inner until it ends or is closed. The first list,
// which comes at once, is not late.
func newLateBody(inner io.ReadCloser, late time.Duration) *lateBody {
	b := &lateBody{inner: inner, pieces: make(chan piece, 10_000), closed: make(chan struct{})}
	b.close = sync.OnceFunc(func() { close(b.closed) })
	opened := time.Now()
	go func() {
		buffer := make([]byte, 64<<10)
		for {
			n, err := inner.Read(buffer)
			at := time.Now()
			if at.After(opened) {
				at = at.Add(late)
			}
			b.pieces <- piece{append([]byte(nil), buffer[:n]...), at, err}
			if err != nil {
				return
			}
		}
	}()
	return b
}

func (b *lateBody) Read(p []byte) (int, error) {
	if len(b.rest) == 0 {
		var next piece
		select {
		case next = <-b.pieces:
		case <-b.closed:
			return 0, io.EOF
		}
		select {
		case <-time.After(time.Until(next.at)):
		case <-b.closed:
			return 0, io.EOF
		}
		if len(next.data) == 0 {
			return 0, next.err
		}
		b.rest = next.data
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

func (b *lateBody) Close() error {
	b.close()
	return b.inner.Close()
}

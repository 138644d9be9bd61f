package apisim

import (
	"context"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/watch"
)

// interest selects the objects whose events a watch sends.
type interest struct {
	match        *selector
	metadataOnly bool
	bookmarks    bool
}

// backlog has the events that a watch has not sent yet.
type backlog struct {
	pending  []delivery // not released yet
	ready    []byte     // released, not read yet
	seen     int64      // the version up to which all was released
	complete int64      // resourceVersion of the bookmark after the initial objects; or 0
	last     bool       // the stream ends after its pending events
}

// watcher is one open watch: the body of its response. The server's lock guards it.
type watcher struct {
	interest
	backlog
	server         *store
	table          *table
	call           Call
	id             int
	gated          bool
	ctx            context.Context //nolint:containedctx // the request's: it ends the stream
	timer, goodbye *time.Timer
	wake           chan struct{}
	ended          bool
	cause          error // why it ended; nil: properly
}

// offer queues the event of a commit for this watcher, whose selection the object may enter or leave. A watch from a
// version that a restored server has not reached again passes over the events before it.
func (w *watcher) offer(e *entry) {
	if w.ended || w.last || e.version <= w.seen {
		return
	}
	had, has := w.match.matches(e.old), w.match.matches(e.new)
	d := delivery{version: e.version, obj: e.new}
	switch {
	case has && had:
		d.typ = watch.Modified
	case has:
		d.typ = watch.Added
	case had:
		last, err := e.old.at(e.version)
		if err != nil {
			w.end(err)
			return
		}
		d.typ, d.obj = watch.Deleted, last
	default:
		return
	}
	w.push(d)
}

func (w *watcher) push(d delivery) {
	w.pending = append(w.pending, d)
	if !w.gated {
		w.release()
	}
}

// release lets the next event go to the client.
func (w *watcher) release() {
	d := w.pending[0]
	w.pending = w.pending[1:]
	line, err := d.encode(w)
	if err != nil {
		w.end(err)
		return
	}
	w.ready = append(w.ready, line...)
	w.seen = max(w.seen, d.version)
	if w.last && len(w.pending) == 0 || d.typ == watch.Error {
		w.ended = true
	}
	w.signal()
}

func (w *watcher) wantsBookmark() bool {
	return w.bookmarks && !w.ended && !w.last && len(w.pending) == 0 && w.seen < w.server.version
}

func (w *watcher) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// end closes the stream after its released events; pending ones are lost.
func (w *watcher) end(cause error) {
	if w.ended {
		return
	}
	w.ended, w.cause, w.pending = true, cause, nil
	if w.timer != nil {
		w.timer.Stop()
	}
	if w.goodbye != nil {
		w.goodbye.Stop()
	}
	w.signal()
}

// farewell is the bookmark that comes two seconds before the end. It is left out if nothing has changed since
// the one that ended the initial state.
func (w *watcher) farewell() {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	since, there := w.table.since(w.complete)
	if !w.ended && !w.last && (w.complete == 0 || !there || len(since) > 0) {
		w.push(delivery{typ: watch.Bookmark, version: w.server.version})
	}
}

func (w *watcher) timeout() {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	w.end(nil)
	w.server.reap()
}

// Read blocks until an event was released, the stream ended, or the request's context did.
func (w *watcher) Read(p []byte) (int, error) {
	for {
		w.server.mu.Lock()
		n := copy(p, w.ready)
		w.ready = w.ready[n:]
		ended, cause := w.ended, w.cause
		w.server.mu.Unlock()
		switch {
		case n > 0:
			return n, nil
		case ended && cause != nil:
			return 0, cause
		case ended:
			return 0, io.EOF
		}
		select {
		case <-w.wake:
		case <-w.ctx.Done():
			return 0, w.ctx.Err()
		}
	}
}

// Close is the client's end of the stream.
func (w *watcher) Close() error {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	w.end(nil)
	w.server.reap()
	return nil
}

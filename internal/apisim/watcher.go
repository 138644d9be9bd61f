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

// backlog holds the events that a watch has not sent yet.
type backlog struct {
	pending  []delivery // events that are not released yet
	ready    []byte     // the bytes of released events that are not read yet
	seen     int64      // the version of the last released event, or the version from which the watch starts
	complete int64      // resourceVersion of the bookmark after the initial objects, or 0
	closing  bool       // the stream ends after its pending events
}

// watcher is one open watch, which is the body of its response. The server's
// lock guards it.
type watcher struct {
	interest
	backlog
	server               *store
	table                *table
	call                 Call
	id                   int
	gated                bool
	ctx                  context.Context //nolint:containedctx // the request's context ends the stream
	timer, farewellTimer *time.Timer
	wake                 chan struct{}
	ended                bool
	cause                error // the error that ended the watch; nil for a regular end
}

// offer queues the event of a commit for this watcher if the object was or is
// in the watch's selection. An object that enters or leaves the selection is
// added or deleted for the client. After a restore, a watch from a future
// version ignores events before that version.
func (w *watcher) offer(e *entry) {
	if w.ended || w.closing || e.version <= w.seen {
		return
	}
	matched, matches := w.match.matches(e.old), w.match.matches(e.new)
	d := delivery{version: e.version, obj: e.new}
	switch {
	case matches && matched:
		d.typ = watch.Modified
	case matches:
		d.typ = watch.Added
	case matched:
		final, err := e.old.withVersion(e.version)
		if err != nil {
			w.end(err)
			return
		}
		d.typ, d.obj = watch.Deleted, final
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

// release sends the next event to the client.
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
	if w.closing && len(w.pending) == 0 || d.typ == watch.Error {
		w.ended = true
	}
	w.signal()
}

func (w *watcher) wantsBookmark() bool {
	return w.bookmarks && !w.ended && !w.closing && len(w.pending) == 0 && w.seen < w.server.version
}

func (w *watcher) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// end closes the stream after its released events. Pending events are lost.
func (w *watcher) end(cause error) {
	if w.ended {
		return
	}
	w.ended, w.cause, w.pending = true, cause, nil
	if w.timer != nil {
		w.timer.Stop()
	}
	if w.farewellTimer != nil {
		w.farewellTimer.Stop()
	}
	w.signal()
}

// farewell sends a bookmark two seconds before the end of a watch. It does not
// send it if no event has occurred since the bookmark that ended the initial
// state.
func (w *watcher) farewell() {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	missed, available := w.table.historyAfter(w.complete)
	if !w.ended && !w.closing && (w.complete == 0 || !available || len(missed) > 0) {
		w.push(delivery{typ: watch.Bookmark, version: w.server.version})
	}
}

func (w *watcher) timeout() {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	w.end(nil)
	w.server.reap()
}

// Read blocks until an event is released, the stream ends, or the request's
// context ends.
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

// Close is called by the client and ends the stream.
func (w *watcher) Close() error {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	w.end(nil)
	w.server.reap()
	return nil
}

package informer

import (
	"context"
	"errors"
	"net/http/httptrace"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/watch"
)

const (
	// firstWarning is how long a request may be unanswered until that is logged.
	firstWarning = 1500 * time.Millisecond
	// syncWarning is how long the first list may take before the log says what it is
	// waiting for. The message is repeated at doubled intervals.
	syncWarning = 10 * time.Second
	// streamIdle is how long a streaming list may bring neither an object nor its
	// final bookmark before a plain list replaces it.
	streamIdle = 30 * time.Second
	// watchIdle is how long a watch may bring neither an event nor a bookmark before it
	// is reopened, if the server sends bookmarks.
	watchIdle = 5 * time.Minute
	// endGrace is how much longer than its timeout a watch may be open.
	endGrace = 30 * time.Second
)

// guard logs what a first list is waiting for and which requests are unanswered,
// and ends silent watches, until ctx ends. It has no timer while there is nothing
// to wait for.
func (p *progress) guard(ctx context.Context) {
	started := time.Now()
	warning := syncWarning
	for {
		var due time.Time
		if !p.synced.Load() {
			if !time.Now().Before(started.Add(warning)) {
				p.log.Info("still waiting for the first list",
					"reason", p.whyNotSynced(), "after", time.Since(started).Round(time.Second).String())
				warning *= 2
			}
			due = started.Add(warning)
		}
		due = earlier(due, p.endSilentWatch())
		due = earlier(due, p.warnOfSilence())
		if !p.sleepUntil(ctx, due) {
			return
		}
	}
}

// sleepUntil returns at due (never, if it is zero) or when guard is woken. It
// returns false if ctx has ended.
func (p *progress) sleepUntil(ctx context.Context, due time.Time) bool {
	var timeout <-chan time.Time
	if !due.IsZero() {
		timeout = time.After(time.Until(due))
	}
	select {
	case <-ctx.Done():
		return false
	case <-p.wake:
	case <-timeout:
	}
	return true
}

// warnOfSilence logs that a request has no answer, and returns when to look again.
func (p *progress) warnOfSilence() (next time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := &p.request
	if !r.unanswered {
		return time.Time{}
	}
	if next = r.since.Add(max(firstWarning, r.patience)); time.Now().Before(next) {
		return next
	}
	silence := time.Since(r.since)
	r.patience = 2 * silence
	if p.troubles.isDue("no answer", time.Now()) {
		p.log.Info("no answer from the server yet", "phase", r.phase.String(), "waiting", p.waitingFor(),
			"for", silence.String(), "server", p.source.server, "namespace", p.source.namespace)
	}
	return r.since.Add(r.patience)
}

// endSilentWatch stops an open watch that is silent, so that the reflector opens
// a new one, and returns when to look again.
func (p *progress) endSilentWatch() (next time.Time) {
	p.mu.Lock()
	r := &p.request
	if r.watch == nil {
		p.mu.Unlock()
		return time.Time{}
	}
	message := ""
	switch {
	case r.phase == phaseStream:
		// A busy server that never sends the bookmark is not silent.
		next = earlier(p.lastActivity().Add(streamIdle), r.since.Add(10*streamIdle))
		message = "streaming list did not end, sending a plain one"
	case r.bookmarks:
		next, message = p.lastActivity().Add(watchIdle), "watch stalled, reopening"
	}
	if !r.deadline.IsZero() && (next.IsZero() || r.deadline.Before(next)) {
		next, message = r.deadline, "watch outlived its timeout, reopening"
	}
	if next.IsZero() || time.Now().Before(next) {
		p.mu.Unlock()
		return next
	}
	p.log.Info(message, "namespace", p.source.namespace,
		"silentFor", time.Since(p.lastActivity()).Round(time.Second).String())
	p.counted.stalls.Add(1)
	p.neverStreams = p.neverStreams || r.phase == phaseStream
	stop := r.watch.Stop
	r.watch = nil
	p.mu.Unlock()
	stop() // closes a connection: not under the lock
	return time.Time{}
}

// deadline ends a request that is not answered. Client-go sets none, and repeats
// requests inside of a call: so the time starts again with each of them.
type deadline struct {
	cancel context.CancelCauseFunc
	timer  *time.Timer
}

// withDeadline returns a context that ends with errNoAnswer if a request is not
// answered within limit, or if the call does not end within rest of the first byte
// of an answer, which may ask to wait and try again. No rest means no limit.
func withDeadline(ctx context.Context, limit, rest time.Duration) (context.Context, *deadline) {
	ctx, cancel := context.WithCancelCause(ctx)
	d := &deadline{cancel: cancel}
	d.timer = time.AfterFunc(limit, func() { cancel(errNoAnswer) })
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { d.timer.Reset(limit) },
		GotFirstResponseByte: func() {
			if d.timer.Stop(); rest > 0 {
				d.timer.Reset(rest)
			}
		},
	}), d
}

func (d *deadline) end() { d.cancel(nil) }

// limitedWatch ends the context of its request when it is stopped.
type limitedWatch struct {
	watch.Interface
	deadline *deadline
}

// closeTime is how long the body of a watch may take to be closed. It may wait for a connection that is stalled, until
// the context of its request ends. That is not ended at once: its error must not come before the body knows of its end.
const closeTime = time.Second

// Stop implements [watch.Interface].
func (w limitedWatch) Stop() {
	defer w.deadline.end()
	defer time.AfterFunc(closeTime, w.deadline.end).Stop()
	w.Interface.Stop()
}

// openInTime returns a watch that is open.
//
// Errors: that of open, errNoAnswer, or errCutOff.
func openInTime(ctx context.Context, open func(context.Context) (watch.Interface, error)) (watch.Interface, error) {
	ctx, d := withDeadline(ctx, streamIdle, watchIdle)
	w, err := open(ctx)
	// Client-go returns an empty watch for a connection that ends time and again.
	empty := err == nil && isEmptyWatch(w)
	switch {
	case err == nil && !empty:
		d.timer.Stop() // and not the context
		return limitedWatch{w, d}, nil
	case errors.Is(context.Cause(ctx), errNoAnswer):
		err = errNoAnswer
	case empty:
		err = errCutOff
	}
	d.end()
	return nil, err
}

// isEmptyWatch reports whether w is a watch that has ended already.
func isEmptyWatch(w watch.Interface) bool {
	return reflect.TypeOf(w) == reflect.TypeOf(watch.NewEmptyWatch())
}

package informer

import (
	"context"
	"time"
)

// firstWarning is how long a request may be unanswered until that is logged.
const firstWarning = 1500 * time.Millisecond

// wakeGuard makes guard look again at once.
func (p *progress) wakeGuard() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// guard logs what a first list is waiting for and which requests are unanswered,
// and ends silent watches, until ctx ends. It has no timer while there is nothing
// to wait for.
func (p *progress) guard(ctx context.Context) {
	started := time.Now()
	warning := p.options.SyncWarning
	for {
		var due time.Time
		if !p.synced.Load() {
			if due = started.Add(warning); !time.Now().Before(due) {
				p.log.Info("still waiting for the first list",
					"reason", p.whyNotSynced(), "after", time.Since(started).Round(time.Second).String())
				warning *= 2
				continue
			}
		}
		for _, next := range []time.Time{p.endSilentWatch(), p.warnOfSilence()} {
			if due.IsZero() || !next.IsZero() && next.Before(due) {
				due = next
			}
		}
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
		timer := time.NewTimer(max(time.Until(due), 1))
		defer timer.Stop()
		timeout = timer.C
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
// another one, and returns when to look again.
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
		next, message = p.lastActivity().Add(p.options.StreamIdle), "streaming list did not end, sending a plain one"
		// A busy server that never sends the bookmark is not silent.
		if end := r.since.Add(10 * p.options.StreamIdle); end.Before(next) {
			next = end
		}
	case r.bookmarks:
		next, message = p.lastActivity().Add(p.options.WatchIdle), "watch stalled, reopening"
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

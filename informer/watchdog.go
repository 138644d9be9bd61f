package informer

import (
	"context"
	"time"

	"k8s.io/klog/v2"
)

// poke makes the watchdog look again at once.
func (r *reflection[T]) poke() {
	select {
	case r.poked <- struct{}{}:
	default:
	}
}

// watchdog says what a first list is waiting for, and ends watches that have
// gone silent. It has no timer while there is nothing to watch.
func (r *reflection[T]) watchdog(ctx context.Context) {
	started := time.Now()
	warning := r.informer.options.SyncWarning
	for {
		var due time.Time
		if !r.synced.Load() {
			due = started.Add(warning)
			if !time.Now().Before(due) {
				klog.FromContext(ctx).Info("still waiting for the first list",
					"reason", r.reason(), "after", time.Since(started).Round(time.Second).String())
				warning *= 2
				continue
			}
		}
		if idle := r.endSilence(ctx); due.IsZero() || !idle.IsZero() && idle.Before(due) {
			due = idle
		}
		if quiet := r.noticeSilence(ctx); due.IsZero() || !quiet.IsZero() && quiet.Before(due) {
			due = quiet
		}
		if !r.sleepUntil(ctx, due) {
			return
		}
	}
}

// sleepUntil returns at due (never, if it is zero) or when poked; false means
// that ctx has ended.
func (r *reflection[T]) sleepUntil(ctx context.Context, due time.Time) bool {
	var timeout <-chan time.Time
	if !due.IsZero() {
		timer := time.NewTimer(max(time.Until(due), 1))
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-r.poked:
		return true
	case <-timeout:
		return true
	}
}

// endSilence stops a watch that is open but has gone silent, so that the
// reflector opens another, and returns when to look again.
func (r *reflection[T]) endSilence(ctx context.Context) (next time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p, o := &r.progress, &r.informer.options
	if p.watch == nil {
		return time.Time{}
	}
	var message string
	switch {
	case p.phase == phaseStream:
		next, message = r.lastSign().Add(o.StreamIdle), "the streaming list does not end, listing instead"
		// A busy server that never sends the bookmark is not silent.
		if end := p.since.Add(10 * o.StreamIdle); end.Before(next) {
			next = end
		}
	case p.bookmarks:
		next, message = r.lastSign().Add(o.WatchIdle), "the watch has stalled, opening another"
	}
	if !p.deadline.IsZero() && (next.IsZero() || p.deadline.Before(next)) {
		next, message = p.deadline, "the server has not ended the watch in time, opening another"
	}
	if next.IsZero() || time.Now().Before(next) {
		return next
	}
	klog.FromContext(ctx).Info(message, "namespace", r.source.namespace,
		"silentFor", time.Since(r.lastSign()).Round(time.Second).String())
	r.informer.counted.stalls.Add(1)
	p.vain = p.vain || p.phase == phaseStream
	stop := p.watch.Stop // closes a connection: not under the lock
	p.watch = nil
	r.mu.Unlock()
	stop()
	r.mu.Lock()
	return time.Time{}
}

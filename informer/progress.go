package informer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"
)

// A phase is what a reflection is doing.
type phase uint8

const (
	phaseIdle phase = iota
	phaseList
	phaseStream
	phaseWatch
)

func (p phase) String() string {
	return [...]string{"starting", "listing", "streaming the list", "watching"}[p]
}

// progress is how far a reflection has come.
type progress struct {
	phase    phase
	since    time.Time       // of the request
	waits    bool            // for the answer
	quiet    time.Duration   // how long it may take until that is logged again
	open     bool            // the server has answered it, with more to come
	watch    watch.Interface // the one that is open
	opened   time.Time       // when it was
	deadline time.Time       // by when the server should have closed it
	err      error           // of the last request, nil if it went well
	troubles troubles        // that have been logged since a request went well

	bookmarks bool // this watch has brought some
	vain      bool // streaming lists never end
	listed    bool // a list has been stored
}

// begin notes that a request is being made.
func (r *reflection[T]) begin(p phase) {
	r.received.Store(0)
	r.mu.Lock()
	opened := r.progress.opened
	r.progress.phase, r.progress.since = p, time.Now()
	r.progress.waits, r.progress.open, r.progress.quiet = true, false, 0
	r.progress.watch, r.progress.opened = nil, time.Time{}
	r.mu.Unlock()
	if !opened.IsZero() {
		r.log.V(1).Info("the watch has ended", "namespace", r.source.namespace,
			"after", time.Since(opened).Round(time.Second).String(), "next", p.String())
	}
	r.poke()
}

// answered notes the answer to the request.
func (r *reflection[T]) answered(ctx context.Context, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.progress.waits = false
	if err == nil {
		r.progress.open, r.progress.err, r.progress.troubles = true, nil, nil
		return
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	r.progress.err = fmt.Errorf("%s: %w", r.progress.phase, err)
	r.informer.counted.failures.Add(1)
	log := klog.FromContext(ctx)
	again := utilnet.IsConnectionRefused(err) || apierrors.IsTooManyRequests(err) // by the reflector: no list follows
	switch {
	case ctx.Err() != nil:
	case r.progress.phase == phaseStream && !again && !errors.Is(err, errCutOff):
		log.V(1).Info("streaming the list failed, listing instead", "reason", err.Error())
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err):
		log.V(1).Info("resource version has expired, listing anew", "reason", err.Error())
	default:
		r.complain(log, err, "request failed, trying again")
	}
}

// failed notes an error of the reflector that no request has brought.
func (r *reflection[T]) failed(ctx context.Context, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := errors.Unwrap(r.progress.err); known != nil && errors.Is(err, known) {
		return
	}
	r.progress.err, r.progress.open = err, false
	r.complain(klog.FromContext(ctx), err, "list or watch failed, trying again")
}

// complain logs why it does not go on, with what waits for it: at V(0) if that is
// new or has gone on for twice as long. The caller holds mu.
func (r *reflection[T]) complain(log logr.Logger, err error, message string) {
	details := []any{"phase", r.progress.phase.String(), "waiting", r.waits(), "namespace", r.source.namespace}
	if r.progress.troubles.tell(r.progress.phase.String()+err.Error(), time.Now()) {
		log.Error(err, message, details...)
		return
	}
	log.V(1).Info(message, append(details, "reason", err.Error())...)
}

// waits says what waits for the server.
func (r *reflection[T]) waits() string {
	if r.synced.Load() {
		return "changes"
	}
	return "the first list"
}

// noticeSilence logs that a request has no answer, and returns when to look again.
func (r *reflection[T]) noticeSilence(ctx context.Context) (next time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := &r.progress
	if !p.waits {
		return time.Time{}
	}
	if next = p.since.Add(max(answerWarning, p.quiet)); time.Now().Before(next) {
		return next
	}
	silence := time.Since(p.since)
	p.quiet = 2 * silence
	if p.troubles.tell("no answer", time.Now()) {
		klog.FromContext(ctx).Info("the server has not answered yet", "phase", p.phase.String(),
			"waiting", r.waits(), "for", silence.String(), "server", r.source.server, "namespace", r.source.namespace)
	}
	return p.since.Add(p.quiet)
}

// opened notes a watch that the server should close after timeout seconds.
func (r *reflection[T]) opened(w watch.Interface, timeout *int64) {
	const grace = 30 * time.Second
	r.touch()
	r.mu.Lock()
	p := &r.progress
	p.watch, p.opened, p.bookmarks, p.deadline = w, time.Now(), false, time.Time{}
	r.informer.counted.watches.Add(1)
	if timeout != nil && !r.source.fake {
		p.deadline = time.Now().Add(time.Duration(*timeout)*time.Second + grace)
	}
	r.mu.Unlock()
	r.poke()
}

// listed notes that a whole list has come.
func (r *reflection[T]) listed() {
	r.touch()
	r.mu.Lock()
	p := &r.progress
	again := p.listed
	p.listed = true
	r.informer.counted.lists.Add(1)
	if p.phase == phaseStream {
		p.phase = phaseWatch
	}
	r.mu.Unlock()
	if again {
		r.log.Info("listed anew, the watch could not go on where it was", "namespace", r.source.namespace)
	}
	r.poke()
}

func (r *reflection[T]) bookmarked() {
	r.mu.Lock()
	first := !r.progress.bookmarks
	r.progress.bookmarks = true
	r.mu.Unlock()
	if first {
		r.poke()
	}
}

func (r *reflection[T]) streamsInVain() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.progress.vain
}

// reason says what keeps the first list from being handed on; it is empty when
// nothing does.
func (r *reflection[T]) reason() string {
	if r.synced.Load() {
		return ""
	}
	r.mu.Lock()
	p := r.progress
	r.mu.Unlock()
	where := ""
	if r.source.namespace != "" {
		where = fmt.Sprintf("namespace %q: ", r.source.namespace)
	}
	if r.source.follows != nil && p.err == nil && !p.listed {
		return "the wrapped informer has not synced: has it been started?"
	}
	where += p.waiting()
	if p.open && p.phase == phaseStream {
		where += fmt.Sprintf(
			" (%d objects so far, but not the bookmark that ends the list; the last sign of life was %s ago)",
			r.received.Load(), time.Since(r.lastSign()).Round(time.Millisecond))
	}
	if apierrors.IsForbidden(p.err) || apierrors.IsUnauthorized(p.err) {
		where += " (the verbs list and watch are needed)"
	}
	return where
}

// waiting says what the first list is waiting for.
func (p *progress) waiting() string {
	ago := time.Since(p.since).Round(time.Millisecond)
	switch {
	case p.listed:
		return "the list is stored and is being handed on to the handlers"
	case p.phase == phaseIdle:
		return "nothing has been asked of the server yet"
	case p.open:
		return fmt.Sprintf("%s: the answer of %s ago is not complete", p.phase, ago)
	case !p.waits:
		return p.err.Error()
	case p.err != nil:
		return fmt.Sprintf("%s: no answer for %s; before that, %s", p.phase, ago, p.err)
	default:
		return fmt.Sprintf("%s: no answer for %s", p.phase, ago)
	}
}

// lastSign is when something last came from the server: zero if nothing has.
func (r *reflection[T]) lastSign() time.Time {
	if at := r.arrived.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// openSince is when the watch was opened that is open now: zero if none is.
func (r *reflection[T]) openSince() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.progress.watch == nil {
		return time.Time{}
	}
	return r.progress.opened
}

func (r *reflection[T]) lastError() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.progress.err
}

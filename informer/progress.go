package informer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/homeostat/homeostat/informer/internal/requests"
)

// phase is the activity of a reflectorStore.
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

// progress records the requests of one source. It logs why they make no
// progress, and ends watches that are silent for too long.
type progress struct {
	source  source
	counted *counters
	log     logr.Logger
	wake    chan struct{} // wakes guard
	began   time.Time
	// synced reports whether the first list has been stored and delivered.
	synced atomic.Bool
	// active is when data was last received, in Unix nanoseconds.
	active atomic.Int64
	// deliveries counts how often data was received.
	deliveries atomic.Int64
	// received counts the objects of the current streaming list.
	received atomic.Int64

	mu      sync.Mutex // guards the fields below
	request request
	// err is the last error of a request or of the reflector. It is nil once a
	// later request has succeeded.
	err          error
	outage       outage
	mute         mute
	logged       loggedErrors // errors that were logged since a request last succeeded
	listedBefore bool         // whether a whole list has been received before
	neverStreams bool         // whether a streaming list has stalled
	// brokenStreams counts streaming lists that broke off since the last list.
	brokenStreams int
}

// maxBrokenStreams is the number of broken streaming lists in a row after which
// a plain list is sent.
const maxBrokenStreams = 2

// request is the last request of a source.
type request struct {
	phase      phase
	page       int // the page of a list, counted from 1
	sent       time.Time
	unanswered bool
	list       *requests.Deadline // nil if the request is not a list
	// patience is how long the request may be unanswered before this is logged
	// again.
	patience time.Duration
	// open reports whether the server has answered and the answer continues.
	open bool
	// watch is the open watch, or nil.
	watch           watch.Interface
	opened          time.Time
	ended           time.Time // when the watch was stopped
	deliveredBefore int64     // number of deliveries before the watch was opened
	// deadline is the time at which the server should have ended the watch.
	deadline  time.Time
	bookmarks bool  // whether the watch has delivered a bookmark
	reported  error // the error event that ended the watch, or nil
}

// errNoBookmark makes the reflector send a plain list instead of a
// streaming one.
var errNoBookmark = errors.New("the server has not sent the bookmark that ends a streaming list")

// beginPage is like begin, for a page of a list.
func (p *progress) beginPage(page int) {
	p.begin(phaseList)
	p.mu.Lock()
	p.request.page = page
	p.mu.Unlock()
}

// asking records the deadline of the list that is about to be sent.
func (p *progress) asking(d *requests.Deadline) {
	p.mu.Lock()
	p.request.list = d
	p.mu.Unlock()
}

// isAnswering reports whether a part of the answer to a list has arrived.
func (r *request) isAnswering() bool { return r.list != nil && r.list.Answered() }

// silence says that the request under way has not been answered for a time, or
// that only a part of the answer has arrived.
func (r *request) silence(elapsed time.Duration) string {
	if r.isAnswering() {
		return fmt.Sprintf("no complete answer for %s", elapsed)
	}
	return fmt.Sprintf("no answer for %s", elapsed)
}

// begin records that a request is sent.
func (p *progress) begin(phase phase) {
	p.received.Store(0)
	p.mu.Lock()
	opened := p.request.opened
	if p.request.phase == phaseStream && !opened.IsZero() {
		p.brokenStreams++
	}
	p.noteEnd()
	p.request = request{phase: phase, sent: time.Now(), unanswered: true}
	p.mu.Unlock()
	if !opened.IsZero() {
		p.log.V(1).Info("watch ended", "namespace", p.source.namespace,
			"after", time.Since(opened).Round(time.Second).String(), "next", phase.String())
	}
	p.wakeGuard()
}

// answered records the answer to the request.
func (p *progress) answered(ctx context.Context, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.request.unanswered = false
	if err == nil {
		p.request.open, p.err, p.logged = true, nil, nil
		return
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	p.err = fmt.Errorf("%s: %w", p.request.phase, err)
	cannotStream := p.request.phase == phaseStream && apierrors.IsInvalid(err)
	if ctx.Err() == nil && !cannotStream { // a plain list may still succeed
		p.outage.add(p.err)
	}
	p.counted.Failures.Add(1)
	// The reflector repeats such a request, and does not list.
	repeated := utilnet.IsConnectionRefused(err) || apierrors.IsTooManyRequests(err)
	switch {
	case ctx.Err() != nil:
	case p.request.phase == phaseStream && !repeated && !errors.Is(err, requests.ErrCutOff):
		p.log.V(1).Info("streaming list failed, falling back to a plain list", "reason", err.Error())
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err):
		p.log.V(1).Info("resourceVersion expired, listing again", "reason", err.Error())
	default:
		p.complain(err, "request failed, retrying")
	}
}

// askedToWait records that the request under way has been answered, and that
// client-go waits because the server asks it to.
func (p *progress) askedToWait() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.request.unanswered {
		return
	}
	p.err = fmt.Errorf("%s: %w", p.request.phase, requests.ErrAsksToWait)
	p.outage.add(p.err)
	p.complain(requests.ErrAsksToWait, "the server asked the client to wait, retrying after that time")
}

// failed records an error of the reflector, unless it is the recorded answer to
// a request.
func (p *progress) failed(ctx context.Context, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := errors.Unwrap(p.err); ctx.Err() != nil || known != nil && errors.Is(err, known) {
		return
	}
	p.err, p.request.open = err, false
	p.outage.add(err)
	p.complain(err, "list or watch failed, retrying")
}

// complain logs an error. It uses V(0) if the error is new or is due to be
// logged again, and V(1) otherwise. If the server becomes unreachable after the
// first list, the first such message is not logged as an error, because usually
// the server only shuts down, and another server takes over. The caller holds
// mu.
func (p *progress) complain(err error, message string) {
	phase, cause := p.request.phase.String(), requests.CauseOf(err)
	details := []any{"phase", phase, "waiting", p.waitingFor(), "namespace", p.source.namespace}
	text, ends := phase+err.Error(), false
	if cause == requests.CauseUnreachable { // the text must not depend on the request
		text, ends = cause, p.synced.Load() && len(p.logged) == 0
	}
	switch due := p.logged.isDue(text, time.Now()); {
	case due && !ends:
		p.log.Error(err, message, details...)
	case due:
		p.log.Info(message, append(details, "reason", err.Error())...)
	default:
		p.log.V(1).Info(message, append(details, "reason", err.Error())...)
	}
}

// waitingFor returns a text for the log that says what the informer waits for.
func (p *progress) waitingFor() string {
	if p.synced.Load() {
		return "changes"
	}
	return "the first list"
}

// opened records a watch that the server should end after timeout seconds.
func (p *progress) opened(w watch.Interface, timeout *int64) {
	p.markActive()
	p.mu.Lock()
	p.request.watch, p.request.opened, p.request.deliveredBefore = w, time.Now(), p.deliveries.Load()
	p.counted.Watches.Add(1)
	if timeout != nil && !p.source.isSimulated() {
		p.request.deadline = time.Now().Add(time.Duration(*timeout)*time.Second + requests.EndGrace)
	}
	p.mu.Unlock()
	p.wakeGuard()
}

// endedEarly reports whether the last watch ended long before its timeout or
// long after it. A healthy server ends a watch near its timeout.
func (p *progress) endedEarly() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, now := &p.request, time.Now()
	if r.opened.IsZero() || r.deadline.IsZero() {
		return false
	}
	return now.Before(r.deadline.Add(-requests.EndGrace-requests.TimelyEnd)) || now.After(r.deadline)
}

// listed records that a whole list has been received.
func (p *progress) listed() {
	p.markActive()
	p.mu.Lock()
	relisted := p.listedBefore
	p.listedBefore, p.brokenStreams = true, 0
	p.counted.Lists.Add(1)
	if p.request.phase == phaseStream {
		p.request.phase = phaseWatch
	}
	p.mu.Unlock()
	if relisted {
		p.log.Info("listed again: the watch could not be resumed", "namespace", p.source.namespace)
	}
}

// reported records the error event with which the server ends the watch.
func (p *progress) reported(err error) {
	p.mu.Lock()
	p.request.reported = err
	p.mu.Unlock()
}

func (p *progress) bookmarked() {
	p.markActive()
	p.mu.Lock()
	first := !p.request.bookmarks
	p.request.bookmarks = true
	p.mu.Unlock()
	if first {
		p.wakeGuard()
	}
}

// cannotStream reports whether a plain list must be sent, because streaming
// lists do not end or several of them in a row broke off. Without this, the
// reflector would send the next streaming list at once, for example after an
// error event with code 410.
func (p *progress) cannotStream() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.neverStreams || p.brokenStreams >= maxBrokenStreams
}

// wakeGuard makes guard check the request again now.
func (p *progress) wakeGuard() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// markActive records that data was received.
func (p *progress) markActive() {
	p.active.Store(time.Now().UnixNano())
	p.deliveries.Add(1)
}

// lastActivity returns when data was last received, or zero.
func (p *progress) lastActivity() time.Time {
	if nanos := p.active.Load(); nanos != 0 {
		return time.Unix(0, nanos)
	}
	return time.Time{}
}

// state returns when the open watch was opened, or zero if no watch is open,
// and the last error since a request succeeded.
func (p *progress) state() (opened time.Time, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.request.watch == nil {
		return time.Time{}, p.err
	}
	return p.request.opened, p.err
}

// failing returns the last error since a request succeeded, or nil if there was
// none. It also returns nil for a streaming list, because a plain list follows
// if it fails.
func (p *progress) failing() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.request.phase == phaseStream {
		return nil
	}
	return p.err
}

// whyNotSynced returns why the first list has not been delivered, or the empty
// string if it has been delivered.
func (p *progress) whyNotSynced() string {
	if p.synced.Load() {
		return ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.source.follows != nil && p.err == nil && !p.listedBefore {
		return "the wrapped informer has not synced: has it been started?"
	}
	reason := p.firstList()
	if p.source.namespace != "" {
		reason = fmt.Sprintf("namespace %q: %s", p.source.namespace, reason)
	}
	if p.request.open && p.request.phase == phaseStream {
		reason += fmt.Sprintf(" (%d objects so far, but not the bookmark that ends the list; last activity %s ago)",
			p.received.Load(), time.Since(p.lastActivity()).Round(time.Millisecond))
	}
	if apierrors.IsForbidden(p.err) || apierrors.IsUnauthorized(p.err) {
		reason += " (the verbs list and watch are needed)"
	}
	return reason
}

// firstList returns what the first list is waiting for. The caller holds mu.
func (p *progress) firstList() string {
	phase, elapsed := p.request.phase.String(), time.Since(p.request.sent).Round(time.Millisecond)
	if p.request.page > 1 {
		phase = fmt.Sprintf("%s page %d", phase, p.request.page)
	}
	switch {
	case errors.Is(p.err, requests.ErrGoexit):
		return p.err.Error()
	case p.listedBefore:
		return "the list is stored and is being delivered to the handlers"
	case p.request.phase == phaseIdle:
		return "no request has been sent yet"
	case p.request.open:
		return fmt.Sprintf("%s: the answer is not complete after %s", phase, elapsed)
	case !p.request.unanswered:
		return p.err.Error()
	case p.err != nil:
		return fmt.Sprintf("%s: %s; before that, %s", phase, p.request.silence(elapsed), p.err)
	default:
		return fmt.Sprintf("%s: %s", phase, p.request.silence(elapsed))
	}
}

const (
	// firstWarning is how long a request may be unanswered before this is
	// logged.
	firstWarning = 1500 * time.Millisecond
	// syncWarning is how long the first list may take before the log says what
	// it waits for. The message is repeated at doubled intervals.
	syncWarning = 10 * time.Second
)

// guard logs what the first list waits for and which requests are unanswered,
// and ends silent watches, until ctx ends. It has no timer while it has no
// deadline to wait for.
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
		due = requests.Earlier(due, p.endSilentWatch())
		due = requests.Earlier(due, p.warnOfSilence())
		if !p.sleepUntil(ctx, due) {
			return
		}
	}
}

// sleepUntil returns at due or when guard is woken. A zero due means never. It
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

// warnOfSilence logs that a request has no answer yet, and returns when to
// check again.
func (p *progress) warnOfSilence() (next time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := &p.request
	if !r.unanswered {
		return time.Time{}
	}
	if next = r.sent.Add(max(firstWarning, r.patience)); time.Now().Before(next) {
		return next
	}
	silence := time.Since(r.sent)
	r.patience = 2 * silence
	message := "no answer from the server yet"
	if r.isAnswering() {
		message = "no complete answer from the server yet"
	}
	if p.logged.isDue(message, time.Now()) {
		p.log.Info(message, "phase", r.phase.String(), "waiting", p.waitingFor(),
			"for", silence.String(), "server", p.source.server, "namespace", p.source.namespace)
	}
	return r.sent.Add(r.patience)
}

// endSilentWatch stops the open watch if it is silent or has outlived its
// timeout, so that the reflector opens a new one. It returns when to check
// again, or zero if there is no watch to check.
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
		next = requests.Earlier(p.lastActivity().Add(requests.StreamIdle), r.sent.Add(10*requests.StreamIdle))
		message = "streaming list did not end, falling back to a plain list"
	case r.bookmarks:
		next, message = p.lastActivity().Add(requests.WatchIdle), "watch stalled, reopening"
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
	p.counted.Stalls.Add(1)
	p.neverStreams = p.neverStreams || r.phase == phaseStream
	stop := r.watch.Stop
	r.watch = nil
	p.mu.Unlock()
	stop() // closing a connection takes time, so mu is not held
	return time.Time{}
}

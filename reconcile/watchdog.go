package reconcile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// returnTimeout is how long a call of user code may take to return after its
// context has ended.
const returnTimeout = 5 * time.Second

// sleep waits for d. It returns false if ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// The pause before a function of an external trigger is called again doubles
// from firstCallPause to longestCallPause.
const (
	firstCallPause   = 100 * time.Millisecond
	longestCallPause = time.Minute
)

// watchdog reports calls of user code (reconcilers, mappers, external triggers)
// that do not return after their context has ended.
type watchdog struct {
	// mark and report are called for each such call, first when it is overdue
	// by returnTimeout, and then whenever the time by which it is overdue has
	// doubled. While mark runs, the call cannot return, so mark must not call
	// user code.
	mark   func(c call, text string)
	report func(c call, text, stack string)
	gaveUp chan error // receives an error that names the calls for which a stop no longer waits

	mu      sync.Mutex // guards workers
	workers map[*worker]struct{}
}

// call is the context of a call of user code. A call without a deadline may
// take any time until it is abandoned.
type call interface {
	context.Context
	// subject names the call in errors, such as `the reconcile of "default/a"`.
	subject() string
	// abandoned reports whether the call must end for a reason other than its
	// timeout, for example because the controller stops.
	abandoned() bool
}

// worker is a goroutine that calls user code.
type worker struct {
	watchdog  *watchdog
	goroutine []byte      // the first bytes of the goroutine's stack in a dump
	relief    *time.Timer // calls mapping.relieve when a call of a mapper takes long; nil for other workers
	// held is called when a call is stuck, and freed when it has returned after
	// all, both with mu held. They may be nil.
	held, freed func()

	mu        sync.Mutex // guards the fields below
	call      call       // the call in progress; nil between calls
	reported  bool
	timer     *time.Timer
	nextCheck time.Time // when the timer fires; zero if it is not set
	replaced  bool      // whether another goroutine continues the worker's work
}

func newWatchdog(mark func(c call, text string), report func(c call, text, stack string)) *watchdog {
	return &watchdog{mark: mark, report: report, gaveUp: make(chan error, 1), workers: map[*worker]struct{}{}}
}

// spawn calls serve in a goroutine until it returns false. If user code ends
// the goroutine (runtime.Goexit), another goroutine continues.
func (w *watchdog) spawn(running *sync.WaitGroup, serve func(*worker) bool) {
	running.Go(func() {
		s, ended := w.register(), false
		defer func() {
			w.mu.Lock()
			delete(w.workers, s)
			w.mu.Unlock()
			s.close()
			if !ended && !s.replaced {
				w.spawn(running, serve)
			}
		}()
		for serve(s) {
		}
		ended = true
	})
}

// register returns the worker of the calling goroutine.
func (w *watchdog) register() *worker {
	var header [64]byte
	name, _, _ := bytes.Cut(header[:runtime.Stack(header[:], false)], []byte("["))
	s := &worker{watchdog: w, goroutine: bytes.Clone(name)}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.workers[s] = struct{}{}
	return s
}

// begin records that a call starts, and end records that it has returned.
func (s *worker) begin(c call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.call = c
	if deadline, ok := c.Deadline(); ok {
		s.checkAt(deadline.Add(returnTimeout))
	}
}

func (s *worker) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reported && s.freed != nil {
		s.freed()
	}
	s.call, s.reported = nil, false
}

// close stops the timer of a goroutine that ends.
func (s *worker) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
	}
}

// checkAt sets the timer to t, unless it fires earlier anyway. Since most calls
// are short, stopping the timer after each of them would waste time: end lets
// it run, and the next call uses it. mu must be held.
func (s *worker) checkAt(t time.Time) {
	if !s.nextCheck.IsZero() && !t.Before(s.nextCheck) {
		return
	}
	s.nextCheck = t
	if s.timer == nil {
		s.timer = time.AfterFunc(time.Until(t), s.check)
	} else {
		s.timer.Reset(time.Until(t))
	}
}

// list returns the workers. Some may end meanwhile.
func (w *watchdog) list() []*worker {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.workers))
}

// check reports the worker's call if it is overdue, and sets the timer to the
// time at which the call will be overdue for twice as long.
func (s *worker) check() {
	s.mu.Lock()
	s.nextCheck = time.Time{}
	c := s.call
	if c == nil {
		s.mu.Unlock()
		return
	}
	deadline, limited := c.Deadline()
	overdue := time.Since(deadline)
	switch {
	case limited && overdue >= returnTimeout:
		s.checkAt(time.Now().Add(overdue))
		s.reportAndUnlock(c, overdue)
		return
	case limited: // the timer was set for an earlier call
		s.checkAt(deadline.Add(returnTimeout))
	}
	s.mu.Unlock()
}

// reportAndUnlock reports the worker's call. mu must be held, and is released.
func (s *worker) reportAndUnlock(c call, overdue time.Duration) {
	text := fmt.Sprintf("%s has not returned %v after its context ended", c.subject(), overdue.Round(time.Millisecond))
	if !s.reported && s.held != nil {
		s.held()
	}
	s.reported = true
	s.watchdog.mark(c, text)
	s.mu.Unlock()
	s.watchdog.report(c, text, s.stack())
}

// giveUpAfter makes Run return an error if abandoned calls have not returned d
// after the end of ctx, the context of Run.
func (w *watchdog) giveUpAfter(ctx context.Context, d time.Duration) (cancel func()) {
	returned := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-returned:
		case <-time.After(d):
			w.giveUp(nil)
		}
	})
	return func() {
		stop()
		close(returned)
	}
}

// giveUp makes Run return an error that names the abandoned calls. The error
// contains errs, the errors of whatever else has not ended, and ended, the
// error of what has ended. giveUp has no effect if everything has ended.
func (w *watchdog) giveUp(ended error, errs ...error) {
	for _, s := range w.list() {
		s.mu.Lock()
		c := s.call
		if c == nil || !c.abandoned() {
			s.mu.Unlock()
			continue
		}
		errs = append(errs, fmt.Errorf("%s has not returned although its context has ended; "+
			"its goroutine, and what it holds, remain until it does", c.subject()))
		if s.reported {
			s.mu.Unlock()
			continue
		}
		s.reportAndUnlock(c, returnTimeout)
	}
	if len(errs) == 0 {
		return
	}
	select {
	case w.gaveUp <- errors.Join(ended, fmt.Errorf("%w: %w", ErrGraceExpired, errors.Join(errs...))):
	default: // an earlier timer was faster
	}
}

// stuck returns the calls that are overdue now, in sorted order.
func (w *watchdog) stuck() (subjects []string) {
	for _, s := range w.list() {
		s.mu.Lock()
		if s.reported {
			subjects = append(subjects, s.call.subject())
		}
		s.mu.Unlock()
	}
	slices.Sort(subjects)
	return subjects
}

// stack returns the stack of the worker's goroutine. It takes it from a dump of
// all goroutines, because the standard library cannot dump another goroutine
// alone. runtime/pprof dumps all of them, too, and makes a program 200 KB
// larger.
func (s *worker) stack() string {
	const maxDump = 16 << 20
	dump := make([]byte, 1<<20)
	for {
		n := runtime.Stack(dump, true)
		if n < len(dump) || n >= maxDump {
			dump = dump[:n]
			break
		}
		dump = make([]byte, 2*len(dump))
	}
	for dumped := range bytes.SplitSeq(dump, []byte("\n\n")) {
		if bytes.HasPrefix(dumped, s.goroutine) {
			return string(dumped)
		}
	}
	return "not found among the first stacks"
}

// openCall is a call without a timeout. It may last until its context ends.
type openCall struct {
	context.Context //nolint:containedctx // an openCall is a context

	description string
}

func (c *openCall) subject() string { return c.description }

func (c *openCall) abandoned() bool { return c.Err() != nil }

// logOverdue logs a call that has not returned in time, with its stack.
func logOverdue(c call, text, stack string) {
	klog.FromContext(c).Error(errors.New(text), "call outlived its context, keeping its goroutine", "stack", stack)
}

package clientgo

import (
	"fmt"
	"iter"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/cache/synctrack"
	"k8s.io/klog/v2"
)

// notification describes one call of a handler.
type notification struct {
	// deleted is the deleted object or a [cache.DeletedFinalStateUnknown]. It
	// is nil if the notification is not about a deletion.
	deleted any
	// old is nil if the object was not cached before.
	old, object object
	// initial says that the object is one of the first objects that the
	// listener gets. OnAdd gets it as isInInitialList.
	initial bool
	// unchanged reports whether the object has not changed. Only listeners that
	// are due for a resync get such notifications.
	unchanged bool
}

// delivery is one notification or many. All listeners share it, so each queue
// is small even after a large list or a resync.
type delivery struct {
	notification

	// notifications yields the notifications of a list or a resync. It is nil
	// if the delivery is a single notification.
	notifications iter.Seq[notification]
	// changes reports whether unchanged objects are skipped.
	changes bool
}

// yieldAll calls yield for each of the notifications.
func (d *delivery) yieldAll(yield func(notification) bool) {
	if d.notifications == nil {
		yield(d.notification)
		return
	}
	for n := range d.notifications {
		if (!d.changes || !n.unchanged) && !yield(n) {
			return
		}
	}
}

// listener calls one handler of a shared informer on its own goroutine, because
// handlers must not wait for one another. Its queue is unbounded. It implements
// [cache.ResourceEventHandlerRegistration].
type listener struct {
	logger  klog.Logger
	handler cache.ResourceEventHandler
	tracker *synctrack.SingleFileTracker
	events  *atomic.Int64 // counts the calls of all handlers of the informer
	// requested is the resync period that the handler has requested, adjusted
	// by resyncPeriod.
	requested time.Duration
	closed    chan struct{} // closed to drop the rest of the queue
	ended     chan struct{} // closed after the last call has returned
	wake      chan struct{} // has one element if there may be deliveries in queue

	mu      sync.Mutex // guards the fields below
	queue   []delivery
	waiting time.Time // when the oldest delivery in queue was added
	taken   time.Time // when the oldest delivery in progress was added
	period  time.Duration
	due     time.Time // when the next resync is due
}

func newListener(
	logger klog.Logger, handler cache.ResourceEventHandler, upstream string, events *atomic.Int64,
) *listener {
	return &listener{
		logger: logger, handler: handler, events: events,
		tracker: synctrack.NewSingleFileTracker(upstream + " + event handler " + nameOf(handler)),
		closed:  make(chan struct{}), ended: make(chan struct{}), wake: make(chan struct{}, 1),
	}
}

// HasSynced implements [cache.ResourceEventHandlerRegistration].
func (l *listener) HasSynced() bool { return l.tracker.HasSynced() }

// HasSyncedChecker implements [cache.ResourceEventHandlerRegistration].
func (l *listener) HasSyncedChecker() cache.DoneChecker { return l.tracker }

// ShutdownChan returns a channel that is closed after the last call of the
// handler has returned. It is for [cache.ShutDownEventHandler].
func (l *listener) ShutdownChan() <-chan struct{} { return l.ended }

// close ends the listener. It must be called only once.
func (l *listener) close() { close(l.closed) }

// add queues a delivery. It does not wait.
func (l *listener) add(d delivery) {
	if d.initial {
		l.tracker.Start()
	}
	l.mu.Lock()
	if len(l.queue) == 0 {
		l.waiting = time.Now()
	}
	l.queue = append(l.queue, d)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// take returns the queued deliveries, and empties the queue.
func (l *listener) take() []delivery {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := l.queue
	l.queue, l.taken = nil, time.Time{}
	if len(taken) > 0 {
		l.taken = l.waiting
	}
	return taken
}

// lag returns for how long the oldest notification has waited, counting the
// ones that are being delivered, or 0 if all were delivered.
func (l *listener) lag() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !l.taken.IsZero():
		return time.Since(l.taken)
	case len(l.queue) > 0:
		return time.Since(l.waiting)
	}
	return 0
}

// run calls the handler until the listener is closed.
func (l *listener) run() {
	defer close(l.ended)
	for {
		deliveries := l.take()
		for n := range deliveries {
			l.deliver(&deliveries[n])
			deliveries[n] = delivery{} // release its objects
		}
		if l.isClosed() {
			return
		}
		if len(deliveries) > 0 {
			continue
		}
		select {
		case <-l.closed:
			return
		case <-l.wake:
		}
	}
}

// deliver calls the handler for all notifications of d, unless the listener is
// closed.
func (l *listener) deliver(d *delivery) {
	complete := true
	for n := range d.yieldAll {
		if l.isClosed() {
			return
		}
		l.events.Add(1)
		complete = l.call(n) && complete
	}
	if d.initial && complete {
		l.tracker.Finished()
	}
}

func (l *listener) isClosed() bool {
	select {
	case <-l.closed:
		return true
	default:
		return false
	}
}

// afterPanic is the pause after a panic. The notification that caused the panic
// is skipped.
const afterPanic = time.Second

// call calls the handler, and reports whether the handler has returned. If it
// panics, the program ends, unless client-go's ReallyCrash is false.
func (l *listener) call(n notification) (returned bool) {
	defer func() {
		if !returned {
			select {
			case <-time.After(afterPanic):
			case <-l.closed:
			}
		}
	}()
	defer utilruntime.HandleCrashWithLogger(l.logger)
	switch {
	case n.deleted != nil:
		l.handler.OnDelete(n.deleted)
	case n.old != nil:
		l.handler.OnUpdate(n.old, n.object)
	default:
		l.handler.OnAdd(n.object, n.initial)
	}
	return true
}

func (l *listener) setPeriod(period time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.period = period
}

// isDue reports whether it is time for a resync. If so, it schedules the next
// one.
func (l *listener) isDue(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.period == 0 || now.Before(l.due) {
		return false
	}
	l.due = now.Add(l.period)
	return true
}

// nameOf returns a name for a handler: its type, such as
// "example.com/app.Logger", or for functions the place where they are declared,
// such as "main.main".
func nameOf(handler cache.ResourceEventHandler) string {
	switch h := handler.(type) {
	case cache.ResourceEventHandlerFuncs:
		return nameOfFunctions(h.AddFunc, h.UpdateFunc, h.DeleteFunc)
	case *cache.ResourceEventHandlerFuncs:
		return nameOfFunctions(h.AddFunc, h.UpdateFunc, h.DeleteFunc)
	}
	t := reflect.TypeOf(handler)
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || t.Name() == "" {
		return fmt.Sprintf("%T", handler)
	}
	return strings.TrimPrefix(t.PkgPath()+"."+t.Name(), ".")
}

// nameOfFunctions returns the place where functions are declared if they share
// one, and otherwise their names.
func nameOfFunctions(functions ...any) string {
	var names []string
	places := map[string]bool{}
	for _, f := range functions {
		if v := reflect.ValueOf(f); !v.IsNil() {
			name := runtime.FuncForPC(v.Pointer()).Name()
			names = append(names, name)
			places[name[:max(0, strings.LastIndexByte(name, '.'))]] = true
		}
	}
	if len(places) == 1 {
		for place := range places {
			return place
		}
	}
	return strings.Join(names, "+")
}

// resyncPeriod returns the resync period for a handler that requests period. If
// period is shorter than the informer's own period, resyncPeriod may shorten
// the informer's period, and with it the periods of other handlers. The caller
// holds mu.
func (s *shared) resyncPeriod(logger klog.Logger, period time.Duration) time.Duration {
	if period > 0 && period < minimumResync {
		logger.Info("Warning: resync period is too small, using the minimum", "resyncPeriod", period,
			"minimumResyncPeriod", minimumResync)
		period = minimumResync
	}
	switch {
	case period <= 0 || period >= s.checkPeriod:
	case s.started:
		logger.Info("Warning: the informer has already started with a longer resync period, using its period",
			"resyncPeriod", period, "resyncCheckPeriod", s.checkPeriod)
		period = s.checkPeriod
	default:
		s.checkPeriod = period
		s.distributing.Lock()
		defer s.distributing.Unlock()
		for l := range s.listeners {
			l.setPeriod(effectivePeriod(logger, l.requested, period))
		}
	}
	return period
}

// effectivePeriod returns the resync period of a handler that requests period.
// check is the interval at which the informer looks for handlers that are due.
// For example, if period is 10 seconds and check is 30 seconds, the handler
// gets 30 seconds.
func effectivePeriod(logger klog.Logger, period, check time.Duration) time.Duration {
	switch {
	case period == 0:
	case check == 0:
		logger.Info("Warning: this shared informer does not resync, ignoring the resync period", "desired", period)
		return 0
	case period < check:
		logger.Info("Warning: resync period is shorter than the informer's, using the informer's resync period",
			"desired", period, "resyncCheckPeriod", check)
		return check
	}
	return period
}

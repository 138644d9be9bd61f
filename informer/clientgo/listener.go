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

// notification is one call of a handler.
type notification struct {
	// deleted is the object, or a [cache.DeletedFinalStateUnknown]; nil if it
	// is no deletion.
	deleted any
	// old is nil if the object was not there before.
	old, object object
	// initial says that the object is, or all of many are, of the first list.
	initial bool
	// unchanged says that only those get it who want to be told of all objects.
	unchanged bool
}

// delivery is one notification or many, which all listeners share: what is
// queued for each of them is small even if a list or a resync is not.
type delivery struct {
	notification

	// many are the notifications; nil if there is just the one.
	many iter.Seq[notification]
	// changes says to skip what is unchanged.
	changes bool
}

// all returns the notifications.
func (d *delivery) all(yield func(notification) bool) {
	if d.many == nil {
		yield(d.notification)
		return
	}
	for n := range d.many {
		if (!d.changes || !n.unchanged) && !yield(n) {
			return
		}
	}
}

// listener calls one handler of a shared informer, on a goroutine of its own,
// so that handlers do not wait for one another. It has an unbounded queue, and
// implements [cache.ResourceEventHandlerRegistration].
type listener struct {
	logger  klog.Logger
	handler cache.ResourceEventHandler
	tracker *synctrack.SingleFileTracker
	events  *atomic.Int64 // counts the calls
	// requested is the resync period that the handler has asked for, within the
	// limits.
	requested time.Duration
	closed    chan struct{} // what is still queued is dropped
	ended     chan struct{} // closed when the last call has returned, and no more will come
	wake      chan struct{} // holds one element if there may be more

	mu      sync.Mutex // guards the fields below
	queue   []delivery
	waiting time.Time // since when the oldest one of them waits
	taken   time.Time // waiting of those for which the handler is being called
	period  time.Duration
	due     time.Time // for the next resync
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

// ShutdownChan returns a channel that is closed when no more call of the
// handler runs or will come. It is for [cache.ShutDownEventHandler].
func (l *listener) ShutdownChan() <-chan struct{} { return l.ended }

// close ends the listener. It must not be called again.
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

// take returns what is queued.
func (l *listener) take() []delivery {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.queue
	l.queue, l.taken = nil, time.Time{}
	if len(all) > 0 {
		l.taken = l.waiting
	}
	return all
}

// lag returns for how long the oldest notification has been waiting; 0 if none is.
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
		all := l.take()
		for n := range all {
			l.deliver(&all[n])
			all[n] = delivery{} // its objects may be garbage by now
		}
		if l.isClosed() {
			return
		}
		if len(all) > 0 {
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
	for n := range d.all {
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

// afterPanic is how long after a panic, which skips its notification, the next
// call waits.
const afterPanic = time.Second

// call calls the handler, and reports whether that has returned. A panic of it
// ends the program, unless client-go's ReallyCrash is false.
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

// isDue reports whether it is time for a resync, and plans the next one if it is.
func (l *listener) isDue(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.period == 0 || now.Before(l.due) {
		return false
	}
	l.due = now.Add(l.period)
	return true
}

// nameOf returns a name for a handler: where its functions or its type are
// declared.
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

// nameOfFunctions returns the place where functions are declared if it is one
// for all of them, else their names.
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

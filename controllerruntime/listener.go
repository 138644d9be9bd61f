package controllerruntime

import (
	"fmt"
	"strings"
	"sync"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/homeostat/homeostat/informer"
)

// listener calls one handler, one call at a time. It is also the registration
// that AddEventHandler returns.
type listener struct {
	handler cache.ResourceEventHandler
	// consistency reports whether controller-runtime's client uses the handler
	// to wait for its own writes.
	consistency bool
	resync      time.Duration // the period of resyncs; 0 if the handler gets none
	synced      chan struct{} // closed when the first objects have been delivered
	ended       chan struct{}
	end         func()
	wake        chan struct{}

	mu      sync.Mutex // guards pending
	pending []notice
}

// notice is one call of a handler: about a change of an object, or about an
// unchanged object at a resync. A notice with synced set makes no call.
type notice struct {
	old, new informer.Object
	initial  bool
	synced   bool // whether the notice marks the end of the first objects
}

func newListener(h cache.ResourceEventHandler) *listener {
	l := &listener{
		handler:     h,
		consistency: strings.HasSuffix(fmt.Sprintf("%T", h), "consistencyhandler.ConsistencyHandler"),
		synced:      make(chan struct{}), ended: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	l.end = sync.OnceFunc(func() { close(l.ended) })
	return l
}

// add queues a notice.
func (l *listener) add(n notice) {
	l.mu.Lock()
	l.pending = append(l.pending, n)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// take removes and returns the queued notices.
func (l *listener) take() []notice {
	l.mu.Lock()
	defer l.mu.Unlock()
	pending := l.pending
	l.pending = nil
	return pending
}

// run calls the handler until the listener ends.
func (l *listener) run() {
	for {
		select {
		case <-l.ended:
			return
		case <-l.wake:
		}
		for _, n := range l.take() {
			select {
			case <-l.ended:
				return
			default:
				l.call(n)
			}
		}
	}
}

// call calls the handler or, for a notice with synced set, closes l.synced. It
// handles a panic as client-go does.
func (l *listener) call(n notice) {
	defer utilruntime.HandleCrash()
	switch {
	case n.synced:
		close(l.synced)
	case n.old == nil:
		l.handler.OnAdd(n.new, n.initial)
	case n.new == nil:
		l.handler.OnDelete(n.old)
	default:
		l.handler.OnUpdate(n.old, n.new)
	}
}

// HasSynced implements [cache.ResourceEventHandlerRegistration].
func (l *listener) HasSynced() bool {
	select {
	case <-l.synced:
		return true
	default:
		return false
	}
}

// HasSyncedChecker implements [cache.ResourceEventHandlerRegistration].
func (l *listener) HasSyncedChecker() cache.DoneChecker {
	return done{"handler of objects on demand", l.synced}
}

// done is a [cache.DoneChecker].
type done struct {
	name   string
	closed <-chan struct{}
}

func (d done) Name() string          { return d.name }
func (d done) Done() <-chan struct{} { return d.closed }

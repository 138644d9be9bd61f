package observer

import (
	"sync"
	"time"

	"github.com/homeostat/homeostat/reconcile"
)

// leavers contains the keys of objects that have left the cache, until the
// reconciler is called for them. Such an object may still exist outside of the
// selection. In that case the controller does not reconcile it, and receives no
// event when it is deleted later. So leavers enqueues the key of the object
// again and again, and each time the controller asks the server whether the
// object still exists.
type leavers struct {
	memory  *memory
	enqueue func(...reconcile.Key)

	mu     sync.Mutex // guards timers
	timers map[reconcile.Key]*time.Timer
}

// add starts to enqueue the key of an object that has left the cache.
func (l *leavers) add(key reconcile.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(key)
	l.timers[key] = time.AfterFunc(firstQuestionDelay, func() { l.ask(key) })
}

// returned stops enqueuing the key of an object that is in the cache again.
func (l *leavers) returned(key reconcile.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(key)
}

// drop stops the timer of a key and removes it. The caller must hold mu.
func (l *leavers) drop(key reconcile.Key) {
	if timer := l.timers[key]; timer != nil {
		timer.Stop()
		delete(l.timers, key)
	}
}

func (l *leavers) ask(key reconcile.Key) {
	l.mu.Lock()
	timer := l.timers[key]
	delay, open := l.memory.question(key)
	if timer != nil && open {
		timer.Reset(delay)
	} else {
		l.drop(key)
	}
	l.mu.Unlock()
	if timer != nil && open {
		l.enqueue(key)
	}
}

// stop stops the timers of all keys.
func (l *leavers) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key := range l.timers {
		l.drop(key)
	}
}

package observer

import (
	"sync"
	"time"

	"github.com/homeostat/homeostat/reconcile"
)

// leavers holds objects that have left the cache, until the reconciler is
// called for them. The controller does not reconcile objects that exist outside
// the selection, and their later deletion is not an event. So leavers enqueues
// them repeatedly, and the controller asks the server.
type leavers struct {
	memory  *memory
	enqueue func(...reconcile.Key)

	mu     sync.Mutex // guards timers
	timers map[reconcile.Key]*time.Timer
}

// left starts to ask about an object.
func (l *leavers) left(key reconcile.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(key)
	l.timers[key] = time.AfterFunc(firstQuestionDelay, func() { l.ask(key) })
}

// returned stops asking about an object.
func (l *leavers) returned(key reconcile.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(key)
}

// drop removes a key. The caller must hold mu.
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

// stop stops asking about all objects.
func (l *leavers) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key := range l.timers {
		l.drop(key)
	}
}

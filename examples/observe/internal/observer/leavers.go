package observer

import (
	"sync"
	"time"

	"github.com/homeostat/homeostat/reconcile"
)

// leavers are objects that have left the cache and of which the reconciler has not heard
// since: the controller does not reconcile what exists out of the selection, whose
// deletion later is no event. So they are enqueued again: the controller asks the server.
type leavers struct {
	memory  *memory
	enqueue func(...reconcile.Key)

	mu     sync.Mutex // guards timers
	timers map[reconcile.Key]*time.Timer
}

// left begins to ask about an object.
func (l *leavers) left(key reconcile.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(key)
	l.timers[key] = time.AfterFunc(firstQuestion, func() { l.ask(key) })
}

// returned ends the questions about an object.
func (l *leavers) returned(key reconcile.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(key)
}

// drop forgets a key. The caller has locked mu.
func (l *leavers) drop(key reconcile.Key) {
	if timer := l.timers[key]; timer != nil {
		timer.Stop()
		delete(l.timers, key)
	}
}

func (l *leavers) ask(key reconcile.Key) {
	l.mu.Lock()
	timer := l.timers[key]
	after, open := l.memory.question(key)
	if timer != nil && open {
		timer.Reset(after)
	} else {
		l.drop(key)
	}
	l.mu.Unlock()
	if timer != nil && open {
		l.enqueue(key)
	}
}

// stop ends all questions.
func (l *leavers) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key := range l.timers {
		l.drop(key)
	}
}

package queue

import "sync"

// A lock is a Mutex for work of a fraction of a microsecond that many want to
// do. Who finds it taken leaves it alone for a while before it looks again: what
// it guards stays in the cache of one processor meanwhile, which does several
// pieces of work in the time that one takes if the memory goes back and forth.
type lock struct{ mutex sync.Mutex }

const (
	tries = 4    // before the caller falls asleep
	pause = 4000 // rounds of an empty loop: about a microsecond
)

func (l *lock) Lock() {
	if !l.mutex.TryLock() {
		l.lockSlow()
	}
}

func (l *lock) Unlock() { l.mutex.Unlock() }

func (l *lock) lockSlow() {
	for range tries {
		for range pause { // it passes the time
		}
		if l.mutex.TryLock() {
			return
		}
	}
	l.mutex.Lock()
}

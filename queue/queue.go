package queue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"github.com/homeostat/homeostat/internal/simhook"
)

// A Queue hands out keys, each to one worker at a time. It is made by [New],
// and safe for concurrent use.
type Queue[K comparable] struct {
	options Options[K]
	epoch   time.Time
	real    bool                  // the clock is the real one
	timely  atomic.Bool           // the last addition had to know the time
	gate    func(context.Context) // called before a key is chosen; nil without a simulator
	jitter  func() float64

	// What each turn needs comes first, so that it is in few cache lines.
	mu       sync.Mutex // guards what follows
	mode     mode
	ready    int // keys in rings
	again    int // held keys with a demand
	numbers  uint64
	timers   timers
	sleepers sleepers
	rings    [lanes]ring
	store[K] // what is known of each key
	turns    slab[turn]
	groups   slab[group]
	causes   causes
	counters counters
	memories slab[memory]
	numberOf map[string]uint32 // of groups
	emptied  chan struct{}     // closed when nothing waits or is held; nil if nobody asks
}

type mode uint8

const (
	running mode = iota
	draining
	stopped
)

// New returns an empty queue. It starts nothing: no goroutine, no timer.
//
// Errors: every option out of range, joined.
func New[K comparable](o *Options[K]) (*Queue[K], error) {
	options := o.withDefaults()
	if err := options.validate(); err != nil {
		return nil, fmt.Errorf("making queue %q: %w", options.Name, err)
	}
	q := &Queue[K]{options: options, epoch: options.Clock.Now(), store: newStore[K](), jitter: rand.Float64}
	if hooks := simhook.Current(); hooks != nil {
		if hooks.Jitter != nil {
			q.jitter = hooks.Jitter
		}
		if hooks.Gate != nil {
			q.gate = hooks.Gate(options.Name)
		}
	}
	_, q.real = options.Clock.(clock.RealClock)
	if options.Group == nil {
		q.groups.take()
	} else {
		q.numberOf = map[string]uint32{}
	}
	return q, nil
}

// Name returns the name that the queue was given.
func (q *Queue[K]) Name() string { return q.options.Name }

// now is the time since the epoch, and more than 0.
func (q *Queue[K]) now() int64 {
	if q.real {
		return int64(time.Since(q.epoch)) + 1
	}
	return int64(q.options.Clock.Since(q.epoch)) + 1
}

// Add makes key wait in lane Live, unless it does already.
func (q *Queue[K]) Add(key K) { q.AddWithOptions(key, AddOptions{}) }

// AddWithOptions makes key wait as a says. A key that is held by a worker is handed
// out again when its turn has ended. After Drain or Stop it does nothing.
func (q *Queue[K]) AddWithOptions(key K, a AddOptions) {
	var name string
	if q.options.Group != nil {
		name = q.options.Group(key)
	}
	hash := q.hash(key) // outside the lock, to hold that for a shorter time
	var now int64
	if q.timely.Load() { // so must this one, most likely
		now = q.now()
	}
	q.mu.Lock()
	q.add(key, hash, name, &a, now)
	q.mu.Unlock()
}

// Forget forgets the failures of key: the next one is its first again. A retry
// that waits already still comes at its time; a back-off that nothing waits for
// ends.
func (q *Queue[K]) Forget(key K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := q.find(key, q.hash(key))
	if n == 0 {
		return
	}
	e := q.at(n)
	m := q.recall(e)
	if m == nil {
		return
	}
	q.forget(m)
	if e.pending == nothing && e.state != held {
		m.backoff = 0
		q.settle(n, q.now())
	}
}

// Cancel drops the timer of key, a retry included, and reports whether there was
// one. The key keeps its failures and its back-off until [Queue.Forget].
// Additions without delay are not cancelled: a key that was added while it
// backed off is still dispatched at the end of its back-off.
func (q *Queue[K]) Cancel(key K) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := q.find(key, q.hash(key))
	if n == 0 {
		return false
	}
	e := q.at(n)
	dropped := q.dropLater(e)
	if e.pending == timer && e.state != waiting {
		q.expect(e, nothing, 0)
		q.causes.drop(e.causes)
		e.causes, dropped = 0, true
	}
	if dropped && e.pending == nothing && e.state != held {
		q.settle(n, q.now())
	}
	return dropped
}

// Release ends what Item.Hold began: key is handed out as soon as something
// asks for it.
func (q *Queue[K]) Release(key K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := q.find(key, q.hash(key))
	if n == 0 {
		return
	}
	e := q.at(n)
	m := q.recall(e)
	if m == nil || m.hold == 0 {
		return
	}
	m.hold = 0
	if e.state == delayed {
		q.settle(n, q.now())
	}
}

// Len returns how many keys wait for a worker now; keys that are held or
// delayed do not count.
func (q *Queue[K]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.promoteNow()
	return q.ready
}

func (q *Queue[K]) promoteNow() {
	if len(q.timers.nodes) > 0 {
		q.promote(q.now())
	}
}

// Drain ends the intake: later additions, timers and retries are dropped, while
// keys that wait are still handed out. When none is left, Get returns
// [ErrStopped].
func (q *Queue[K]) Drain() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.mode != running {
		return
	}
	q.promoteNow()
	q.mode = draining
	q.clear(delayed, idle)
	q.timers = timers{}
	q.rouseAll()
	q.reportEmpty()
}

// Stop drops everything that waits; Get returns [ErrStopped]. Items that are
// held may be ended as usual, or not at all.
func (q *Queue[K]) Stop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mode = stopped
	q.clear(waiting, delayed, idle)
	q.timers = timers{}
	q.rouseAll()
	q.reportEmpty()
}

// clear discards the entries in the given states.
func (q *Queue[K]) clear(states ...state) {
	for n, top := uint32(1), q.top; n <= top && q.live > 0; n++ {
		for _, s := range states {
			if e := q.at(n); e.state == s {
				q.discard(n, e)
				break
			}
		}
	}
}

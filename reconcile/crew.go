package reconcile

import (
	"fmt"
	"sync"
	"time"
)

// stuckLimit is how long all workers must be stuck before the controller is
// unhealthy. A restart helps then. Without it, the controller waits until one
// of the calls returns.
const stuckLimit = time.Minute

// crew counts the workers that reconcile. A call that ignores the end of its
// context keeps its worker, and its key, until it returns. Another worker takes
// its place, and the objects of all other keys are still reconciled. There are
// at most twice as many workers as Options.Workers, because each stuck call
// also keeps its memory and other resources.
type crew struct {
	mu       sync.Mutex // guards the fields below; it is the innermost lock
	size     int        // how many workers should be free
	running  int
	stuck    int
	allStuck time.Time // when the last free worker got stuck; zero while one is free
}

// start resets the crew to size workers, all of them free.
func (c *crew) start(size int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.size, c.running, c.stuck, c.allStuck = size, size, 0, time.Time{}
}

// hold records that the call of a worker is stuck, and reports whether the
// caller should start another worker.
func (c *crew) hold() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stuck++
	if c.running < 2*c.size {
		c.running++
		return true
	}
	if c.stuck >= c.running {
		c.allStuck = time.Now()
	}
	return false
}

// release records that a stuck call has returned.
func (c *crew) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stuck, c.allStuck = c.stuck-1, time.Time{}
}

// leave reports whether the calling worker should end, because enough others
// are free.
func (c *crew) leave() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running-c.stuck <= c.size {
		return false
	}
	c.running--
	return true
}

// healthy returns an error if all workers have been stuck for stuckLimit.
func (c *crew) healthy() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.allStuck.IsZero() || time.Since(c.allStuck) < stuckLimit {
		return nil
	}
	return fmt.Errorf("all %d workers have been held for %v by calls that ignore their context; "+
		"the log has their stacks", c.running, time.Since(c.allStuck).Round(time.Second))
}

// spawnWorkers starts the workers that reconcile. Workers that replace stuck
// ones are started later.
func (c *Controller) spawnWorkers(running *sync.WaitGroup, serve func(*worker) bool) {
	c.crew.start(c.options.Workers)
	for range c.options.Workers {
		c.spawnWorker(running, serve)
	}
}

func (c *Controller) spawnWorker(running *sync.WaitGroup, serve func(*worker) bool) {
	held, freed := func() {
		if c.crew.hold() { // running cannot be 0 meanwhile: the stuck worker runs
			c.spawnWorker(running, serve)
		}
	}, c.crew.release
	c.watchdog.spawn(running, func(w *worker) bool { // for each key
		w.held, w.freed = held, freed
		return serve(w) && !c.crew.leave()
	})
}

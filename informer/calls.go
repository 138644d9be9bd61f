package informer

import "sync"

// calls counts the requests under way: client-go's reflector returns without
// waiting for a list that it has given up.
type calls struct {
	mu    sync.Mutex // guards ended, and running against an Add beside Wait
	ended bool

	running sync.WaitGroup
}

// begin tells whether a request may still start; then end must follow.
func (c *calls) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.running.Add(1)
	}
	return !c.ended
}

func (c *calls) end() { c.running.Done() }

// wait lets no more requests start and returns when the last has ended.
func (c *calls) wait() {
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	c.running.Wait()
}

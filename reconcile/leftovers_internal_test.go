package reconcile

import (
	"fmt"

	"github.com/homeostat/homeostat/reconcile/inspect"
)

// Leftovers returns what a controller that has stopped holds of calls, writes
// and slots that have ended.
func (c *Controller) Leftovers() (left []string) {
	if c.Phase() != inspect.Stopped {
		return nil
	}
	add := func(n int, what string) {
		if n != 0 {
			left = append(left, fmt.Sprint(n, " ", what))
		}
	}
	add(int(c.stats.active.Load()), "reconciles that count as active")
	add(len(c.watchdog.list()), "workers")
	c.fresh.leftovers(add)
	if c.slots != nil {
		c.slots.leftovers(add)
	}
	return left
}

func (f *freshness) leftovers(add func(int, string)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	add(len(f.baselines), "objects observed for requests that have been answered")
	idle, orphaned := 0, 0
	for _, held := range f.held {
		if held.pending <= 0 {
			idle++
		}
	}
	for _, expectations := range f.expects {
		for _, e := range expectations {
			if f.held[e.held.key] != e.held {
				orphaned++
			}
		}
	}
	add(idle, "held keys that wait for nothing")
	add(orphaned, "expectations of keys that are not held")
}

func (s *shardRunner) leftovers(add func(int, string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	add(len(s.runs), "slots that are worked on")
	add(len(s.draining), "slots that are drained")
	add(len(s.empty), "slots whose keys are to be enqueued")
	add(len(s.failed)+len(s.waiting), "unfinished keys of slots that have been left")
	if s.caches != nil {
		s.caches.mu.Lock()
		defer s.caches.mu.Unlock()
		add(len(s.caches.waiting), "slots that wait for their objects")
	}
}

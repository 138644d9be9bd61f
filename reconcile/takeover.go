package reconcile

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// takeoverDeadline bounds how long a new leader, or the new owner of a slot, waits
// for its caches.
const takeoverDeadline = time.Minute

// takeOver waits until the caches are as new as the server is now. The replica
// before this one may have written until a moment ago, but does not any more.
//
// It gives up after a minute, with a log line: a server that does not answer
// reads that long must not keep the controller from its work for good.
func (c *Controller) takeOver(ctx context.Context) {
	log := klog.FromContext(ctx)
	limited, cancel := context.WithTimeout(ctx, takeoverDeadline)
	defer cancel()
	slow := time.AfterFunc(c.options.FreshnessDeadline, func() {
		log.Info("taking over: waiting for caches that may not have seen the last writes", "timeout", takeoverDeadline)
	})
	defer slow.Stop()
	if err := c.waitForLatest(limited); err != nil && ctx.Err() == nil {
		log.Error(err, "taking over on caches that may not have seen the last writes")
	}
}

// waitForLatest waits for the caches, all at once.
func (c *Controller) waitForLatest(ctx context.Context) error {
	errs := make([]error, len(c.sources))
	var waiting sync.WaitGroup
	for i, s := range c.sources {
		waiting.Go(func() {
			if err := s.WaitForLatest(ctx); err != nil {
				errs[i] = fmt.Errorf("informer of %s: %w", s.Name(), err)
			}
		})
	}
	waiting.Wait()
	return errors.Join(errs...)
}

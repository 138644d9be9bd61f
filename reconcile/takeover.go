package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// noneWrapped names each informer whose cache cannot be compared with the server:
// the new owner of a shard would act on what the last one has changed.
func noneWrapped(o *Options, own source) error {
	if o.Shards == nil || isNil(own) || slices.Contains(o.Triggers, nil) {
		return nil // or reported elsewhere
	}
	var errs []error
	for _, s := range sourcesOf(own, o.Triggers) {
		if !isNil(s) && s.Status().Wrapped {
			errs = append(errs, fmt.Errorf("Options.Shards is set, and the informer of %s is made by clientgo.Wrap: it does "+
				"not know whether its cache shows what the last owner of a shard wrote: make it with informer.For", s.Name()))
		}
	}
	return errors.Join(errs...)
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

package reconcile

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"

	"k8s.io/klog/v2"
)

// External reconciles keys that come from outside the cluster: webhooks, cloud
// events, timers. The name appears in causes and logs.
//
// A channel is read until it is closed or the controller stops. A function is
// called when the caches are filled, with a context that ends with the
// controller. It may call enqueue from any goroutine until it returns. If it
// returns an error or panics, it is called again after 100 ms, doubling up to a
// minute; once it has returned nil it is not called again. Two controllers that
// read one channel get different keys: give each its own channel. [New] refuses
// an empty name and a nil source.
//
// At most 1,000 different keys of external triggers wait for a worker. Beyond
// that, sends to the channel and calls of enqueue block until there is room;
// enqueue returns an error if the controller stops. Keys also wait for the
// leadership. With Options.Shards a replica drops the keys of shards that it
// does not have: send all keys to each replica. Keys sent while no replica runs
// are lost: use Options.Resync or Options.Known to find them.
func External[S chan Key | <-chan Key | func(ctx context.Context, enqueue func(Key) error) error](
	name string, source S,
) Trigger {
	e := external{name: name}
	switch s := any(source).(type) {
	case chan Key:
		e.fromChannel(s)
	case <-chan Key:
		e.fromChannel(s)
	case func(context.Context, func(Key) error) error:
		e.f = s
	}
	return e
}

type external struct {
	name string
	f    func(ctx context.Context, enqueue func(Key) error) error // nil if the source is
}

// fromChannel makes the source a function that reads the channel.
func (e *external) fromChannel(keys <-chan Key) {
	if keys == nil {
		return
	}
	e.f = func(ctx context.Context, enqueue func(Key) error) error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case key, ok := <-keys:
				if !ok {
					return nil
				}
				_ = enqueue(key) // it fails when ctx has ended
			}
		}
	}
}

func (e external) source() source { return nil }

func (e external) triggerType() string { return "external" }

// attach returns the function that calls the source. It attaches no handler, so
// there is none to detach.
func (e external) attach(c *intake) binding {
	return binding{detach: func() {}, run: func(ctx context.Context) { e.run(ctx, c) }}
}

// run calls the function until it returns nil or ctx ends. It returns after the
// last call.
func (e external) run(ctx context.Context, c *intake) {
	for _, s := range c.sources {
		if s.Parts().WaitForStart(ctx) != nil {
			return
		}
	}
	pause, failed := firstCallAgain, false
	var running sync.WaitGroup
	defer running.Wait()
	c.watchdog.spawn(&running, func(s *worker) bool {
		if failed && !sleep(ctx, pause) {
			return false
		}
		if failed {
			pause = min(2*pause, longestCallAgain)
		}
		failed = true
		return e.call(ctx, c, s) != nil && ctx.Err() == nil
	})
}

// call calls the function and logs its error.
func (e external) call(ctx context.Context, c *intake, s *worker) (err error) {
	err = errGoexit
	s.begin(&openCall{Context: ctx, what: fmt.Sprintf("the external trigger %q", e.name)})
	defer func() {
		s.end()
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
		if err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "external trigger failed, retrying",
				"controller", c.name, "trigger", e.name)
		}
	}()
	if err = e.f(ctx, func(key Key) error { return c.external.add(ctx, c, key, e.name) }); err != nil {
		err = printable(err)
	}
	return err
}

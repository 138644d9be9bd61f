package reconcile

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/internal/guard"
)

// External returns a trigger that reconciles keys from outside the cluster:
// from webhooks, cloud events or timers. The name appears in causes and logs.
//
// A channel is read until it is closed or the controller stops. A function is
// called when the caches are filled, with a context that ends with the
// controller. It may call enqueue from any goroutine until it returns. If the
// function returns an error or panics, it is called again after 100 ms. This
// pause doubles with each failure, up to a minute, and is 100 ms again after a
// call that has lasted for a minute. A function that keeps failing for a minute
// is reported in /readyz. Once it has returned nil, it is not called again. Two
// controllers that read one channel get different keys: give each its own
// channel. [New] refuses an empty name and a nil source.
//
// At most 1,000 different keys of external triggers wait for a worker. Beyond
// that, sends to the channel and calls of enqueue block until there is room;
// enqueue returns an error if the controller stops. Keys also wait until this
// replica leads. With Options.Shards a replica drops the keys of shards that it
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
	f    func(ctx context.Context, enqueue func(Key) error) error // nil if the source is nil
}

// fromChannel sets f to a function that reads the channel.
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

// attach returns a binding whose run function calls the source. There is no
// handler to detach.
func (e external) attach(c *intake) binding {
	return binding{detach: func() {}, run: func(ctx context.Context) { e.run(ctx, c) }}
}

// run waits until the informers have stored their first lists. Then it calls
// the function until the function returns nil or ctx ends. It returns after the
// last call.
func (e external) run(ctx context.Context, c *intake) {
	for _, s := range c.sources {
		if s.Parts().WaitForStart(ctx) != nil {
			return
		}
	}
	calls := externalCalls{external: e, intake: c}
	var running sync.WaitGroup
	defer running.Wait()
	c.watchdog.spawn(&running, func(s *worker) bool {
		return (calls.pause == 0 || sleep(ctx, calls.pause)) && calls.call(ctx, s) != nil && ctx.Err() == nil
	})
}

// externalCalls calls the function of an external trigger.
type externalCalls struct {
	external

	intake *intake
	pause  time.Duration // the pause before the next call
}

// call calls the function, and logs and records its error.
func (c *externalCalls) call(ctx context.Context, s *worker) (err error) {
	err = guard.ErrGoexit
	call := &openCall{Context: ctx, description: fmt.Sprintf("the external trigger %q", c.name)}
	began := time.Now()
	c.intake.triggerFaults.begin(c.fault())
	s.begin(call)
	defer func() {
		s.end()
		if r := recover(); r != nil {
			err = guard.Panicked(r)
		}
		c.record(call, err, time.Since(began))
	}()
	err = c.f(ctx, func(key Key) error { return c.intake.external.add(ctx, c.intake, key, c.name) })
	if err != nil {
		err = printable(err)
	}
	return err
}

// record records the outcome of a call, and sets the pause before the next one.
func (c *externalCalls) record(call *openCall, err error, lasted time.Duration) {
	switch {
	case err == nil:
		c.intake.triggerFaults.succeeded(c.fault())
	case call.Err() == nil:
		klog.FromContext(call).Error(err, "external trigger failed, retrying",
			"controller", c.intake.name, "trigger", c.name)
		c.pause = min(2*c.pause, longestCallPause)
		if c.intake.triggerFaults.failed(c.fault(), call.subject(), err, lasted) {
			c.pause = firstCallPause
		}
	}
}

// fault returns the key under which failures of the trigger are recorded. It is
// not the name, because several triggers may have one name.
func (c *externalCalls) fault() faultKey { return faultKey{function: c} }

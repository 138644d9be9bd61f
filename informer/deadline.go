package informer

import (
	"context"
	"errors"
	"net/http/httptrace"
	"reflect"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/watch"
)

var (
	// errNoBookmark makes the reflector send a plain list instead of a streaming one.
	errNoBookmark = errors.New("the server has not sent the bookmark that ends a streaming list")
	// errNoAnswer ends a request without an answer.
	errNoAnswer = errors.New("the server has not answered in time")
	// errCutOff is why client-go returns a watch that has ended already.
	errCutOff = errors.New("the connection ended, or timed out, before the server answered")
)

// deadline ends a request that is not answered. Client-go sets none, and repeats
// requests inside of a call: so the time starts again with each of them.
type deadline struct {
	cancel context.CancelCauseFunc
	timer  *time.Timer
	met    atomic.Bool
}

// withDeadline returns a context that ends with errNoAnswer if a request is not
// answered within limit, or if the call does not end within rest of the first byte
// of an answer, which may ask to wait and try again. No rest means no limit.
func withDeadline(ctx context.Context, limit, rest time.Duration) (context.Context, *deadline) {
	ctx, cancel := context.WithCancelCause(ctx)
	d := &deadline{cancel: cancel}
	d.timer = time.AfterFunc(limit, func() {
		if !d.met.Load() {
			cancel(errNoAnswer)
		}
	})
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { d.timer.Reset(limit) },
		GotFirstResponseByte: func() {
			if d.timer.Stop(); rest > 0 {
				d.timer.Reset(rest)
			}
		},
	}), d
}

// meet ends the deadline, not the context.
func (d *deadline) meet() {
	d.met.Store(true)
	d.timer.Stop()
}

// end ends the context, too.
func (d *deadline) end() {
	d.meet()
	d.cancel(nil)
}

// limitedWatch ends the context of its request when it is stopped.
type limitedWatch struct {
	watch.Interface
	deadline *deadline
}

// Stop implements [watch.Interface].
func (w limitedWatch) Stop() {
	w.Interface.Stop()
	w.deadline.end()
}

// openInTime returns a watch that is open.
//
// Errors: that of open, errNoAnswer, or errCutOff.
func openInTime(ctx context.Context, o *Options, open func(context.Context) (watch.Interface, error)) (watch.Interface, error) {
	ctx, d := withDeadline(ctx, o.StreamIdle, o.WatchIdle)
	w, err := open(ctx)
	// Client-go returns an empty watch for a connection that ends time and again.
	empty := err == nil && reflect.TypeOf(w) == reflect.TypeOf(watch.NewEmptyWatch())
	switch {
	case err == nil && !empty:
		d.meet()
		return limitedWatch{w, d}, nil
	case errors.Is(context.Cause(ctx), errNoAnswer):
		err = errNoAnswer
	case empty:
		err = errCutOff
	}
	d.end()
	return nil, err
}

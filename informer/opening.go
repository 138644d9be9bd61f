package informer

import (
	"context"
	"errors"
	"net/http/httptrace"
	"reflect"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

var (
	// errNoAnswer ends a request that nothing has come of.
	errNoAnswer = errors.New("the server has not answered in time")
	// errCutOff is why client-go returns a watch that is over before it has begun.
	errCutOff = errors.New("the connection ended, or timed out, before the server answered")
)

// A deadline ends a request that is not answered. Client-go sets none, and repeats
// requests inside of a call: so it begins anew with each of them.
type deadline struct {
	cancel context.CancelCauseFunc
	timer  *time.Timer
	met    atomic.Bool
}

// until returns a context that ends with errNoAnswer if a request is not answered
// within limit, or if nothing follows within rest of the first byte of an answer:
// a server may ask to wait, and be asked again. No rest means no limit.
func until(ctx context.Context, limit, rest time.Duration) (context.Context, *deadline) {
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

// A limited watch ends its context when it is stopped.
type limited struct {
	watch.Interface
	deadline *deadline
}

// Stop implements [watch.Interface].
func (l limited) Stop() {
	l.Interface.Stop()
	l.deadline.end()
}

// isEmpty reports whether w is what client-go returns instead of an error when a
// connection ends or times out time and again.
func isEmpty(w watch.Interface) bool {
	return reflect.TypeOf(w) == reflect.TypeOf(watch.NewEmptyWatch())
}

// openInTime opens a watch, or gives up when the server does not answer. The
// reflector is told that a watch has ended, not that it could not be opened:
// else it would list anew, which cures nothing. A streaming list is another
// thing: a plain one may be possible.
func (r *reflection[T]) openInTime(ctx context.Context, opts metav1.ListOptions, p phase) (watch.Interface, error) {
	o := &r.informer.options
	limited, fault := r.tryOpening(ctx, opts, o.StreamIdle, o.WatchIdle)
	r.answered(ctx, fault)
	switch {
	case limited != nil:
		r.opened(limited, opts.TimeoutSeconds)
		return limited, nil
	case errors.Is(fault, errCutOff), errors.Is(fault, errNoAnswer) && p == phaseWatch:
		return watch.NewEmptyWatch(), nil
	default:
		return nil, fault
	}
}

// tryOpening returns a watch that is open, or why there is none.
func (r *reflection[T]) tryOpening(
	ctx context.Context, opts metav1.ListOptions, limit, rest time.Duration,
) (watch.Interface, error) {
	ctx, d := until(ctx, limit, rest)
	w, err := r.open(ctx, opts)
	switch {
	case err == nil && !isEmpty(w):
		d.meet()
		return limited{w, d}, nil
	case errors.Is(context.Cause(ctx), errNoAnswer):
		err = errNoAnswer
	case err == nil:
		err = errCutOff
	}
	d.end()
	return nil, err
}

package observer

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/examples/observe/internal/command"
	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/reconcile"
)

// A Runner runs programs. [command.Runner] implements it.
type Runner interface {
	Run(ctx context.Context, call command.Call) error
}

// A Getter reads one object from the server.
type Getter[T informer.Object] interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
}

type reconciler[T informer.Object] struct {
	options  *Options
	runner   Runner
	live     func(namespace string) Getter[T]
	memory   *memory
	counts   *counts
	progress Progress
	started  atomic.Bool
	tooMany  func()
}

// Reconcile runs the program for an object, or for its deletion.
func (r *reconciler[T]) Reconcile(ctx context.Context, request reconcile.Request[T]) (reconcile.Result, error) {
	if r.memory.hasUntried() && !r.started.Swap(true) {
		r.progress.begin()
	}
	object, found := request.Object()
	var delay time.Duration
	var err error
	if found {
		err = r.present(ctx, request.Key, object)
	} else {
		delay, err = r.deleted(ctx, request.Key)
	}
	if r.memory.markTried(request.Key) {
		r.progress.end()
	}
	if err == nil && !found && delay == 0 {
		r.memory.forget(request.Key)
	}
	if r.options.Once && ctx.Err() == nil {
		err = reconcile.Terminal(err)
	}
	if err == nil && delay > 0 {
		return reconcile.After(delay), nil
	}
	return reconcile.Result{}, err
}

func (r *reconciler[T]) present(ctx context.Context, key reconcile.Key, object T) error {
	v := version{uid: object.GetUID(), resourceVersion: object.GetResourceVersion()}
	t, retry := r.memory.begin(key, v)
	call, err := r.options.call(r.options.Each, t, key, v, object)
	if err != nil {
		r.counts.failures.Add(1)
		r.memory.end(key, true)
		return reconcile.Terminal(err) // only a change of the object can help
	}
	err = r.run(ctx, attempt{t, key, v, call, len(r.options.Each) > 0, retry})
	r.memory.end(key, err != nil)
	return err
}

// deleted runs the delete command, if there is one, after the server has
// confirmed the deletion. If the object still exists outside of the selection,
// deleted returns the delay before the server is asked again, because no event
// will report the object's deletion. The delay is 0, and the server is not
// asked again, if Options.Once is set, or if no program has run for the object.
func (r *reconciler[T]) deleted(ctx context.Context, key reconcile.Key) (delay time.Duration, err error) {
	if len(r.options.Delete) == 0 {
		return 0, nil
	}
	_, exists, err := names.Live(ctx, r.live(key.Namespace), key.Name)
	if err != nil {
		return 0, err
	}
	if exists {
		delay, isFirst := r.memory.markLeft(key)
		if isFirst {
			logr.FromContextOrDiscard(ctx).Info("the object exists outside of the selection, not running the delete command")
		}
		if r.options.Once {
			return 0, nil
		}
		return delay, nil
	}
	v, retry := r.memory.beginDelete(key)
	call, err := r.options.call(r.options.Delete, Deleted, key, v, nil)
	if err != nil {
		r.counts.failures.Add(1)
		r.memory.end(key, true)
		return 0, reconcile.Terminal(err)
	}
	err = r.run(ctx, attempt{Deleted, key, v, call, true, retry})
	r.memory.end(key, err != nil)
	if err == nil {
		r.counts.deletions.Add(1)
	}
	return 0, err
}

// An attempt is one run together with its immediate repetitions.
type attempt struct {
	Type
	key      reconcile.Key
	version  version
	call     command.Call
	runnable bool
	retry    bool
}

func (r *reconciler[T]) run(ctx context.Context, t attempt) error {
	r.counts.changes.WithLabelValues(string(t.Type)).Inc()
	r.progress.attempt(t.Type, t.key, t.version, t.call.Argv)
	if t.retry {
		r.counts.retries.Add(1)
	}
	if !t.runnable || r.options.DryRun {
		r.counts.runs.Add(1)
		return nil
	}
	err := r.options.repeat(func() error {
		began := time.Now()
		err := r.runner.Run(ctx, t.call)
		r.counts.ran(t.Type, err, time.Since(began))
		return err
	}, func(err error) {
		r.counts.retries.Add(1)
		sayRetry(ctx, err)
	})
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil: // the observer is stopping or no longer leads
		return err
	}
	r.counts.failures.Add(1)
	if errors.Is(err, command.ErrTooLarge) {
		return reconcile.Terminal(err) // only a change of the object can help
	}
	if failed := r.counts.errors.Add(1); r.options.MaxErrors != NoLimit && failed >= uint64(r.options.MaxErrors) {
		r.tooMany()
	}
	return err
}

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

// A Runner runs programs: a command.Runner.
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

// Reconcile runs the program that an object, or its end, asks for.
func (r *reconciler[T]) Reconcile(ctx context.Context, request reconcile.Request[T]) (reconcile.Result, error) {
	if r.memory.first() && !r.started.Swap(true) {
		r.progress.begin()
	}
	object, found := request.Object()
	var after time.Duration
	var err error
	if found {
		err = r.present(ctx, request.Key, object)
	} else {
		after, err = r.deleted(ctx, request.Key)
	}
	if r.memory.try(request.Key) {
		r.progress.end()
	}
	if err == nil && !found && after == 0 {
		r.memory.forget(request.Key)
	}
	if r.options.Once && ctx.Err() == nil {
		err = reconcile.Terminal(err)
	}
	if err == nil && after > 0 {
		return reconcile.After(after), nil
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
		return reconcile.Terminal(err) // it follows from the object
	}
	err = r.run(ctx, attempt{t, key, v, call, len(r.options.Each) > 0, retry})
	r.memory.end(key, err != nil)
	return err
}

// deleted runs the delete command, once the server has agreed. It asks again later
// about an object that has merely left the selection: its deletion will not be an
// event.
func (r *reconciler[T]) deleted(ctx context.Context, key reconcile.Key) (after time.Duration, err error) {
	if len(r.options.Delete) == 0 {
		return 0, nil
	}
	_, exists, err := names.Live(ctx, r.live(key.Namespace), key.Name)
	if err != nil {
		return 0, err
	}
	if exists {
		after, first := r.memory.left(key)
		if first {
			logr.FromContextOrDiscard(ctx).Info("not deleted: the object exists, though it is not, or no longer, observed")
		}
		if r.options.Once {
			return 0, nil
		}
		return after, nil
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

// An attempt is one run, and the immediate repetitions of it.
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
	case ctx.Err() != nil: // we are stopping, or no longer lead
		return err
	}
	r.counts.failures.Add(1)
	if errors.Is(err, command.ErrTooLarge) {
		return reconcile.Terminal(err) // it follows from the object
	}
	if failed := r.counts.errors.Add(1); r.options.MaxErrors != NoLimit && failed >= uint64(r.options.MaxErrors) {
		r.tooMany()
	}
	return err
}

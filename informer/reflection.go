package informer

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/homeostat/homeostat/internal/intern"
	"github.com/homeostat/homeostat/internal/wire"
)

// afterCalm is how long a watch must have lasted for the back-off to start anew.
const afterCalm = 2 * time.Minute

// A reflection carries what one source lists and watches into the store, by
// means of client-go's Reflector: for that it is the list-watcher on the one
// side and the store on the other.
type reflection[T Object] struct {
	informer *Informer[T]
	source   source
	log      logr.Logger
	synced   atomic.Bool
	calls    calls         // lists that the reflector has left behind
	arrived  atomic.Int64  // when something last came, in Unix nanoseconds
	received atomic.Int64  // objects of the list that is coming
	poked    chan struct{} // wakes the watchdog
	cancel   context.CancelFunc
	ended    chan struct{}            // closed when its goroutines have ended
	settle   func()                   // of the list that is not stored yet; the reflector's goroutine's
	misnamed bool                     // the server has not found the resource by its name; the reflector's goroutine's
	streamed map[any]wire.Fingerprint // specs of the objects of a streaming list, until that is stored; its, too

	mu       sync.Mutex // guards what follows
	progress progress
	specs    *wire.Specs // of the objects of the watch; nil if all are decoded. Written by the reflector's goroutine
	whole    string      // why they are
}

func (r *reflection[T]) run(ctx context.Context) {
	defer r.calls.wait()
	log, o := r.log, r.informer.options
	backoff := wait.Backoff{Duration: o.BackoffBase, Cap: o.BackoffCap, Steps: 1 << 10, Factor: 2, Jitter: 1}
	clock := newClock(ctx)
	reflector := cache.NewReflectorWithOptions(r, example[T](), r, cache.ReflectorOptions{
		Logger:  &log,
		Name:    r.informer.Name(),
		Backoff: &backoff,
		Clock:   clock,
	})
	reflector.WatchListPageSize = o.PageSize
	// The pauses end with ctx, so that the only error is ctx's.
	_ = backoff.DelayWithReset(clock, afterCalm).Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		if err := reflector.ListAndWatchWithContext(ctx); err != nil && ctx.Err() == nil {
			r.failed(ctx, err)
		}
		return false, nil
	})
}

// example returns what tells the reflector the type of the objects.
func example[T Object]() any {
	if t := reflect.TypeFor[T](); t.Kind() == reflect.Pointer {
		return reflect.New(t.Elem()).Interface()
	}
	return nil
}

// ListWithContext makes one request for a list, or a page of one.
func (r *reflection[T]) ListWithContext(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	if !r.calls.begin() {
		return nil, context.Cause(ctx)
	}
	defer r.calls.end()
	r.narrow(&opts)
	r.begin(phaseList)
	limit, d := until(ctx, r.informer.options.WatchIdle, 0)
	defer d.end()
	list, err := r.source.list(limit, opts)
	if err != nil && errors.Is(context.Cause(limit), errNoAnswer) {
		err = errNoAnswer
	}
	r.answered(ctx, err)
	if err != nil {
		return list, err
	}
	if r.source.lends {
		list = list.DeepCopyObject()
	}
	// Page by page, so that what is shared is garbage before the next one comes.
	return list, meta.EachListItem(list, func(obj runtime.Object) error {
		if object, ok := obj.(T); ok {
			r.edit(object)
			r.informer.shares(object)
		}
		return nil
	})
}

// WatchWithContext opens a watch, or a streaming list that goes on as a watch.
func (r *reflection[T]) WatchWithContext(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	r.narrow(&opts)
	phase := phaseWatch
	if opts.SendInitialEvents != nil && *opts.SendInitialEvents {
		if r.streamsInVain() {
			return nil, errNoBookmark
		}
		phase = phaseStream
	}
	r.begin(phase)
	r.streamed = map[any]wire.Fingerprint{}
	w, err := r.openInTime(ctx, opts, phase)
	if err == nil {
		r.settled()
	}
	return w, err
}

func (r *reflection[T]) narrow(opts *metav1.ListOptions) {
	opts.LabelSelector = r.informer.options.LabelSelector
	opts.FieldSelector = r.informer.options.FieldSelector
}

// List and Watch exist for the reflector's old interface alone.
func (r *reflection[T]) List(opts metav1.ListOptions) (runtime.Object, error) {
	return r.ListWithContext(context.Background(), opts)
}

// Watch exists for the reflector's old interface alone.
func (r *reflection[T]) Watch(opts metav1.ListOptions) (watch.Interface, error) {
	return r.WatchWithContext(context.Background(), opts)
}

// IsWatchListSemanticsUnSupported tells the reflector not to stream the list.
func (r *reflection[T]) IsWatchListSemanticsUnSupported() bool { return r.source.fake }

// Transformer is called by the reflector for each object of a streaming list as
// it comes.
func (r *reflection[T]) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) {
		r.received.Add(1)
		r.touch()
		it, err := r.own(obj)
		if err != nil {
			return nil, err
		}
		if it.spec != (wire.Fingerprint{}) {
			r.streamed[it.object] = it.spec
		}
		return it.object, nil
	}
}

// own returns obj as it may be kept: nobody else's, edited, and sharing what it
// has in common with the others.
func (r *reflection[T]) own(obj any) (*item[T], error) {
	object, spec, err := r.private(obj)
	if err != nil {
		return nil, err
	}
	r.informer.shares(object)
	it := itemOf(object)
	if spec != (wire.Fingerprint{}) && !intern.Lazy(object) { // or the next state would have the same memory
		it.spec = spec
	}
	return it, nil
}

// private returns obj with its type, not shared with a client, transformed, and the fingerprint
// of its spec, if that is known.
func (r *reflection[T]) private(obj any) (object T, spec wire.Fingerprint, err error) {
	object, ok := obj.(T)
	if !ok {
		return object, spec, fmt.Errorf("the server sent a %T, not a %s", obj, reflect.TypeFor[T]())
	}
	if object, spec, err = r.take(object); err != nil {
		return object, spec, err
	}
	if r.source.lends {
		object = object.DeepCopyObject().(T)
	}
	r.edit(object)
	return object, spec, nil
}

func (r *reflection[T]) edit(object T) {
	o := &r.informer.options
	if o.DropManagedFields {
		object.SetManagedFields(nil)
	}
	if o.Transform != nil {
		o.Transform(object)
	}
}

// Add stores an object that the watch calls new.
func (r *reflection[T]) Add(obj any) error { return r.Update(obj) }

// Update stores the new state of an object.
func (r *reflection[T]) Update(obj any) error {
	r.touch()
	it, err := r.own(obj)
	if err != nil {
		return err
	}
	r.informer.put(it)
	return nil
}

// Delete removes an object.
func (r *reflection[T]) Delete(obj any) error {
	r.touch()
	object, _, err := r.private(obj)
	if err != nil {
		return err
	}
	r.informer.drop(object)
	return nil
}

// Replace makes a list the whole content of the source's part of the store.
func (r *reflection[T]) Replace(list []any, version string) error {
	r.listed()
	items := make([]*item[T], 0, len(list))
	for _, obj := range list { // owned when they came
		object, ok := obj.(T)
		if !ok {
			return fmt.Errorf("the server sent a %T, not a %s", obj, reflect.TypeFor[T]())
		}
		it := itemOf(object)
		it.spec = r.streamed[object]
		items = append(items, it)
	}
	r.streamed = nil
	r.settle = func() {
		r.informer.replace(r.source.namespace, items, !r.synced.Load(), func() {
			r.informer.seen.advance(r.source.namespace, version, true)
			r.synced.Store(true)
			r.informer.handedOn()
		})
	}
	if !r.source.fake {
		r.settled()
	}
	return nil
}

// settled stores the list that has come last, and hands it on. The watches of a
// fake know no versions, so they are opened before: what a controller wrote
// between its first list and the watch would never come.
func (r *reflection[T]) settled() {
	if settle := r.settle; settle != nil {
		r.settle = nil
		settle()
	}
}

// Resync is not this store's job.
func (r *reflection[T]) Resync() error { return nil }

// Bookmark notes that the watch is alive; UpdateResourceVersion follows.
func (r *reflection[T]) Bookmark(string) error {
	r.touch()
	r.bookmarked()
	return nil
}

// UpdateResourceVersion notes how far the watch has come, after the store has
// what it brought.
func (r *reflection[T]) UpdateResourceVersion(version string) {
	r.informer.notice(func() { r.informer.seen.advance(r.source.namespace, version, false) })
}

func (r *reflection[T]) touch() { r.arrived.Store(time.Now().UnixNano()) }

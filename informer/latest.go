package informer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// busyKind is how long the watch of a kind with more objects than a page may
// take to come as far as the server is, before they are all listed.
const busyKind = time.Second

// Why WaitForLatest cannot know.
var (
	errWrapped = errors.New("a wrapped informer cannot ask how new the server is: make it with For")
	errEnded   = errors.New("the watch has ended")
)

// WaitForLatest returns when the cache is at least as new as the server was at
// the time of the call. The watch alone does not tell: that of a kind that
// nobody changes is silent for a minute.
//
// Shape: the objects are listed, page by page, and dropped when their versions
// have been compared; not all of them if the watch comes as far meanwhile.
//
// Errors: that of ctx, with what is missing; requests that fail are repeated. A
// wrapped informer fails at once.
func (i *Informer[T]) WaitForLatest(ctx context.Context) error { return i.waitForLatest(ctx, nil) }

// WaitForObject returns when the cache is, about the object of key, at least as
// new as the server was at the time of the call: it has the object then, or has
// none if the server has none in scope.
//
// Sends one request. A key outside the informer's namespaces needs none.
//
// Errors: as [Informer.WaitForLatest].
func (i *Informer[T]) WaitForObject(ctx context.Context, key types.NamespacedName) error {
	return i.waitForLatest(ctx, &key)
}

// waitForLatest waits for one object, or for all.
func (i *Informer[T]) waitForLatest(ctx context.Context, only *types.NamespacedName) error {
	pause := i.options.BackoffBase
	for {
		err := i.catchUpAll(ctx, only)
		if err == nil {
			return nil
		}
		final := errors.Is(err, errWrapped) || i.fault != nil
		if !final && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "how new the server is is not known, trying again",
				"informer", i.Name(), "retryIn", pause)
			i.pause(ctx, pause)
			pause = min(2*pause, i.options.BackoffCap)
		}
		if ctx.Err() != nil && !errors.Is(err, context.Cause(ctx)) {
			err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
		if final || ctx.Err() != nil {
			return fmt.Errorf("waiting until the cache of %s is as new as the server: %w", i.Name(), err)
		}
	}
}

func (i *Informer[T]) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

func (i *Informer[T]) catchUpAll(ctx context.Context, only *types.NamespacedName) error {
	if err := i.WaitForSync(ctx); err != nil {
		return err
	}
	watches, _ := i.watches()
	for _, r := range watches {
		if only != nil && r.source.namespace != "" && r.source.namespace != only.Namespace {
			continue
		}
		if r.source.follows != nil {
			return errWrapped
		}
		if err := r.catchUp(ctx, only); err != nil {
			return err
		}
	}
	return nil
}

// catchUp asks what there is, and waits until the watch has brought it.
func (r *reflection[T]) catchUp(ctx context.Context, only *types.NamespacedName) error {
	g := newGap(r, only)
	for {
		more, err := g.list(ctx)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		if g.pages == 1 && r.await(ctx, busyKind, g.reached) == nil {
			return nil
		}
	}
	g.compareGone()
	if err := r.await(ctx, 0, g.closed); err != nil {
		return fmt.Errorf("%d objects are not as at version %s: %w", len(g.behind), g.version, err)
	}
	return nil
}

// await looks every few milliseconds whether something is so, for no longer
// than limit if there is one.
func (r *reflection[T]) await(ctx context.Context, limit time.Duration, so func() bool) error {
	const often = 10 * time.Millisecond
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	ticker := time.NewTicker(often)
	defer ticker.Stop()
	for !so() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-r.ended:
			return errEnded
		case <-ticker.C:
		}
	}
	return nil
}

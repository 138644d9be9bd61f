package reconcile

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/internal/calls"
	"github.com/homeostat/homeostat/internal/guard"
	"github.com/homeostat/homeostat/internal/mark"
	"github.com/homeostat/homeostat/queue"
)

// intake is the part of a controller to which triggers add keys.
type intake struct {
	name    string
	queue   *queue.Queue[Key]
	sources sources // each informer once, the primary first
	owners  owners  // zero without a trigger made by Owned
	loops   loopDetector
	// references records what the objects of the controller refer to.
	references *referrers
	external   externalKeys
	watchdog   *watchdog
	// calls are the calls in progress of functions that must not block.
	calls calls.Calls
	// triggerFaults are the functions of triggers that fail.
	triggerFaults triggerFaults
	timeout       time.Duration // the time limit of a mapper's call
	ranged        bool          // whether informers may leave out the objects of other replicas' shards
}

// guarded calls f, which calls a function of the program about key. That
// function must not block: a call that hangs is reported as a problem of the
// controller. The error is the error of guard.Call.
func (c *intake) guarded(function string, key Key, f func()) error {
	call := c.calls.Begin(function, key)
	defer c.calls.End(call)
	return guard.Call(f)
}

// enqueue adds key as if its object had changed. trigger is the name of the
// source of the addition.
func (c *intake) enqueue(key Key, trigger string) { c.enqueueOf(key, trigger, "enqueued") }

// enqueueOf adds key as enqueue does, and records causeType as the type of the
// cause.
func (c *intake) enqueueOf(key Key, trigger, causeType string) {
	c.queue.AddWithOptions(key, queue.AddOptions{ResetBackoff: true, Cause: queue.Cause{
		Trigger: trigger, Type: causeType, Namespace: key.Namespace, Name: key.Name,
	}})
}

// enqueueBehind adds key with the lowest priority, after a delay. trigger and
// causeType describe the cause of the addition.
func (c *intake) enqueueBehind(key Key, trigger, causeType string, delay time.Duration) {
	c.queue.AddWithOptions(key, queue.AddOptions{Lane: queue.Background, After: delay, Cause: queue.Cause{
		Trigger: trigger, Type: causeType, Namespace: key.Namespace, Name: key.Name,
	}})
}

// owners finds the owners of an object among the objects of the controller. It
// looks for them in owner references and in the marks of
// children.Options.ByLabel.
type owners struct {
	kind, group string
	anyGroup    bool // the group is unknown, so owners of every group match
	namespaced  bool
}

// keyOf returns the key of child's owner, if that is an object of the
// controller. The owner is the one in the controller reference or, without one,
// in the mark.
func (o owners) keyOf(child metav1.Object) (Key, bool) {
	owner := metav1.GetControllerOfNoCopy(child)
	if owner == nil {
		marked, ok := mark.Of(child)
		return marked.NamespacedName, ok && marked.Name != "" && o.haveKind(marked.Group, marked.Kind) &&
			o.namespaced == (marked.Namespace != "")
	}
	group, _, found := strings.Cut(owner.APIVersion, "/")
	if !found {
		group = "" // "v1" is a version of the core group
	}
	if !o.haveKind(group, owner.Kind) {
		return Key{}, false
	}
	if !o.namespaced {
		return Key{Name: owner.Name}, true
	}
	// Garbage collection ignores a namespaced owner of a cluster-scoped child.
	return Key{Namespace: child.GetNamespace(), Name: owner.Name}, child.GetNamespace() != ""
}

// haveKind reports whether the owners are of this kind.
func (o owners) haveKind(group, kind string) bool {
	return kind == o.kind && (group == o.group || o.anyGroup)
}

// maxExternal is how many keys of external triggers may wait for a worker.
const maxExternal = 1000

// externalKeys bounds the keys of external triggers that wait for a worker.
type externalKeys struct {
	mu      sync.Mutex // guards the fields below
	waiting map[Key]struct{}
	left    chan struct{} // closed when there is room again; nil if no call is waiting
}

// add enqueues key once there is room for it. It returns an error if ctx ends
// before that.
func (r *externalKeys) add(ctx context.Context, c *intake, key Key, trigger string) error {
	for {
		if ctx.Err() != nil {
			return fmt.Errorf("enqueueing %q: %w", key, context.Cause(ctx))
		}
		left := r.enter(c, key, trigger)
		if left == nil {
			return nil
		}
		select {
		case <-ctx.Done():
		case <-left:
		}
	}
}

// enter enqueues key. If there is no room for it, it returns a channel that is
// closed when there may be room.
func (r *externalKeys) enter(c *intake, key Key, trigger string) (left chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.waiting[key]; !ok && len(r.waiting) >= maxExternal {
		if r.left == nil {
			r.left = make(chan struct{})
		}
		return r.left
	}
	if r.waiting == nil {
		r.waiting = map[Key]struct{}{}
	}
	r.waiting[key] = struct{}{}
	c.enqueue(key, trigger) // under the lock, or the key might be dispatched in between
	return nil
}

// dispatched makes room for another key, because key is no longer waiting.
func (r *externalKeys) dispatched(key Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.waiting, key)
	if r.left != nil {
		close(r.left)
		r.left = nil
	}
}

package reconcile

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/internal/turn"
	"github.com/homeostat/homeostat/queue"
)

// ErrTurnTimeout is the cause (context.Cause) of a turn that took longer than
// Options.TurnTimeout.
var ErrTurnTimeout = errors.New("the turn took longer than its timeout")

// A write is what the server answered to a turn's create, update or patch, or
// the object whose delete it accepted.
type write struct {
	object  metav1.Object
	before  metav1.Object // the cached state that it changed; nil if there was none
	deleted bool
}

// turnContext is the context of one turn: its deadline, its logger and the
// recorder of its writes in a single allocation. Timer and logger are made only
// when asked for.
type turnContext struct {
	parent   context.Context
	control  *Controller
	item     queue.Item[Key]
	deadline time.Time
	began    time.Time
	overdue  bool   // the caches have not seen the key's last writes
	number   uint64 // in the key's history, 0 if it is not remembered
	after    func(Attempt, error)
	reported *Attempt // for after

	mu     sync.Mutex // guards what follows
	inner  context.Context
	cancel context.CancelFunc
	ended  bool
	writes []write
}

func (t *turnContext) Deadline() (time.Time, bool) {
	if d, ok := t.parent.Deadline(); ok && d.Before(t.deadline) {
		return d, true
	}
	return t.deadline, true
}

func (t *turnContext) Done() <-chan struct{} {
	return t.timed().Done()
}

func (t *turnContext) Err() error {
	return t.timed().Err()
}

// timed is the context that carries the deadline, made at its first use.
func (t *turnContext) timed() context.Context {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.inner == nil {
		t.inner, t.cancel = context.WithDeadlineCause(t.parent, t.deadline, ErrTurnTimeout)
		if t.ended {
			t.cancel()
		}
	}
	return t.inner
}

// Value answers for the recorder and adds the turn's names to the logger; all
// else is the parent's, or the timed context's once there is one, so that
// contexts made from this one are cancelled without a goroutine each.
func (t *turnContext) Value(key any) any {
	if _, ok := key.(turn.Key); ok {
		return t
	}
	t.mu.Lock()
	from := t.inner
	t.mu.Unlock()
	if from == nil {
		from = t.parent
	}
	value := from.Value(key)
	if logger, ok := value.(logr.Logger); ok && logger.GetSink() != nil {
		return t.logger(logger)
	}
	return value
}

func (t *turnContext) logger(base logr.Logger) logr.Logger {
	key := t.item.Key()
	return base.WithValues("controller", t.control.name, "kind", t.control.kind,
		"namespace", key.Namespace, "name", key.Name, "attempt", t.item.Attempt(), "causes", describe(t.item.Causes()))
}

func (t *turnContext) Wrote(obj metav1.Object) {
	t.record(write{object: obj, before: t.control.cachedBefore(obj)})
}

func (t *turnContext) Deleted(obj metav1.Object) { t.record(write{object: obj, deleted: true}) }
func (t *turnContext) FieldManager() string      { return t.control.options.FieldManager }

func (t *turnContext) record(w write) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.writes = append(t.writes, w)
}

// end cancels what still uses the turn's context and returns its writes. Writes
// that are reported later are the next turn's business: they have no key to
// hold back.
func (t *turnContext) end() []write {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	if t.cancel != nil {
		t.cancel()
	}
	return t.writes
}

// Wrote reports that this turn has created or changed obj, as the server
// returned it: the controller's caches must have seen this before the next turn
// of the same key. Package patch reports its own writes; call Wrote after
// writing in another way. Outside a turn it does nothing.
func Wrote(ctx context.Context, obj metav1.Object) { turn.Wrote(ctx, obj) }

// Deleted reports that the server has accepted a delete of obj in this turn, as
// [Wrote] does for other writes. The caches have seen it when the object with
// that UID is gone or marked for deletion.
func Deleted(ctx context.Context, obj metav1.Object) { turn.Deleted(ctx, obj) }

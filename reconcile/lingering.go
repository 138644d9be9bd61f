package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/homeostat/homeostat/internal/parts"
	"github.com/homeostat/homeostat/queue"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// lingerAfter is how long a reconcile that fails may take before its key
// lingers. recheckAfter is how long a lingering key waits at most until it is
// checked again. It is a safety net: a key is normally released earlier.
const (
	lingerAfter  = 10 * time.Second
	recheckAfter = time.Minute
)

// lingering holds the keys that linger: their last reconcile failed after more
// than lingerAfter, or had not ended at its timeout. For example, the outside
// system of one tenant does not answer. At most half of the workers, but always
// at least one, reconcile such keys, so that the others are free for keys whose
// reconciles end. The remaining keys wait in the queue, so they do not block a
// worker. A change may have mended a key, so the keys with a change since their
// last reconcile take turns with the others: a person who corrects one of many
// addresses does not wait for all others.
type lingering struct {
	mu      sync.Mutex            // guards the fields below
	keys    map[Key][]queue.Cause // and the causes of their last reconciles
	running map[Key]time.Time     // lingering keys that are being reconciled, and when they no longer count
	waiting map[Key]turn
	// passed says that the last admitted key had a change, so that one without a
	// change is next.
	passed bool
}

// turn is the place of a key among the waiting ones.
type turn struct {
	since   time.Time // when the key began to wait
	checked time.Time // when it was last checked
	changed bool      // whether there is a change since the key's last reconcile
}

// lingerers returns how many lingering keys may be reconciled at once.
func (c *core) lingerers() int { return max(1, c.options.Workers/2) }

// admit reports whether key may be reconciled now. If so, leave must be called
// after the reconcile. Otherwise admit calls setAside, which puts the key back
// into the queue. It does so with the lock: once leave can return the key, it is
// in the queue, and a release takes effect. causes returns why the key was
// dispatched. limit is the number of lingering keys that may be reconciled at
// once. A reconcile that has not returned after longest does not count any more,
// because another worker has taken the place of its own.
func (l *lingering) admit(
	key Key, causes func() []queue.Cause, setAside func(), limit int, longest time.Duration,
) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	before, lingers := l.keys[key]
	if !lingers {
		return true
	}
	now := time.Now()
	free := l.free(limit, now)
	own, waits := l.waiting[key]
	if !waits {
		own.since = now
	}
	own.checked, own.changed = now, own.changed || hasNews(causes(), before)
	put(&l.waiting, key, own)
	if free <= 0 || !slices.Contains(l.first(free), key) {
		setAside()
		return false
	}
	l.passed = own.changed
	delete(l.waiting, key)
	put(&l.running, key, now.Add(longest))
	return true
}

// hasNews reports whether an object of causes has changed since the causes
// before.
func hasNews(causes, before []queue.Cause) bool {
	return slices.ContainsFunc(causes, func(c queue.Cause) bool {
		return c.NewVersion != "" && !slices.ContainsFunc(before, func(b queue.Cause) bool {
			return b.Trigger == c.Trigger && b.Namespace == c.Namespace && b.Name == c.Name && b.NewVersion == c.NewVersion
		})
	})
}

// free returns how many of the limit's places are free. mu must be held.
func (l *lingering) free(limit int, now time.Time) int {
	for _, until := range l.running {
		if now.Before(until) {
			limit--
		}
	}
	return limit
}

// withdraw gives up the turn of a key that waits for something else now, such
// as the first list of its namespace. If key had a turn, withdraw returns the
// same keys as leave.
func (l *lingering) withdraw(key Key, limit int) (next []Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, waits := l.waiting[key]; !waits {
		return nil
	}
	delete(l.waiting, key)
	return l.first(l.free(limit, time.Now()))
}

// isOver reports whether a waiting key has not been checked again for so long
// that it is hardly in the queue any more.
func (t turn) isOver(now time.Time) bool { return now.Sub(t.checked) > 2*recheckAfter }

func put[V any](m *map[Key]V, key Key, value V) {
	if *m == nil {
		*m = map[Key]V{}
	}
	(*m)[key] = value
}

// leave records that the reconcile of key has ended, and whether the key
// lingers now. causes returns why it was reconciled. If the key already lingered
// when it was admitted, its place is free now. leave then returns the keys that
// are next, one for each of the limit's places that is free. A key that was
// returned for an earlier place, and has not come yet, may be among them.
func (l *lingering) leave(key Key, lingers bool, causes func() []queue.Cause, limit int) (next []Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if lingers {
		put(&l.keys, key, causes())
	} else {
		delete(l.keys, key)
	}
	if _, counted := l.running[key]; !counted {
		return nil
	}
	delete(l.running, key)
	return l.first(l.free(limit, time.Now()))
}

// first returns at most n keys that are next, in order: those that have waited
// longest, with and without a change in turn. It forgets the keys that are not
// in the queue any more. mu must be held.
func (l *lingering) first(n int) (keys []Key) {
	changed, others := l.longest(n)
	for isChanged := !l.passed; len(keys) < n && len(changed)+len(others) > 0; isChanged = !isChanged {
		from := &others
		if isChanged && len(changed) > 0 || len(others) == 0 {
			from = &changed
		}
		keys, *from = append(keys, (*from)[0]), (*from)[1:]
	}
	return keys
}

// longest returns at most n keys with a change, and n without one, that have
// waited longest, in order. Keys that began to wait at the same time are in the
// order of their names, so that a key that leave has returned is also next when
// it comes. mu must be held.
func (l *lingering) longest(n int) (changed, others []Key) {
	now := time.Now()
	for waiting, t := range l.waiting {
		if t.isOver(now) {
			delete(l.waiting, waiting)
			continue
		}
		keys := &others
		if t.changed {
			keys = &changed
		}
		place, _ := slices.BinarySearchFunc(*keys, t.since, func(key Key, since time.Time) int {
			return cmp.Or(l.waiting[key].since.Compare(since), strings.Compare(key.String(), waiting.String()))
		})
		if place < n {
			*keys = slices.Insert(*keys, place, waiting)
			*keys = (*keys)[:min(len(*keys), n)]
		}
	}
	return changed, others
}

// forget forgets the keys for which moved reports true, because another replica
// has these keys now.
func (l *lingering) forget(moved func(Key) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key := range l.keys {
		if moved(key) {
			delete(l.keys, key)
			delete(l.waiting, key)
		}
	}
}

// oldest returns the number of waiting keys, and the one that has waited
// longest.
func (l *lingering) oldest() (key Key, since time.Time, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	changed, others := l.longest(1)
	for _, waiting := range append(changed, others...) {
		if t := l.waiting[waiting]; since.IsZero() || t.since.Before(since) {
			key, since = waiting, t.since
		}
	}
	return key, since, len(l.waiting)
}

// setAside ends an item without a reconcile. The key waits in the queue until
// it is released, for at most recheckAfter. Its failures stay recorded.
func (c *core) setAside(item queue.Item[Key]) {
	c.keep(item, queue.Retrying, recheckAfter)
	c.queue.Parts().Done(item.Key(), false)
}

// lingers reports whether the key of an attempt lingers.
func (t *reconcileContext) lingers(err error) bool {
	return err != nil && time.Since(t.began) >= lingerAfter ||
		context.Cause(t) == ErrReconcileTimeout //nolint:errorlint // the controller has set it
}

// lingerProblem returns a problem if keys have waited for a minute because too
// many linger.
func (c *Controller) lingerProblem() []inspect.Problem {
	key, since, n := c.lingering.oldest()
	if n == 0 || time.Since(since) < recheckAfter {
		return nil
	}
	return []inspect.Problem{{
		Check: parts.ControllerCheck(c.name), Object: strings.TrimPrefix(key.String(), "/"), Cause: "slow failures",
		Since: since, More: n - 1,
		Reason: fmt.Sprintf("its reconcile fails only after more than %v, so the key waits: at most %d of %d workers "+
			"reconcile such keys at once", lingerAfter, c.lingerers(), c.options.Workers),
		Remedy: "find out what its reconcile waits for, and let that fail sooner, for example with a deadline for each call",
	}}
}

package reconcile

import (
	"container/list"
	"slices"
	"sync"
	"time"

	"github.com/homeostat/homeostat/reconcile/inspect"
)

// The bounds of a controller's memory.
const (
	historyKeys   = 500              // keys with a history
	historyLength = 20               // attempts of a key
	historyWatch  = 10 * time.Minute // how long a call of History records everything
)

// histories remember the last attempts of some keys. Its methods are safe for
// concurrent use.
type histories struct {
	mu    sync.Mutex // guards byKey and its values, and order
	byKey map[Key]*keyHistory
	order list.List // the values of byKey, that which was touched last at the back
}

// keyHistory has the last attempts of one key.
type keyHistory struct {
	key      Key
	place    *list.Element     // in order
	attempts []inspect.Attempt // a ring once it is full: number modulo its length
	number   uint64            // of attempts ever
	watched  time.Time         // until when attempts without an effect have their causes recorded
}

// History returns the last reconciles of key, the oldest first, at most 20, and
// none if key is not remembered. The slice is the caller's; its Causes and Writes
// are shared, do not modify them.
//
// A controller remembers 500 keys. A reconcile that wrote or failed, and a call of
// History, make room for a key that is not remembered: they replace the history
// whose last reconcile, or call of History, is oldest. Other reconciles replace
// none, and their causes are recorded only during the 10 minutes after a call of
// History for their key.
func (c *Controller) History(key Key) []inspect.Attempt {
	h := &c.histories
	h.mu.Lock()
	defer h.mu.Unlock()
	k := h.of(key, true)
	k.watched = time.Now().Add(historyWatch)
	first := int(k.number % uint64(max(len(k.attempts), 1))) //nolint:gosec // less than 20
	if len(k.attempts) < historyLength {
		first = 0
	}
	return slices.Concat(k.attempts[first:], k.attempts[:first])
}

// add remembers an attempt, whose item must not have ended, and returns its
// number, or 0 if it is not remembered.
func (h *histories) add(t *reconcileContext, took time.Duration, writes []write, err error) uint64 {
	eventful := len(writes) > 0 || err != nil || t.overdue
	h.mu.Lock()
	defer h.mu.Unlock()
	k := h.of(t.item.Key(), eventful)
	if k == nil {
		return 0
	}
	a := t.describe(took, writes, err)
	if eventful || k.watched.After(t.began) {
		a.Causes = t.item.Causes()
	}
	if len(k.attempts) < historyLength {
		k.attempts = append(k.attempts, a)
	} else {
		k.attempts[k.number%historyLength] = a
	}
	k.number++
	return k.number
}

// of returns the history of key. It makes one if there is room, and if force is
// set removes for it the one that was touched longest ago.
func (h *histories) of(key Key, force bool) *keyHistory {
	k := h.byKey[key]
	switch {
	case k != nil:
		h.order.MoveToBack(k.place)
		return k
	case len(h.byKey) < historyKeys:
	case force:
		delete(h.byKey, h.order.Remove(h.order.Front()).(*keyHistory).key)
	default:
		return nil
	}
	if h.byKey == nil {
		h.byKey = map[Key]*keyHistory{}
	}
	k = &keyHistory{key: key}
	k.place = h.order.PushBack(k)
	h.byKey[key] = k
	return k
}

// ended records how an attempt ended.
func (h *histories) ended(key Key, number uint64, o inspect.Outcome) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if k := h.byKey[key]; k != nil && 0 < number && number <= k.number && k.number < number+historyLength {
		k.attempts[(number-1)%historyLength].Outcome = o
	}
}

// seen records that the caches have seen the last writes of key.
func (h *histories) seen(key Key) {
	h.mu.Lock()
	defer h.mu.Unlock()
	k := h.byKey[key]
	if k == nil {
		return
	}
	for i := range k.attempts {
		a := &k.attempts[(k.number-1-uint64(i))%historyLength] //nolint:gosec // less than 20
		if len(a.Writes) > 0 {
			a.Seen = time.Now()
			return
		}
	}
}

// maxWritesKept bounds the writes that an inspect.Attempt lists.
const maxWritesKept = 10

// describe returns the attempt, without its causes and outcome.
func (t *reconcileContext) describe(took time.Duration, writes []write, err error) inspect.Attempt {
	a := inspect.Attempt{
		Key: t.item.Key(), Number: t.item.Attempt(), Start: t.began, Took: took, Overdue: t.overdue,
		MoreWrites: max(len(writes)-maxWritesKept, 0),
	}
	for _, w := range writes[:len(writes)-a.MoreWrites] {
		a.Writes = append(a.Writes, inspect.Write{
			Kind: kindOf(w.object), Namespace: w.object.GetNamespace(), Name: w.object.GetName(),
			ResourceVersion: w.object.GetResourceVersion(), Deleted: w.deleted,
		})
	}
	if err != nil {
		a.Failure = summaryOf(err)
	}
	return a
}

package reconcile

import (
	"container/list"
	"sync"
	"time"

	"github.com/homeostat/homeostat/reconcile/inspect"
)

// These are the limits of the history that a controller records.
const (
	historyKeys   = 500              // the most keys that have a history
	historyLength = 20               // the most attempts in the history of a key
	historyWatch  = 10 * time.Minute // how long all causes are recorded after a call of History
)

// histories records the last attempts of some keys. Its methods are safe for
// concurrent use.
type histories struct {
	mu    sync.Mutex // guards byKey and its values, and order
	byKey map[Key]*keyHistory
	order list.List // the values of byKey, the most recently used at the back
}

// keyHistory has the last attempts of one key.
type keyHistory struct {
	key      Key
	place    *list.Element     // its place in histories.order
	attempts []inspect.Attempt // once it is full, attempt n is at index (n-1) % historyLength
	number   uint64            // the number of attempts so far
	watched  time.Time         // the time until which the causes of attempts without writes or errors are recorded, too
}

// get returns the history of key. If the key has no history and there is room,
// it makes one. If there is no room and force is set, it replaces the history
// that was used longest ago.
func (h *histories) get(key Key, force bool) *keyHistory {
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

// seen records, in the last attempt of key that has written, that the caches
// have now seen its writes.
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

package reconcile

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/homeostat/homeostat/internal/redact"
	"github.com/homeostat/homeostat/queue"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// maxFailures bounds the keys whose last error is kept. The errors of further
// keys are only in the log.
const maxFailures = 1000

// verdict is how an attempt ended. The Error method of err does not panic.
type verdict struct {
	outcome inspect.Outcome
	err     error
	wait    time.Duration // the delay that the reconciler or the server asked for; 0 if neither did
	stale   bool          // whether err is a conflict that only shows that the cache is late
	repeat  bool          // whether the reconciler has returned an After of less than firstPause
	// loop describes the hot loop that the key is in until loopUntil. It is
	// empty if the key is not in a hot loop.
	loop      string
	loopUntil time.Time
	writes    []write // the writes of the attempt
}

// reason returns one line about why an attempt is repeated.
func (v verdict) reason(repeats int) string {
	if v.err != nil {
		return redact.Error(v.err)
	}
	return fmt.Sprintf("the reconciler asked to be called again at once, %d times in a row", repeats)
}

// failures holds the errors of keys whose last reconcile failed. Its methods
// are safe for concurrent use.
type failures struct {
	mu    sync.Mutex // guards byKey
	byKey map[Key]failure
}

// failure describes how the last reconcile of a key failed.
type failure struct {
	text      string
	failedAt  time.Time
	terminal  bool
	conflicts int             // number of conflicts in a row
	quiet     bool            // whether it is a conflict that is repeated quietly, and so neither counted nor shown
	errorID   uint64          // identifies the error, see errorOf; 0 without an error, and while quiet
	missing   *permission     // the permission that a refused write lacks, or nil
	allowed   map[string]bool // namespaces in which writes of the refused kind succeeded
	announced bool            // whether an Event about the missing permission was sent
	began     time.Time       // when the key began to fail with this error, or because of this missing permission
	loopUntil time.Time       // when the hot loop ends; zero if the failure is not a hot loop
	errors    repetition
}

// repetition counts the errors of a key since its last success. A change of the
// object does not reset the count, although it resets item.Attempt.
type repetition struct {
	lastID  uint64 // identifies the last error, as failure.errorID does
	count   int
	changes int  // how often an error differed from the previous one
	changed bool // whether the last error differed from the previous one
}

// add counts an error.
func (r *repetition) add(errorID uint64) {
	r.count++
	r.changed = errorID != r.lastID
	if r.changed {
		r.lastID = errorID
		r.changes++
	}
}

// isOver reports whether the failure was a hot loop that has ended.
func (f *failure) isOver(now time.Time) bool { return !f.loopUntil.IsZero() && now.After(f.loopUntil) }

// note records the verdict on an attempt. It returns how many conflicts, or
// results of an After of less than firstPause, there were in a row. Call it
// before the item ends, because after that the key may be dispatched again.
func (f *failures) note(item queue.Item[Key], v verdict) (repeats int) {
	key := item.Key()
	failed := failure{failedAt: time.Now(), terminal: v.outcome == inspect.GaveUp}
	switch {
	case v.stale: // counted here, because a change of the object resets item.Attempt
		failed.conflicts = f.conflicts(key) + 1
		repeats = max(failed.conflicts, item.Attempt())
	case v.repeat:
		repeats = item.Attempt()
	}
	switch {
	case v.stale && repeats <= quickRepeats:
		failed.quiet, failed.failedAt = true, time.Time{}
	case v.err != nil, v.repeat && repeats > quickRepeats:
		failed.text = v.reason(repeats)
		if v.err != nil {
			if failed.missing = missingPermission(v.err); failed.missing != nil {
				failed.allowed = failed.missing.allowedNamespaces(v.writes)
			}
			failed.began = failed.failedAt
			failed.errorID = errorOf(key, failed.text)
		}
	case v.loop != "":
		failed.text, failed.loopUntil = redact.Text(v.loop), v.loopUntil
	default:
		f.drop(key)
		return repeats
	}
	f.put(key, failed)
	return repeats
}

// conflicts returns how many conflicts in a row the key has had.
func (f *failures) conflicts(key Key) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.byKey[key].conflicts
}

// put records that the last reconcile of key failed, unless too many other keys
// have failed.
func (f *failures) put(key Key, failed failure) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byKey == nil {
		f.byKey = map[Key]failure{}
	}
	previous, ok := f.byKey[key]
	if failed.isSame(&previous) {
		failed.began = previous.began
	}
	if failed.missing.isSame(previous.missing) {
		failed.announced = previous.announced
		failed.keepAllowed(&previous)
	}
	failed.errors = previous.errors
	if failed.errorID != 0 {
		failed.errors.add(failed.errorID)
	}
	if ok || len(f.byKey) < maxFailures {
		f.byKey[key] = failed
	}
}

// isSame reports whether a failure has the same reason as the previous one: the
// same missing permission or, if no permission is missing, the same error.
func (f *failure) isSame(previous *failure) bool {
	if f.missing != nil || previous.missing != nil {
		return f.missing.isSame(previous.missing)
	}
	return f.errorID != 0 && f.errorID == previous.errorID
}

// keepAllowed adds the namespaces of previous.allowed, unless writes are
// refused there now. They must be kept because a reconcile does not repeat
// writes that have succeeded, so it cannot find these namespaces again.
func (f *failure) keepAllowed(previous *failure) {
	for namespace := range previous.allowed {
		if !slices.Contains(f.missing.namespaces, namespace) {
			f.allowed[namespace] = true
		}
	}
}

// announce returns a text about the permission that the writes of key have
// lacked for at least refusedFor. It returns "" if they have not lacked one for
// that long, or if it has returned the text already.
func (f *failures) announce(key Key) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	failed, ok := f.byKey[key]
	if !ok || failed.missing == nil || failed.announced || time.Since(failed.began) < refusedFor {
		return ""
	}
	failed.announced = true
	f.byKey[key] = failed
	return fmt.Sprintf("the API server refuses to %s; %s", failed.missing, failed.missing.remedy(failed.allowed))
}

// isMilestone reports whether the last error of key should be logged. The first
// three errors of a key are logged, and then each one that doubles the number
// of errors. An error that differs from the previous one is logged by the same
// rule, applied to the number of such changes. If the errors of the key are not
// recorded, attempt stands for their number.
func (f *failures) isMilestone(key Key, attempt int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.byKey[key].errors
	if r.count == 0 {
		return doubled(attempt)
	}
	return doubled(r.count) || r.changed && doubled(r.changes)
}

// doubled reports whether n is 1, 2, 3, 4, 8, 16 and so on.
func doubled(n int) bool { return n <= alwaysLogged || n&(n-1) == 0 }

// drop deletes the failure of key after a successful reconcile.
func (f *failures) drop(key Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.byKey, key)
}

// forget deletes the failures of keys for which moved reports true, because
// another replica has these keys now.
func (f *failures) forget(moved func(Key) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.byKey, func(key Key, _ failure) bool { return moved(key) })
}

// count returns how many keys fail. Keys that are repeated quietly are not
// counted.
func (f *failures) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, now := 0, time.Now()
	for key, failed := range f.byKey {
		switch {
		case failed.isOver(now):
			delete(f.byKey, key)
		case !failed.quiet:
			n++
		}
	}
	return n
}

// join returns the entries of a queue with their failures, followed by keys
// that gave up, the latest failure first. If there are more than limit keys,
// keys that gave up are left out.
func (f *failures) join(entries []queue.EntryStatus[Key], limit int) []inspect.KeyStatus {
	f.mu.Lock()
	defer f.mu.Unlock()
	keys := make([]inspect.KeyStatus, 0, len(entries))
	queued := make(map[Key]bool, len(entries))
	now := time.Now()
	for _, e := range entries {
		queued[e.Key] = true
		failed := f.byKey[e.Key]
		if failed.isOver(now) {
			failed = failure{}
		}
		keys = append(keys, inspect.KeyStatus{EntryStatus: e, Failure: failed.text, FailedAt: failed.failedAt})
	}
	var resting []*inspect.KeyStatus // pointers: code that sorts large structs is large itself
	for key, failed := range f.byKey {
		if failed.terminal && !queued[key] {
			resting = append(resting, &inspect.KeyStatus{
				EntryStatus: queue.EntryStatus[Key]{Key: key}, Resting: true, Failure: failed.text, FailedAt: failed.failedAt,
			})
		}
	}
	slices.SortFunc(resting, func(a, b *inspect.KeyStatus) int {
		return cmp.Or(b.FailedAt.Compare(a.FailedAt), cmp.Compare(a.Key.String(), b.Key.String()))
	})
	for _, k := range resting[:min(len(resting), max(limit-len(keys), 0))] {
		keys = append(keys, *k)
	}
	return keys
}

// refusal is a missing permission, with the keys whose writes were refused
// because of it.
type refusal struct {
	permission *permission
	allowed    map[string]bool // namespaces in which writes with this permission succeed
	keys       []Key           // the refused keys, sorted
	began      time.Time
}

// refused returns the permissions that have been missing since start or longer,
// in sorted order.
func (f *failures) refused(start time.Time) []refusal {
	f.mu.Lock()
	defer f.mu.Unlock()
	byPermission := map[string]*refusal{}
	for key, failed := range f.byKey {
		if failed.missing == nil || failed.began.After(start) {
			continue
		}
		text := failed.missing.String()
		r := byPermission[text]
		if r == nil {
			r = &refusal{permission: failed.missing, began: failed.began, allowed: map[string]bool{}}
			byPermission[text] = r
		}
		r.keys = append(r.keys, key)
		maps.Copy(r.allowed, failed.allowed)
		if failed.began.Before(r.began) {
			r.began = failed.began
		}
	}
	refusals := make([]refusal, 0, len(byPermission))
	for _, permission := range slices.Sorted(maps.Keys(byPermission)) {
		r := byPermission[permission]
		slices.SortFunc(r.keys, func(a, b Key) int { return cmp.Compare(a.String(), b.String()) })
		refusals = append(refusals, *r)
	}
	return refusals
}

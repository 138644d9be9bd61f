package reconcile

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/homeostat/homeostat/internal/redact"
	"github.com/homeostat/homeostat/queue"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// maxFailures bounds the keys whose last error is kept. The errors of further
// keys are only in the log.
const maxFailures = 1000

const (
	// firstPause is the pause before the first repetition of an attempt that has
	// not failed: after a conflict of a stale cache, or After(0). It doubles.
	firstPause = 50 * time.Millisecond
	// quickRepeats is how many such attempts in a row are repeated quickly and
	// without a log line. Later ones back off like failures.
	quickRepeats = 3
)

// verdict is how an attempt ended. The Error method of err does not panic.
type verdict struct {
	outcome inspect.Outcome
	err     error
	wait    time.Duration // the exact delay; 0 means the back-off, or no retry
	stale   bool          // a conflict that only shows that the cache is late
	again   bool          // After(0)
	// loop is the hot loop that the key is in, if any, until it is over.
	loop      string
	loopUntil time.Time
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
	at        time.Time
	terminal  bool
	conflicts int       // conflicts in a row
	quiet     bool      // it is not counted or shown unless it is repeated
	same      uint64    // identifies the error, see errorOf; 0 without an error
	missing   string    // the permission without which a write was refused
	since     time.Time // when the first of these failures in a row was
	until     time.Time // when a hot loop ends; zero for other failures
	errors    repetition
}

// repetition counts the errors of a key since its last success. A change of the
// object does not end that, although it resets item.Attempt.
type repetition struct {
	last    uint64 // identifies the last error, as failure.same does
	count   int
	changes int  // how often an error differed from the one before
	changed bool // the last one did
}

// add counts an error.
func (r *repetition) add(same uint64) {
	r.count++
	r.changed = same != r.last
	if r.changed {
		r.last = same
		r.changes++
	}
}

// isOver reports whether it was a hot loop that has ended.
func (f *failure) isOver(now time.Time) bool { return !f.until.IsZero() && now.After(f.until) }

// note records the verdict on an attempt, and returns how many conflicts, or
// results of After(0), there were in a row. Call it before the item ends,
// because after that the key may be dispatched again.
func (f *failures) note(item queue.Item[Key], v verdict) (repeats int) {
	key := item.Key()
	failed := failure{at: time.Now(), terminal: v.outcome == inspect.GaveUp}
	switch {
	case v.stale: // counted here, because a change of the object resets item.Attempt
		failed.conflicts = f.conflicts(key) + 1
		repeats = max(failed.conflicts, item.Attempt())
	case v.again:
		repeats = item.Attempt()
	}
	switch {
	case v.stale && repeats <= quickRepeats:
		failed.quiet, failed.at = true, time.Time{}
	case v.err != nil, v.again && repeats > quickRepeats:
		failed.text = v.reason(repeats)
		if v.err != nil {
			failed.missing, failed.since = missingPermission(v.err), failed.at
			failed.same = errorOf(key, failed.text)
		}
	case v.loop != "":
		failed.text, failed.until = redact.Text(v.loop), v.loopUntil
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

// put records the failure of key, unless too many other keys have failed.
func (f *failures) put(key Key, failed failure) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byKey == nil {
		f.byKey = map[Key]failure{}
	}
	before, ok := f.byKey[key]
	if before.missing != "" && failed.missing != "" {
		failed.since = before.since
	}
	failed.errors = before.errors
	if failed.same != 0 {
		failed.errors.add(failed.same)
	}
	if ok || len(f.byKey) < maxFailures {
		f.byKey[key] = failed
	}
}

// isMilestone reports whether the last error of key is worth a line of the log:
// it is one of the first of its key, the number of errors has doubled, or it is
// another error than before, which counts in the same way. Attempt decides for a
// key whose errors are not kept.
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
func doubled(n int) bool { return n <= everyAttempt || n&(n-1) == 0 }

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

// join returns the entries of a queue with their failures, followed by the keys
// that gave up. It returns at most limit keys.
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
		keys = append(keys, inspect.KeyStatus{EntryStatus: e, Failure: failed.text, FailedAt: failed.at})
	}
	var resting []*inspect.KeyStatus // pointers: code that sorts large structs is large itself
	for key, failed := range f.byKey {
		if failed.terminal && !queued[key] {
			resting = append(resting, &inspect.KeyStatus{
				EntryStatus: queue.EntryStatus[Key]{Key: key}, Resting: true, Failure: failed.text, FailedAt: failed.at,
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

// forbiddenWrite matches the API server's message about a missing permission.
var forbiddenWrite = regexp.MustCompile( //nolint:gochecknoglobals // compiled once

	`cannot (create|update|patch|delete|deletecollection) resource "([^"]+)" in API group "([^"]*)"` +
		`(?: in the namespace "([^"]*)")?`)

// missingPermission returns the permission without which a write failed. For
// example, `patch deployments.apps in namespace "default"`. It returns "" if
// err has another reason.
func missingPermission(err error) string {
	found := forbiddenWrite.FindStringSubmatch(err.Error())
	if found == nil {
		return ""
	}
	verb, resource, group, namespace := found[1], found[2], found[3], found[4]
	what, subresource, _ := strings.Cut(resource, "/")
	if group != "" {
		what += "." + group
	}
	if subresource != "" {
		what += "/" + subresource
	}
	if namespace == "" {
		return verb + " " + what + " at the cluster scope"
	}
	return fmt.Sprintf("%s %s in namespace %q", verb, what, namespace)
}

// refusal is a missing permission, with the keys whose writes were refused
// because of it.
type refusal struct {
	permission string
	keys       []Key // sorted
	since      time.Time
}

// refused returns the permissions that have been missing since a point in time
// or longer, in sorted order.
func (f *failures) refused(before time.Time) []refusal {
	f.mu.Lock()
	defer f.mu.Unlock()
	byPermission := map[string]*refusal{}
	for key, failed := range f.byKey {
		if failed.missing == "" || failed.since.After(before) {
			continue
		}
		r := byPermission[failed.missing]
		if r == nil {
			r = &refusal{permission: failed.missing, since: failed.since}
			byPermission[failed.missing] = r
		}
		r.keys = append(r.keys, key)
		if failed.since.Before(r.since) {
			r.since = failed.since
		}
	}
	all := make([]refusal, 0, len(byPermission))
	for _, permission := range slices.Sorted(maps.Keys(byPermission)) {
		r := byPermission[permission]
		slices.SortFunc(r.keys, func(a, b Key) int { return cmp.Compare(a.String(), b.String()) })
		all = append(all, *r)
	}
	return all
}

package reconcile

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/internal/parts"
	"github.com/homeostat/homeostat/internal/redact"
	"github.com/homeostat/homeostat/internal/simhook"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

const (
	// logWindow is the time in which keys that fail with the same error are
	// counted.
	logWindow = time.Minute
	// fewKeys is how many keys with the same error are logged one by one in a
	// window.
	fewKeys = 3
	// maxErrors bounds the number of different errors whose keys are counted in
	// a window. Keys with further errors are logged one by one.
	maxErrors = 100
	// alwaysLogged is how many errors of a key are logged before the log skips
	// some.
	alwaysLogged = 3
)

// failureLog logs failed reconciles without repeating one cause thousands of
// times. A key is logged at its errors 1, 2, 3, 4, 8, 16 and so on since its
// last success, and at the same numbers of errors that differ from the previous
// one. If more than a few keys fail with the same error, they share one line a
// minute, with their number and examples. All other attempts are logged at
// V(1).
type failureLog struct {
	mu     sync.Mutex
	groups map[uint64]*sameError
	ended  bool
}

// sameError collects the keys that have failed with one error in the current
// window.
type sameError struct {
	keys      map[Key]struct{}
	examples  []string
	hasMany   bool // the previous window had more than a few keys, so the keys of this window are not logged one by one
	lastError error
	log       logr.Logger
	window    *time.Timer
}

// failed logs an attempt that has failed with err.
func (l *failureLog) failed(t *reconcileContext, err error, message string) {
	milestone := t.control.failures.isMilestone(t.item.Key(), t.item.Attempt())
	if simhook.Current() != nil { // reconciletest looks for errors after the last write, so a change restarts the count
		milestone = doubled(t.item.Attempt())
	}
	if l.count(t, err) && milestone {
		klog.FromContext(t).Error(err, message)
	} else {
		klog.FromContext(t).V(1).Info(message, "err", err)
	}
}

// count adds the key to the keys with the same error. It reports whether the
// key should be logged on its own: only a few keys have the error in this
// window, and only a few had it in the previous one. It also reports true for
// an error whose keys are not counted, because there are too many errors, or
// because end was called.
func (l *failureLog) count(t *reconcileContext, err error) bool {
	key := t.item.Key()
	id := errorOf(key, redact.Error(err))
	l.mu.Lock()
	defer l.mu.Unlock()
	group := l.groups[id]
	if group == nil {
		if l.ended || len(l.groups) >= maxErrors {
			return true
		}
		group = &sameError{keys: map[Key]struct{}{}, log: klog.FromContext(t.parent).WithValues(
			"controller", t.control.name, "kind", t.control.primary.Kind())}
		group.window = time.AfterFunc(logWindow, func() { l.closeWindow(id) })
		if l.groups == nil {
			l.groups = map[uint64]*sameError{}
		}
		l.groups[id] = group
	}
	group.lastError = err
	if _, ok := group.keys[key]; !ok {
		group.keys[key] = struct{}{}
		if len(group.examples) < fewKeys {
			group.examples = append(group.examples, strings.TrimPrefix(key.String(), "/"))
		}
	}
	return !group.hasMany && len(group.keys) <= fewKeys
}

// closeWindow ends a window. If its keys were not logged one by one,
// closeWindow logs them together, and opens the next window. Otherwise the next
// key with this error opens one.
func (l *failureLog) closeWindow(id uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	group := l.groups[id]
	if group == nil {
		return
	}
	if !group.report() {
		delete(l.groups, id)
		return
	}
	group.hasMany = len(group.keys) > fewKeys
	clear(group.keys)
	group.examples = nil
	group.window.Reset(logWindow)
}

// report logs the keys of the window, unless each was logged on its own. It
// reports whether it has logged them.
func (s *sameError) report() bool {
	if len(s.keys) == 0 || !s.hasMany && len(s.keys) <= fewKeys {
		return false
	}
	s.log.Error(s.lastError, "many keys fail with the same error",
		"keys", len(s.keys), "examples", strings.Join(s.examples, ", "))
	return true
}

// end closes all windows, so that every counted key is logged.
func (l *failureLog) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	for _, group := range l.groups {
		group.window.Stop()
		group.report()
	}
	clear(l.groups)
}

// errorOf returns a number that identifies the error of a key. The errors of
// two keys have the same number if their texts differ only in words that begin
// with a digit, in identifiers of requests, in the names and the namespaces of
// the keys, and in words that begin with the name of the key and a hyphen. For
// example, "creating shop-a-tls: timeout after 3s" of key shop-a and "creating
// shop-b-tls: timeout after 5s" of key shop-b are the same error.
func errorOf(key Key, text string) uint64 {
	hash := fnv.New64a()
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool {
		return r != '-' && r != '.' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}) {
		switch {
		case word == key.Namespace, word == key.Name, strings.HasPrefix(word, key.Name+"-"):
			word = "name"
		case word[0] >= '0' && word[0] <= '9':
			word = "number"
		default:
			word = withoutID(word)
		}
		_, _ = hash.Write([]byte(word))
		_, _ = hash.Write([]byte{0})
	}
	return hash.Sum64()
}

// withoutID returns word with "number" in the place of its end, from the first
// part on that looks like an identifier: at least eight hexadecimal digits, with
// a digit from 0 to 9 in this part or behind it. Clouds put such an identifier
// of the request into each of their errors, so no two texts would be the same.
// For example, the word req-9cb5bdb2-57b0-4d2b becomes "req-number".
func withoutID(word string) string {
	start := 0
	for part := range strings.SplitSeq(word, "-") {
		if len(part) >= 8 && strings.Trim(part, "0123456789abcdefABCDEF") == "" &&
			strings.ContainsAny(word[start:], "0123456789") {
			return word[:start] + "number"
		}
		start += len(part) + 1
	}
	return word
}

// shared describes an error that several keys have.
type shared struct {
	example failure // the failure of the key that has had the error for the longest time
	key     Key     // the key of example; the first by name if several keys have had the error for that time
	keys    int
}

// add counts a key that has the error. The key becomes the example if it has
// had the error for longer than the example so far.
func (s *shared) add(key Key, failed *failure) {
	s.keys++
	if s.keys == 1 || isEarlier(key, failed, s.key, &s.example) {
		s.key, s.example = key, *failed
	}
}

// isEarlier reports whether key has failed for longer than otherKey. If both
// have failed for the same time, the first one by name counts as the earlier
// one.
func isEarlier(key Key, failed *failure, otherKey Key, other *failure) bool {
	return cmp.Or(failed.began.Compare(other.began), cmp.Compare(key.String(), otherKey.String())) < 0
}

// mostCommon returns the error that the largest number of keys have. It ignores
// missing permissions, which are reported as problems of their own. The example
// is the same in each call as long as that key has the error: an example that
// changed from one reading of /readyz to the next would look like a new fault.
func (f *failures) mostCommon() shared {
	f.mu.Lock()
	defer f.mu.Unlock()
	byError := map[uint64]*shared{}
	for key, failed := range f.byKey {
		if failed.errorID == 0 || failed.missing != nil {
			continue
		}
		s := byError[failed.errorID]
		if s == nil {
			s = &shared{}
			byError[failed.errorID] = s
		}
		s.add(key, &failed)
	}
	var largest shared
	for _, s := range byError {
		if s.keys > largest.keys || s.keys == largest.keys && isEarlier(s.key, &s.example, largest.key, &largest.example) {
			largest = *s
		}
	}
	return largest
}

// sharedError returns one problem if the controller is working and many keys
// fail with the same error, and nil otherwise.
func (c *Controller) sharedError() []inspect.Problem {
	const manyKeys = 10
	common := c.failures.mostCommon()
	if common.keys < manyKeys || c.Phase() != inspect.Working {
		return nil
	}
	return []inspect.Problem{{
		Check: parts.ControllerCheck(c.name), Cause: "same error",
		Reason: fmt.Sprintf("%d of %d keys fail with the same error, the first since %s, for example %s: %s", common.keys,
			c.ownedKeys(), common.example.began.UTC().Format(time.RFC3339), strings.TrimPrefix(common.key.String(), "/"),
			common.example.text),
		Since: common.example.began,
	}}
}

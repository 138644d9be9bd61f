package observer

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/reconcile"
)

// Type is the type of the change for which a program runs. It compares the
// object with its state at the last successful run. For example, an object that
// was created after the start is added until a run has succeeded for it.
type Type string

// The types of change.
const (
	Sync    Type = "Sync"    // unchanged, or in the first list and not successful yet
	Added   Type = "Added"   // new or recreated, and not successful yet
	Updated Type = "Updated" // the program has succeeded for an earlier version
	Deleted Type = "Deleted"
)

// version is one state of one object.
type version struct {
	uid             types.UID
	resourceVersion string
}

// memory records the runs of programs. It is safe for concurrent use.
type memory struct {
	mu       sync.Mutex // guards the fields below
	keys     map[reconcile.Key]*record
	keyCount uint64                 // the number of records created so far
	initial  map[reconcile.Key]bool // objects of the first list; the value is true once an object was tried
	untried  int                    // number of objects of the first list that have not been tried
}

type record struct {
	tried, succeeded version
	failing          bool
	reconciled       bool // the reconciler was called after the object left, so leavers no longer enqueues the key
	asked            int  // number of questions to the server since the object left the selection
}

// The delays between checks whether an object that has left the selection still
// exists. Each delay is twice as long as the one before.
const (
	firstQuestionDelay = time.Second
	maxQuestionDelay   = 5 * time.Minute
)

func newMemory() *memory {
	return &memory{keys: map[reconcile.Key]*record{}, initial: map[reconcile.Key]bool{}}
}

// listed records an object of the first list.
func (m *memory) listed(key reconcile.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.initial[key]; !ok {
		m.initial[key] = false
		m.untried++
	}
}

// record returns the record of a key, and creates it if necessary.
func (m *memory) record(key reconcile.Key) *record {
	r := m.keys[key]
	if r == nil {
		r = &record{}
		m.keys[key] = r
		m.keyCount++
	}
	return r
}

// begin records the start of a run for v. It returns the type of change, and
// whether the last run has failed.
func (m *memory) begin(key reconcile.Key, v version) (t Type, retry bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.record(key)
	r.tried, r.asked, r.reconciled = v, 0, false
	_, initial := m.initial[key]
	switch {
	case r.succeeded == v:
		t = Sync
	case r.succeeded.uid == v.uid && v.uid != "":
		t = Updated
	case initial && r.succeeded == version{}:
		t = Sync
	default:
		t = Added
	}
	return t, r.failing
}

// markLeft records that an object exists on the server but has left the
// selection. It returns the delay before the server is asked about the object
// again, and whether this was the first question. If no program has run for the
// object, the delay is 0, and initial is true.
func (m *memory) markLeft(key reconcile.Key) (delay time.Duration, initial bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.keys[key]
	if r == nil || r.tried == (version{}) {
		return 0, true
	}
	r.reconciled = true
	return r.ask(), r.asked == 1
}

// ask counts a question to the server, and returns the delay before the next
// question.
func (r *record) ask() (delay time.Duration) {
	r.asked++
	return min(firstQuestionDelay<<min(r.asked-1, 10), maxQuestionDelay)
}

// question returns the delay before the server is asked again about an object
// that has left the cache. It returns false if that is not needed, because the
// reconciler has been called for the object, or because no program has run for
// it.
func (m *memory) question(key reconcile.Key) (delay time.Duration, open bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.keys[key]
	if r == nil || r.reconciled || r.tried == (version{}) {
		return 0, false
	}
	return r.ask(), true
}

// beginDelete records the start of a delete command. It returns the state of
// the object for which a program last ran, and whether that run failed.
func (m *memory) beginDelete(key reconcile.Key) (tried version, retry bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.record(key)
	r.reconciled = true
	return r.tried, r.failing
}

// end records the result of a run.
func (m *memory) end(key reconcile.Key, failed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.record(key)
	if r.failing = failed; !failed {
		r.succeeded = r.tried
	}
}

// forget removes the records of a key. The object was deleted, or it has left
// the selection and its key is not enqueued again.
func (m *memory) forget(key reconcile.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.keys, key)
	delete(m.initial, key)
}

// hasUntried reports whether objects of the first list have not been tried yet.
func (m *memory) hasUntried() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.untried > 0
}

// markTried records that a key was tried, and reports whether all objects of
// the first list have now been tried.
func (m *memory) markTried(key reconcile.Key) (completed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if tried, ok := m.initial[key]; !ok || tried {
		return false
	}
	m.initial[key] = true
	m.untried--
	return m.untried == 0
}

func (m *memory) keysKnown() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.keyCount
}

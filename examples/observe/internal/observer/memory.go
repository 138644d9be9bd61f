package observer

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/reconcile"
)

// Type is why a program runs, compared with its last run.
type Type string

// The types of change.
const (
	Sync    Type = "Sync"    // the object was there at the start, or nothing has changed
	Added   Type = "Added"   // the program has not succeeded for it yet
	Updated Type = "Updated" // it has, for an earlier version
	Deleted Type = "Deleted"
)

// version is one state of one object.
type version struct {
	uid             types.UID
	resourceVersion string
}

// memory records the runs of programs. It is safe for concurrent use.
type memory struct {
	mu      sync.Mutex // guards the fields below
	keys    map[reconcile.Key]*record
	known   uint64                 // keys that there have been
	initial map[reconcile.Key]bool // objects of the first list; true once tried
	untried int                    // objects of the first list that have not been tried
}

type record struct {
	tried, succeeded version
	failing          bool
	told             bool // the reconciler has been called without the object, and retries by itself
	asked            int  // how often the server has been asked since the object left the selection
}

// The interval between checks whether an object that has left the selection still
// exists; it doubles each time.
const (
	firstQuestion = time.Second
	mostQuestions = 5 * time.Minute
)

func newMemory() *memory {
	return &memory{keys: map[reconcile.Key]*record{}, initial: map[reconcile.Key]bool{}}
}

// listed notes an object of the first list.
func (m *memory) listed(key reconcile.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.initial[key]; !ok {
		m.initial[key] = false
		m.untried++
	}
}

// of returns the record of a key, and creates it if necessary.
func (m *memory) of(key reconcile.Key) *record {
	r := m.keys[key]
	if r == nil {
		r = &record{}
		m.keys[key] = r
		m.known++
	}
	return r
}

// begin returns the type of change that a run for v is about, and whether the last run
// has failed.
func (m *memory) begin(key reconcile.Key, v version) (t Type, retry bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.of(key)
	r.tried, r.asked, r.told = v, 0, false
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

// left records that an object exists without being observed. It returns when to ask for
// it again, 0 if it never was observed here, and whether this is the first time.
func (m *memory) left(key reconcile.Key) (after time.Duration, first bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.keys[key]
	if r == nil || r.tried == (version{}) {
		return 0, true
	}
	r.told = true
	return r.ask(), r.asked == 1
}

// ask returns when to ask again.
func (r *record) ask() (after time.Duration) {
	r.asked++
	return min(firstQuestion<<min(r.asked-1, 10), mostQuestions)
}

// question returns when to ask again about an object that has left the cache, and false
// if the reconciler knows, or never observed it here.
func (m *memory) question(key reconcile.Key) (after time.Duration, open bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.keys[key]
	if r == nil || r.told || r.tried == (version{}) {
		return 0, false
	}
	return r.ask(), true
}

// beginDelete returns the last state that was tried, and whether that failed.
func (m *memory) beginDelete(key reconcile.Key) (last version, retry bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.of(key)
	r.told = true
	return r.tried, r.failing
}

// end notes how a run ended.
func (m *memory) end(key reconcile.Key, failed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.of(key)
	if r.failing = failed; !failed {
		r.succeeded = r.tried
	}
}

// forget drops a key whose object was deleted.
func (m *memory) forget(key reconcile.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.keys, key)
	delete(m.initial, key)
}

// first reports whether objects of the first list are still to be tried.
func (m *memory) first() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.untried > 0
}

// try records that a key has been tried, and reports whether this was the last of the
// first list.
func (m *memory) try(key reconcile.Key) (last bool) {
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
	return m.known
}

package record

import (
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/clock"
)

// LeavingAnnotation marks a member that releases its slots and takes no new
// ones.
const LeavingAnnotation = "leader.homeostat.dev/leaving"

// LoadAnnotation holds the number of objects in a member's slots, if slots are
// ranges.
const LoadAnnotation = "leader.homeostat.dev/load"

// Parts are the methods of leader.Elector that package shard needs.
type Parts interface {
	// Join makes the elector hold the Lease of a member of shards. Call it
	// before Run.
	Join(m *Member)
}

// Member describes an elector that holds the Lease of a member of shards. The
// Lease has labels, an annotation while the member is leaving, and a holder
// with a new name in each term. A nil Member describes a plain elector. A
// Member is safe for concurrent use after Join.
type Member struct {
	// Verbs are the verbs on leases that the client may need.
	Verbs string
	// Timing contains the durations of the elector, and Process is the holder's
	// name without the number of the term. Join sets both.
	Timing  Timing
	Process string

	labels  map[string]string
	terms   int
	leaving atomic.Bool
	load    atomic.Pointer[string]
	nudge   chan struct{}
	cut     atomic.Pointer[func() time.Time]
}

// Timing holds the durations and the clock of a member's elector, with defaults
// applied.
type Timing struct {
	LeaseDuration  time.Duration
	RequestTimeout time.Duration
	AnswerTimeout  time.Duration // the time limit for reading or writing a record
	RetryPeriod    time.Duration
	Clock          clock.Clock
}

// NewMember returns a member whose Lease has the given labels. verbs are the
// verbs on leases that its client may need, for error messages.
func NewMember(verbs string, labels map[string]string) *Member {
	return &Member{Verbs: verbs, labels: labels, nudge: make(chan struct{}, 1)}
}

// Join connects the member with its elector: it sets Process and Timing. It
// returns the name under which the elector holds slots in the first term.
func (m *Member) Join(process string, t Timing) string {
	m.Process, m.Timing = process, t
	return m.NextHolder()
}

// NextHolder returns the holder's name in the next term. No name is used twice.
// So the name in the record of a slot shows whether its term has ended.
func (m *Member) NextHolder() string {
	m.leaving.Store(false)
	m.terms++
	return fmt.Sprintf("%s.%d", m.Process, m.terms)
}

// HasTerm reports whether holder is the name of a term of this process. The
// work of an earlier term has returned, so its slots can be taken without
// waiting.
func (m *Member) HasTerm(holder string) bool {
	return m != nil && strings.HasPrefix(holder, m.Process+".")
}

// Mark sets the labels and annotations of the member in a Lease that is about
// to be written.
func (m *Member) Mark(lease *coordinationv1.Lease) {
	if m == nil {
		return
	}
	if lease.Labels == nil {
		lease.Labels = map[string]string{}
	}
	maps.Copy(lease.Labels, m.labels)
	m.annotate(lease)
}

func (m *Member) annotate(lease *coordinationv1.Lease) {
	delete(lease.Annotations, LeavingAnnotation)
	delete(lease.Annotations, LoadAnnotation)
	load := m.load.Load()
	if lease.Annotations == nil && (m.leaving.Load() || load != nil) {
		lease.Annotations = map[string]string{}
	}
	if m.leaving.Load() {
		lease.Annotations[LeavingAnnotation] = "true"
	}
	if load != nil {
		lease.Annotations[LoadAnnotation] = *load
	}
}

// Publish sets the value of LoadAnnotation. It is written with the next
// renewal.
func (m *Member) Publish(load string) { m.load.Store(&load) }

// Leave marks the member as leaving and has its Lease renewed immediately.
func (m *Member) Leave() {
	m.leaving.Store(true)
	select {
	case m.nudge <- struct{}{}:
	default:
	}
}

// Nudged returns a channel that receives a value when the Lease should be
// renewed immediately.
func (m *Member) Nudged() <-chan struct{} {
	if m == nil {
		return nil
	}
	return m.nudge
}

// Begin is called when a term begins. cut returns the time after which a
// request that was cut off in this term can no longer arrive.
func (m *Member) Begin(cut func() time.Time) {
	if m != nil {
		m.cut.Store(&cut)
	}
}

// CutUntil returns the time after which a request that was cut off in the last
// term can no longer arrive. It returns the zero time if no request was cut
// off.
func (m *Member) CutUntil() time.Time {
	if cut := m.cut.Load(); cut != nil {
		return (*cut)()
	}
	return time.Time{}
}

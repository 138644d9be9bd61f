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

// LeavingAnnotation marks a member that releases its slots and takes no more.
const LeavingAnnotation = "leader.homeostat.dev/leaving"

// LoadAnnotation has how many objects the slots of a member have, if slots are ranges.
const LoadAnnotation = "leader.homeostat.dev/load"

// Parts are what package shard needs of a leader.Elector.
type Parts interface {
	// Join makes the elector the one of a member of shards. Call it before Run.
	Join(m *Member)
}

// Member makes an elector the one of a member of shards. Its Lease has labels, a
// mark while the member is leaving, and a holder with a new name in each term. Nil
// is a plain elector. It is safe for concurrent use once it has joined.
type Member struct {
	// Verbs are what the client may need on leases.
	Verbs string
	// Timing and Process are set by Join. Process is the holder's name without
	// the number of the term.
	Timing  Timing
	Process string

	labels  map[string]string
	terms   int
	leaving atomic.Bool
	load    atomic.Pointer[string]
	nudge   chan struct{}
	cut     atomic.Pointer[func() time.Time]
}

// Timing is how the elector of a member measures time, its defaults applied.
type Timing struct {
	LeaseDuration  time.Duration
	RequestTimeout time.Duration
	AnswerTimeout  time.Duration // within which a record is read or written
	RetryPeriod    time.Duration
	Clock          clock.Clock
}

// NewMember returns a member whose Lease has the labels.
func NewMember(verbs string, labels map[string]string) *Member {
	return &Member{Verbs: verbs, labels: labels, nudge: make(chan struct{}, 1)}
}

// Join completes the member when an elector joins it, and returns the holder of
// its first term.
func (m *Member) Join(process string, t Timing) string {
	m.Process, m.Timing = process, t
	return m.NextHolder()
}

// NextHolder returns the name of the next term. No name is used twice, so that
// the name on a slot shows whether its term has ended.
func (m *Member) NextHolder() string {
	m.leaving.Store(false)
	m.terms++
	return fmt.Sprintf("%s.%d", m.Process, m.terms)
}

// Was reports whether holder is a term of this process. If it is an earlier
// one, its work has returned and need not be waited for.
func (m *Member) Was(holder string) bool {
	return m != nil && strings.HasPrefix(holder, m.Process+".")
}

// Mark gives a Lease that is about to be written the labels and annotations of
// the member.
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

// Publish sets the text that the Lease has as LoadAnnotation from its next renewal on.
func (m *Member) Publish(load string) { m.load.Store(&load) }

// Leave marks the member as leaving and has its Lease renewed at once.
func (m *Member) Leave() {
	m.leaving.Store(true)
	select {
	case m.nudge <- struct{}{}:
	default:
	}
}

// Nudged returns a channel that receives when the Lease is to be renewed at
// once.
func (m *Member) Nudged() <-chan struct{} {
	if m == nil {
		return nil
	}
	return m.nudge
}

// Begin is called when a term begins; cut returns until when a request of this
// term that was cut off may still arrive.
func (m *Member) Begin(cut func() time.Time) {
	if m != nil {
		m.cut.Store(&cut)
	}
}

// CutUntil returns until when a request of the last term that was cut off may
// still arrive; zero if there is none.
func (m *Member) CutUntil() time.Time {
	if cut := m.cut.Load(); cut != nil {
		return (*cut)()
	}
	return time.Time{}
}

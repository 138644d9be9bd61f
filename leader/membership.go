package leader

import (
	"fmt"
	"maps"
	"strings"
	"sync/atomic"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// membership is what the Lease of a member of shards has beyond that of an
// elector: labels, a mark when it is leaving, and a holder that is new in each
// term. All methods work on nil, which is a plain elector.
type membership struct {
	process string // the holder's name without the number of the term
	labels  map[string]string
	terms   int
	leaving atomic.Bool
	nudge   chan struct{}
}

// leavingAnnotation marks a member that gives up its slots and takes no more.
const leavingAnnotation = "leader.homeostat.dev/leaving"

func newMembership(process string, labels map[string]string) *membership {
	return &membership{process: process, labels: labels, nudge: make(chan struct{}, 1)}
}

// holder is the name of the next term. A name is never used twice: whoever
// finds it on a slot can tell whether that term is over.
func (m *membership) holder() string {
	m.terms++
	return fmt.Sprintf("%s.%d", m.process, m.terms)
}

// was tells whether a holder is an earlier term of this process. Its work has
// returned, so that it need not be waited for.
func (m *membership) was(holder string) bool {
	return m != nil && strings.HasPrefix(holder, m.process+".")
}

func (m *membership) mark(lease *coordinationv1.Lease) {
	if m == nil {
		return
	}
	if lease.Labels == nil {
		lease.Labels = map[string]string{}
	}
	maps.Copy(lease.Labels, m.labels)
	delete(lease.Annotations, leavingAnnotation)
	if m.leaving.Load() {
		if lease.Annotations == nil {
			lease.Annotations = map[string]string{}
		}
		lease.Annotations[leavingAnnotation] = "true"
	}
}

// leave tells the others at once.
func (m *membership) leave() {
	m.leaving.Store(true)
	select {
	case m.nudge <- struct{}{}:
	default:
	}
}

func (m *membership) nudged() <-chan struct{} {
	if m == nil {
		return nil
	}
	return m.nudge
}

// nextTerm gives the holder of the next term its name.
func (e *Elector) nextTerm() {
	if e.member == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.holder = e.member.holder()
	e.member.leaving.Store(false)
}

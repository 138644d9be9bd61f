package operator

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/reference"
)

const (
	// maxNotes is how many different notes about the same thing become Events
	// of their own at once. One more may follow in each seriesPeriod. Both bound
	// the Events of a program whose notes differ each time, for example because
	// they contain a duration.
	maxNotes = 10
	// seriesPeriod is the time after which client-go ends a series of Events.
	seriesPeriod = 6 * time.Minute
	// sweepSize is the number of topics below which no old topic is forgotten.
	sweepSize = 1000
	// markPrefix begins a mark. No action of a program contains it.
	markPrefix = "\x00"
	// furtherNotes is the mark of all notes that become no Events of their own.
	furtherNotes = markPrefix
)

// distinguishing is a recorder whose Events are of one series only if they have
// the same note. client-go takes Events for one series if they are about the
// same object and related object, with the same type, reason and action, and
// sends only the note of the first. So it would never send "quota exceeded"
// after "image not found". Since its key contains the action, distinguishing
// appends the note to the action, as a mark. The sink takes the mark off. After
// maxNotes different notes, all further ones are of one series.
type distinguishing struct {
	events.EventRecorder

	mu    sync.Mutex // guards the fields below
	notes map[topic]*topicNotes
	kept  int // number of notes that were left when the old ones were last forgotten
}

// topic is what the Events of one series have in common for client-go, apart
// from the related object.
type topic struct {
	object               corev1.ObjectReference
	kind, reason, action string
}

// topicNotes are the different notes about a topic.
type topicNotes struct {
	// free is when maxNotes new notes may become Events at once again. Each one
	// that does moves it by a seriesPeriod.
	free  time.Time
	texts map[string]time.Time // the notes with Events, and when they were last recorded
}

// areOver reports whether all series about the topic have ended, and maxNotes
// new notes may become Events.
func (n *topicNotes) areOver(now time.Time) bool {
	for _, last := range n.texts {
		if now.Sub(last) < seriesPeriod {
			return false
		}
	}
	return !n.free.After(now)
}

// Eventf implements [events.EventRecorder]. It adds a mark to the action, to keep
// Events with different notes apart.
func (d *distinguishing) Eventf(
	regarding, related runtime.Object, kind, reason, action, note string, args ...any,
) {
	note = fmt.Sprintf(note, args...)
	if object, err := reference.GetReference(scheme.Scheme, regarding); err == nil {
		about := topic{*object, kind, reason, action}
		about.object.ResourceVersion = ""
		action += d.mark(about, note)
	}
	d.EventRecorder.Eventf(regarding, related, kind, reason, action, "%s", note)
}

// mark returns the mark of a note.
func (d *distinguishing) mark(about topic, note string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	known, now := d.notes[about], time.Now()
	if known == nil {
		d.forget(now)
		known = &topicNotes{texts: map[string]time.Time{}}
		d.notes[about] = known
	}
	if last, found := known.texts[note]; !found || now.Sub(last) >= seriesPeriod {
		if known.free.Before(now) {
			known.free = now
		}
		if known.free.Sub(now) > (maxNotes-1)*seriesPeriod {
			return furtherNotes
		}
		known.free = known.free.Add(seriesPeriod)
		maps.DeleteFunc(known.texts, func(_ string, last time.Time) bool { return now.Sub(last) >= seriesPeriod })
	}
	known.texts[note] = now
	return markPrefix + note
}

// forget forgets the notes of ended series once there are sweepSize topics, and
// twice as many as were left the last time. So a program whose objects all get
// an Event within a seriesPeriod does not look at all notes for each of them.
// mu must be held.
func (d *distinguishing) forget(now time.Time) {
	if len(d.notes) < max(sweepSize, 2*d.kept) {
		return
	}
	for about, known := range d.notes {
		if known.areOver(now) {
			delete(d.notes, about)
		}
	}
	d.kept = len(d.notes)
}

// unmarked returns a copy of an Event without the mark in its action.
func unmarked(e *eventsv1.Event) *eventsv1.Event {
	plain := *e
	plain.Action, _, _ = strings.Cut(e.Action, markPrefix)
	return &plain
}

// marked returns the server's answer about an Event with the mark, and with the
// texts as they were before they were made to fit, so that client-go finds the
// Event again.
func marked(answer, sent *eventsv1.Event) *eventsv1.Event {
	if answer == nil {
		return nil
	}
	again := *answer
	again.Action, again.Reason, again.ReportingInstance = sent.Action, sent.Reason, sent.ReportingInstance
	return &again
}

package informer

import (
	"time"

	"github.com/homeostat/homeostat/informer/internal/requests"
)

// mute describes the last watches of a source if they were silent for their
// whole life and outlived their timeout. One such watch may have lost its
// connection. After a second one in a row it is likely that something between
// the program and the server, such as a proxy with a buffer, delivers no events.
type mute struct {
	watches int
	start   time.Time // when the first of these watches was opened
}

// proven reports whether several watches in a row were mute.
func (m mute) proven() bool { return m.watches > 1 }

// delivered reports whether the last watch has delivered data. mu must be held.
func (p *progress) delivered() bool { return p.deliveries.Load() > p.request.deliveredBefore }

// outlived reports whether the last request is a watch that has ended after its
// timeout and has delivered nothing. mu must be held.
func (p *progress) outlived() bool {
	r := &p.request
	return r.phase == phaseWatch && !r.opened.IsZero() && !r.deadline.IsZero() && !p.delivered() &&
		!r.ended.Before(r.deadline)
}

// endedMute is like outlived, for callers that do not hold mu.
func (p *progress) endedMute() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.outlived()
}

// noteMute records, before the next request, whether the last request was a mute
// watch. A watch without data that its server has ended in time is not mute,
// because no object may have changed. A watch that broke off early proves
// nothing. mu must be held.
func (p *progress) noteMute() {
	r := &p.request
	switch {
	case r.phase != phaseWatch || r.opened.IsZero():
	case p.outlived():
		if p.mute.watches++; p.mute.watches == 1 {
			p.mute.start = r.opened
		}
	case p.delivered(), !r.deadline.IsZero() && !r.ended.Before(r.deadline.Add(-requests.EndGrace-requests.TimelyEnd)):
		p.mute = mute{}
	}
}

// lastData returns when data was last received, or zero. Opening a watch counts
// as data, unless the watches before it were mute.
func (p *progress) lastData() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mute.watches > 0 && !p.delivered() {
		return p.mute.start
	}
	return p.lastActivity()
}

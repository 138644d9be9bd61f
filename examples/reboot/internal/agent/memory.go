package agent

import (
	"time"

	"github.com/homeostat/homeostat/examples/reboot/internal/drain"
	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
)

// memory is what this start of the agent has seen of one reboot. Its times are
// compared with others of this process only. Without it nothing goes wrong:
// deadlines begin anew, and a question whose age is not known is asked again.
type memory struct {
	request   protocol.Request
	accepted  time.Time // by the node's clock: a request may be accepted twice in one epoch
	drain     *drain.Drain
	began     time.Time // the drain
	passed    time.Time // the last pass began
	asked     time.Time // before the last question was written
	until     time.Time // when the permission ends
	called    time.Time // the machine was told to reboot, and has not refused that
	refusal   error     // by the machine, until it is written
	refused   time.Time // when it was
	wrote     time.Time // in-progress
	left      string    // the Pods, when they were logged
	returned  string    // Pods, when they were reported
	lostShown bool
}

// remember returns the memory of the reboot, which is empty for another than
// before.
func (a *Agent) remember(p protocol.Progress) *memory {
	if a.memory == nil || a.memory.request != p.Request || !a.memory.accepted.Equal(p.AcceptedAt.Time) {
		a.memory = &memory{
			request: p.Request, accepted: p.AcceptedAt.Time, drain: drain.New(a.pods, a.options.Node), began: time.Now(),
		}
	}
	return a.memory
}

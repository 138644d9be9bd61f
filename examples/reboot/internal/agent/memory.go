package agent

import (
	"time"

	"github.com/homeostat/homeostat/examples/reboot/internal/drain"
	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
)

// memory contains the facts about one reboot that only this run of the agent
// knows. Its times, except for accepted, are compared only with other times of
// this process. If the agent restarts, the memory is lost: deadlines begin
// again, and the agent asks the controller again, because it does not know how
// old its last question is.
type memory struct {
	request   protocol.Request
	accepted  time.Time // when the agent accepted the reboot, by the node's clock; it may accept twice in one epoch
	drain     *drain.Drain
	began     time.Time // when the agent made this memory; the time limit of the drain counts from then
	passed    time.Time // when the last pass over the Pods began
	asked     time.Time // the time just before the last question was written
	expires   time.Time // when the permission ends
	called    time.Time // when the machine was told to reboot; zero if it was not told, or if its refusal is on the node
	refusal   error     // why the machine was not rebooted, such as its refusal, until it is written to the node
	refused   time.Time // when the last refusal was written to the node
	wrote     time.Time // when in-progress was last written
	left      string    // the Pods that were left after the last pass, as text
	returned  string    // up to three Pods that the last pass found to be created after the cordon, as text
	lostShown bool      // whether lost has reported the machine
}

// remember returns the memory of the reboot p. It creates a new memory if p is
// not the reboot that the agent remembers.
func (a *Agent) remember(p protocol.Progress) *memory {
	if a.memory == nil || a.memory.request != p.Request || !a.memory.accepted.Equal(p.AcceptedAt.Time) {
		a.memory = &memory{
			request: p.Request, accepted: p.AcceptedAt.Time, drain: drain.New(a.pods, a.options.Node), began: time.Now(),
		}
	}
	return a.memory
}

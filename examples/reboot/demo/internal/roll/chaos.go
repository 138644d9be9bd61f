package roll

import (
	"context"
	"slices"
	"time"
)

// chaos kills one controller and then two agents during the roll, and returns
// their names. It kills nothing if there is only one controller, and kills
// fewer if ctx ends first.
func (r *roll) chaos(ctx context.Context) []string {
	var killed []string
	note := func(name string) {
		killed = append(killed, name)
		r.show.say("SIGKILL %s", name)
	}
	for ctx.Err() == nil && len(killed) < 3 {
		done := r.done()
		switch {
		case len(killed) == 0 && done >= r.options.Nodes/6 && len(r.controllers) > 1:
			r.controllers[0].kill()
			note(r.controllers[0].name)
		case len(killed) == 1 && done >= r.options.Nodes/4, len(killed) == 2 && done >= r.options.Nodes/2:
			if name := r.killAgent(killed); name != "" {
				note(name)
			}
		}
		if pause(ctx, chaosInterval) != nil {
			break
		}
	}
	return killed
}

const chaosInterval = 30 * time.Millisecond

// killAgent kills an agent in the middle of its node's reboot, while the
// machine is up, and returns the agent's name. It returns the empty string if
// there is no such agent. It spares the agents in killed.
func (r *roll) killAgent(killed []string) string {
	nodes, _ := r.witness.State()
	for _, m := range r.machines {
		n := nodes[m.name]
		name := "the agent of " + m.name
		if (n.Told || n.Rebooting) && !slices.Contains(killed, name) && m.killAgent() {
			return name
		}
	}
	return ""
}

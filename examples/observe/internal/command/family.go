package command

import (
	"crypto/rand"
	"os"
	"syscall"
	"time"
)

// marker is a variable in the environment of a program, which its children
// inherit. It identifies processes that have left the program's group (setsid).
const marker = "OBSERVE_RUN"

// family is a program and all processes that it has started, in any group or
// session. On Linux it is identified by its environment; on other systems it is
// the process group. A process with a new environment (env -i) in its own
// session is no longer a member.
type family struct {
	pid   int // the program's id, once it was started
	id    string
	begun time.Time
}

func newFamily() *family {
	// Programs that run observe themselves have families inside ours.
	return &family{id: marker + "=" + os.Getenv(marker) + "/" + rand.Text(), begun: time.Now()}
}

// end ends a family, first with SIGTERM, and with SIGKILL after the grace
// period.
func (f *family) end(grace time.Duration, ended <-chan struct{}) {
	f.signal(syscall.SIGTERM)
	kill := time.NewTimer(grace)
	defer kill.Stop()
	select {
	case <-ended:
	case <-kill.C:
		f.signal(syscall.SIGKILL)
	}
}

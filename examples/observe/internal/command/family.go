package command

import (
	"crypto/rand"
	"os"
	"syscall"
	"time"
)

// marker is a variable in the environment of a program. The program's children
// inherit it, so it identifies even processes that have left the program's
// process group (setsid).
const marker = "OBSERVE_RUN"

// family is a program and all processes that it has started. On Linux the
// members of a family are found by a variable in their environment, even if
// they are in other process groups and sessions. A process that starts a
// session of its own with a new environment (env -i) is no longer a member. On
// other Unix systems a family is the process group. Elsewhere it is the program
// alone.
type family struct {
	pid   int // the program's id, once it was started
	id    string
	begun time.Time
}

func newFamily() *family {
	// Programs that run observe themselves have families inside ours.
	return &family{id: marker + "=" + os.Getenv(marker) + "/" + rand.Text(), begun: time.Now()}
}

// end ends a family. It sends SIGTERM, and SIGKILL if the program has not ended
// after the grace period.
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

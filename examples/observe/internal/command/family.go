package command

import (
	"crypto/rand"
	"os"
	"syscall"
	"time"
)

// marker is a variable in the environment of a program, and so of its children: it
// finds processes that have left the program's group (setsid).
const marker = "OBSERVE_RUN"

// family is a program and all processes that it has started, in any group or session.
// On Linux it is found by its environment; elsewhere it is the process group. A process
// with a new environment (env -i) in its own session has left it.
type family struct {
	first int // the program's id, once it has been started
	id    string
	begun time.Time
}

func newFamily() *family {
	// Programs that observe themselves have families within ours.
	return &family{id: marker + "=" + os.Getenv(marker) + "/" + rand.Text(), begun: time.Now()}
}

// end ends a family, first politely.
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

package supervisor

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Lifeline is an environment variable. If it is set, a component reads its
// standard input, and exits at the end of the input, because then the
// Supervisor has ended.
const Lifeline = "CONTROLPLANE_LIFELINE"

const (
	// stopGrace is how long a component may take to stop before it is killed.
	stopGrace = 10 * time.Second
	// tailBytes and tailLines bound the part of a component's log in an error.
	tailBytes = 8 << 10
	tailLines = 15
)

// A child is one running component.
type child struct {
	name     string
	log      string
	cmd      *exec.Cmd
	lifeline io.Closer
	done     chan struct{} // closed once the process has ended and its result is known
}

// startChild starts the component with its output appended to the log. It
// signals ended when the process has ended.
func startChild(program string, c component, log string, ended chan<- struct{}) (*child, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", c.name, err)
	}
	defer func() { _ = out.Close() }() // The child has its own descriptor.
	cmd := exec.Command(program, append([]string{c.name}, c.args...)...)
	cmd.Env = append(os.Environ(), Lifeline+"=stdin")
	cmd.Stdout, cmd.Stderr = out, out
	// In a group of its own, so that an interrupt from the terminal reaches the
	// Supervisor alone.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	lifeline, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("making the lifeline of %s: %w", c.name, err)
	}
	if err := cmd.Start(); err != nil {
		_ = lifeline.Close() // No child reads from it.
		return nil, fmt.Errorf("starting %s: %w", c.name, err)
	}
	ch := &child{name: c.name, log: log, cmd: cmd, lifeline: lifeline, done: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // The result is in ProcessState.
		close(ch.done)
		select {
		case ended <- struct{}{}:
		default: // A look at all children is already due.
		}
	}()
	return ch, nil
}

// kill ends the process as kill -9 does, and returns once it has ended.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // It may have ended already.
	<-c.done
}

// stop asks the process to end, kills it if it is still running after its grace
// period, and returns once it has ended.
func (c *child) stop() {
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // It may have ended already.
	grace := time.NewTimer(stopGrace)
	defer grace.Stop()
	select {
	case <-c.done:
	case <-grace.C:
		c.kill()
	}
}

func (c *child) gone() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// exitError returns the error that describes how the child ended.
func (c *child) exitError() error {
	return &ExitError{Component: c.name, Status: c.cmd.ProcessState.String(), Log: c.log, Tail: tail(c.log)}
}

// tail returns the last lines of a file. If they cannot be read, it returns the
// text of the error.
func tail(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = f.Close() }() // It was only read.
	if info, err := f.Stat(); err == nil && info.Size() > tailBytes {
		if _, err := f.Seek(-tailBytes, io.SeekEnd); err != nil {
			return err.Error()
		}
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}

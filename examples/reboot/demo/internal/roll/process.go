package roll

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// stopGrace is how long a process may run after SIGTERM.
const stopGrace = 5 * time.Second

// A spawner starts processes. On Linux, they die when this process ends, even
// if this process is killed. It starts all of them from one thread, because the
// kernel kills them when the thread that started them ends.
type spawner struct {
	dir      string // the directory of the logs
	requests chan func()
}

func newSpawner(ctx context.Context, dir string) *spawner {
	s := &spawner{dir: dir, requests: make(chan func())}
	go func() {
		runtime.LockOSThread()
		for {
			select {
			case f := <-s.requests:
				f()
			case <-ctx.Done():
				return
			}
		}
	}()
	return s
}

// A process is a running program of the roll.
type process struct {
	name string
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
}

// start starts a program. Its output is appended to the log with its name.
func (s *spawner) start(name, program string, args ...string) (*process, error) {
	log, err := os.OpenFile(filepath.Join(s.dir, name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", name, err)
	}
	defer func() { _ = log.Close() }() // The child has its own descriptor.
	p := &process{name: name, cmd: exec.Command(program, args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = attributes()
	started := make(chan error, 1)
	s.requests <- func() { started <- p.cmd.Start() }
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go func() {
		_ = p.cmd.Wait() // ProcessState has the result.
		close(p.done)
	}()
	return p, nil
}

// kill ends the process without a warning, and waits for its end.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // It may have ended already.
	<-p.done
}

// stop sends SIGTERM, and waits for the end of the process. After stopGrace it
// kills the process. It returns an error if it has killed the process, or if
// the exit code is not 0.
func (p *process) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // It may have ended already.
	select {
	case <-p.done:
	case <-time.After(stopGrace):
		p.kill()
		return fmt.Errorf("stopping %s: the process has not ended within %v", p.name, stopGrace)
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("stopping %s: the process ended with %s", p.name, p.cmd.ProcessState)
	}
	return nil
}

// stopAll stops all processes at the same time, and returns their errors,
// joined.
func stopAll(processes []*process) error {
	var mu sync.Mutex
	var errs []error
	var running sync.WaitGroup
	for _, p := range processes {
		running.Go(func() {
			if err := p.stop(); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

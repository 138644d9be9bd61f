package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/homeostat/homeostat/internal/test/e2e/compile"
)

// patience is the longest time for a short step, in addition to the limit of
// its context.
const patience = 30 * time.Second

// A server is the process of bin/controlplane. It reads commands from its
// standard input, and exits when the input is closed.
type server struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	lines  chan string   // the lines of its standard output
	log    *compile.Tail // the end of its standard error
	exited chan struct{}
	err    error // the error that ended the process; read after exited is closed

	busy       chan struct{} // held while a command waits for its answer
	owed       int           // commands without an answer, also of callers that no longer wait; guarded by busy
	closeInput sync.Once
}

func startServer(program string, args []string, progress io.Writer) (*server, error) {
	s := &server{
		cmd:    exec.Command(program, args...),
		lines:  make(chan string),
		log:    &compile.Tail{},
		exited: make(chan struct{}),
		busy:   make(chan struct{}, 1),
	}
	s.cmd.Stderr = io.MultiWriter(s.log, progress)
	s.cmd.SysProcAttr = attributes()
	var err error
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("making a pipe for the input of %s: %w", program, err)
	}
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making a pipe for the output of %s: %w", program, err), s.stdin.Close())
	}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", program, err)
	}
	go s.read(stdout)
	return s, nil
}

// read sends the standard output to lines, line by line, until the process has
// ended.
func (s *server) read(stdout io.Reader) {
	defer close(s.exited)
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		s.lines <- lines.Text() // received by a caller or by stop
	}
	s.err = s.cmd.Wait()
}

// readLine returns the next line of the output, or an error if ctx or the
// process ends first.
func (s *server) readLine(ctx context.Context) (string, error) {
	select {
	case line := <-s.lines:
		return line, nil
	case <-s.exited:
		return "", s.exitError()
	case <-ctx.Done():
		return "", fmt.Errorf("waiting for the control plane: %w; its last lines:\n%s", ctx.Err(), s.log)
	}
}

func (s *server) exitError() error {
	if s.err == nil {
		return fmt.Errorf("the control plane has stopped; its last lines:\n%s", s.log)
	}
	return fmt.Errorf("the control plane ended: %w; its last lines:\n%s", s.err, s.log)
}

// command writes a line to the process and waits for the answer. It returns nil
// if the answer is "ok", and otherwise the error in the answer.
func (s *server) command(ctx context.Context, line string) error {
	select {
	case s.busy <- struct{}{}:
		defer func() { <-s.busy }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if _, err := io.WriteString(s.stdin, line+"\n"); err != nil {
		select {
		case <-s.exited:
			return s.exitError()
		case <-time.After(patience):
			return fmt.Errorf("writing a command: %w", err)
		}
	}
	s.owed++
	for {
		answer, err := s.readLine(ctx)
		if err != nil {
			return err
		}
		if s.owed--; s.owed == 0 {
			return asError(answer)
		}
	}
}

func asError(answer string) error {
	if answer == "ok" {
		return nil
	}
	text, err := strconv.Unquote(strings.TrimPrefix(answer, "error: "))
	if err != nil {
		return fmt.Errorf("reading the answer %q: %w", answer, err)
	}
	return errors.New(text)
}

// stop closes the input, which ends the process, and waits until it has ended.
// If that takes longer than the time in patience, stop kills the process, whose
// children then end by themselves.
func (s *server) stop() error {
	s.closeInput.Do(func() { _ = s.stdin.Close() }) // The process may have ended already.
	kill := time.AfterFunc(patience, func() { _ = s.cmd.Process.Kill() })
	defer kill.Stop()
	for {
		select {
		case <-s.lines:
		case <-s.exited:
			if s.err != nil {
				return fmt.Errorf("stopping the control plane: %w", s.exitError())
			}
			return nil
		}
	}
}

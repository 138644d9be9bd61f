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

// patience is how long the short steps may take that have no context of their own.
const patience = 30 * time.Second

// A server is the process of bin/controlplane. It takes commands on its standard input and ends with it.
type server struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines chan string   // its standard output
	log   *compile.Tail // its standard error
	done  chan struct{}
	err   error // why it ended; read after done

	busy chan struct{} // held while a command waits for its answer
	owed int           // answers to commands whose callers have left; guarded by busy
	once sync.Once
}

func startServer(program string, args []string, progress io.Writer) (*server, error) {
	s := &server{
		cmd:   exec.Command(program, args...),
		lines: make(chan string),
		log:   &compile.Tail{},
		done:  make(chan struct{}),
		busy:  make(chan struct{}, 1),
	}
	s.cmd.Stderr = io.MultiWriter(s.log, progress)
	s.cmd.SysProcAttr = attributes()
	var err error
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("making the standard input of %s: %w", program, err)
	}
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making the standard output of %s: %w", program, err), s.stdin.Close())
	}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", program, err)
	}
	go s.read(stdout)
	return s, nil
}

// read sends the standard output, line by line, to lines until the process has ended.
func (s *server) read(stdout io.Reader) {
	defer close(s.done)
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		s.lines <- lines.Text() // A caller receives it, or stop does.
	}
	s.err = s.cmd.Wait()
}

// readLine returns the next line of the output, or an error when ctx or the process ends before.
func (s *server) readLine(ctx context.Context) (string, error) {
	select {
	case line := <-s.lines:
		return line, nil
	case <-s.done:
		return "", s.ended()
	case <-ctx.Done():
		return "", fmt.Errorf("waiting for the control plane: %w; its last lines:\n%s", ctx.Err(), s.log)
	}
}

func (s *server) ended() error {
	if s.err == nil {
		return fmt.Errorf("the control plane has stopped; its last lines:\n%s", s.log)
	}
	return fmt.Errorf("the control plane ended: %w; its last lines:\n%s", s.err, s.log)
}

// command writes a line and returns the answer of the process.
func (s *server) command(ctx context.Context, line string) error {
	select {
	case s.busy <- struct{}{}:
		defer func() { <-s.busy }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if _, err := io.WriteString(s.stdin, line+"\n"); err != nil {
		select {
		case <-s.done:
			return s.ended()
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

// stop closes the input, which ends the process, and returns when it has ended. When the patience is exceeded it
// kills it; the children then end by themselves.
func (s *server) stop() error {
	s.once.Do(func() { _ = s.stdin.Close() }) // The process may have ended already.
	kill := time.AfterFunc(patience, func() { _ = s.cmd.Process.Kill() })
	defer kill.Stop()
	for {
		select {
		case <-s.lines:
		case <-s.done:
			if s.err != nil {
				return fmt.Errorf("stopping the control plane: %w", s.ended())
			}
			return nil
		}
	}
}

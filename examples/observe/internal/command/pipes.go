package command

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"sync/atomic"
	"time"
)

const (
	// lingerTime is how long a child process may keep the output open without
	// printing after its program has ended.
	lingerTime = 2 * time.Second
	// maxRest limits how many bytes are read after the end of a program. A pipe
	// cannot hold more (/proc/sys/fs/pipe-max-size).
	maxRest = 1 << 20
	// readPatience is how long the reader of our output may pause after ctx has
	// ended. It is longer than lingerTime, so that a process that keeps the
	// output open is not mistaken for a slow reader.
	readPatience = lingerTime + time.Second
)

// ErrNotRead means that the end of a program's output was not passed on,
// because this process's own output was not read in time. Run waits for a slow
// reader, but only for three seconds after both the program and ctx have ended.
var ErrNotRead = errors.New("the output is not being read")

// pipes connect a program with this process. They replace the pipes of os/exec.
// Those cannot distinguish a slow reader of our output from a process that
// keeps the program's output open. A time limit is needed for such a process,
// but with os/exec it would also cut off the output to a slow reader.
type pipes struct {
	stdin     *os.File // our end of the pipe; nil without input
	input     []byte
	pumps     []*pump
	childEnds []*os.File // the program's ends of the pipes
}

// connect connects the standard output and the standard error of c with this
// process, and its standard input unless stdin is nil.
func connect(c *exec.Cmd, stdin []byte, stdout, stderr io.WriteCloser) (*pipes, error) {
	p := &pipes{input: stdin}
	for _, stream := range []struct {
		target io.WriteCloser
		file   *io.Writer
	}{{stdout, &c.Stdout}, {stderr, &c.Stderr}} {
		parentEnd, childEnd, err := os.Pipe()
		if err != nil {
			p.abandon()
			return nil, err
		}
		*stream.file = childEnd
		p.childEnds = append(p.childEnds, childEnd)
		p.pumps = append(p.pumps, &pump{source: parentEnd, target: stream.target, result: make(chan error, 1)})
	}
	if stdin == nil {
		return p, nil
	}
	childEnd, parentEnd, err := os.Pipe()
	if err != nil {
		p.abandon()
		return nil, err
	}
	c.Stdin, p.stdin, p.childEnds = childEnd, parentEnd, append(p.childEnds, childEnd)
	return p, nil
}

// begin starts to pass data on, after the program was started.
func (p *pipes) begin() {
	closeAll(p.childEnds)
	for _, pump := range p.pumps {
		go pump.run()
	}
	if p.stdin != nil {
		go func() {
			_, _ = p.stdin.Write(p.input) // fails if the program does not read its input
			_ = p.stdin.Close()           // the program may have ended
		}()
	}
}

// abandon closes all pipes. It is called instead of begin if the program could
// not be started.
func (p *pipes) abandon() {
	closeAll(p.childEnds)
	for _, pump := range p.pumps {
		_ = pump.source.Close() // no data was read
	}
	if p.stdin != nil {
		_ = p.stdin.Close() // no data was written
	}
}

func closeAll(files []*os.File) {
	for _, file := range files {
		_ = file.Close() // the program has a descriptor of its own
	}
}

// finish waits until all output of the program has been passed on. It is called
// after the program has ended. It waits for a slow reader without a limit, but
// only for readPatience after ctx has ended.
func (p *pipes) finish(ctx context.Context) error {
	if p.stdin != nil {
		_ = p.stdin.SetDeadline(time.Now()) // the program no longer reads its input
	}
	for _, pump := range p.pumps {
		pump.end()
	}
	var errs []error
	for _, pump := range p.pumps {
		errs = append(errs, pump.wait(ctx))
	}
	return errors.Join(errs...)
}

// pump passes the data from one pipe on to a writer.
type pump struct {
	source *os.File
	target io.WriteCloser
	ended  atomic.Bool // set when the program has ended
	result chan error
}

func (p *pump) run() {
	err := p.pass()
	_ = p.source.Close() // the data was read to the end or cannot be passed on
	p.result <- cmp.Or(err, p.target.Close())
}

// pass passes data on until every process has closed the other end. After the
// end of the program it also stops if a process keeps the pipe open without
// printing, or prints without end. It returns the first error of the writer.
func (p *pump) pass() error {
	buffer := make([]byte, 32<<10)
	for remaining := maxRest; remaining > 0; {
		ended := p.ended.Load()
		if ended {
			p.expire()
		}
		n, err := p.source.Read(buffer)
		if _, err := p.target.Write(buffer[:n]); err != nil {
			return err
		}
		if err != nil {
			return nil // the pipe has ended, or the deadline has passed
		}
		if ended {
			remaining -= n
		}
	}
	return nil
}

// end records that the program has ended.
func (p *pump) end() {
	p.ended.Store(true)
	p.expire()
}

// expire sets the deadline for reading more data to lingerTime from now. It is
// called when the program has ended, and before each read after that, because
// the previous deadline may have passed while the reader of our output paused.
func (p *pump) expire() { _ = p.source.SetReadDeadline(time.Now().Add(lingerTime)) }

// wait waits until the pump has stopped, and returns its error. After ctx has
// ended it waits only for readPatience, and then returns ErrNotRead.
func (p *pump) wait(ctx context.Context) error {
	select {
	case err := <-p.result:
		return err
	case <-ctx.Done():
	}
	patience := time.NewTimer(readPatience)
	defer patience.Stop()
	select {
	case err := <-p.result:
		return err
	case <-patience.C:
		return ErrNotRead
	}
}

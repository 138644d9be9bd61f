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
	// lingering is how long a process that outlived its program may hold the
	// output open without printing anything.
	lingering = 2 * time.Second
	// maxLeft bounds how much is read after the end of a program, in bytes: a pipe
	// cannot hold more than this (/proc/sys/fs/pipe-max-size).
	maxLeft = 1 << 20
	// unread is how long our reader may pause once we are to end: longer than a
	// pump waits for a process that holds the output open.
	unread = lingering + time.Second
)

// ErrNotRead means that a program's output could not be passed on before the end,
// because the reader of our own output does not read.
var ErrNotRead = errors.New("the output is not being read")

// pipes connect a program with us. They are ours and not those of os/exec, which
// cannot tell a reader that pauses from a process that holds the output open:
// with a bound for the second, the first would lose output.
type pipes struct {
	stdin  *os.File // our end; nil if there is nothing to read
	input  []byte
	pumps  []*pump
	theirs []*os.File // the program's ends
}

// connect gives c its standard streams.
func connect(c *exec.Cmd, stdin []byte, stdout, stderr io.WriteCloser) (*pipes, error) {
	p := &pipes{input: stdin}
	for _, stream := range []struct {
		to   io.WriteCloser
		file *io.Writer
	}{{stdout, &c.Stdout}, {stderr, &c.Stderr}} {
		ours, theirs, err := os.Pipe()
		if err != nil {
			p.abandon()
			return nil, err
		}
		*stream.file = theirs
		p.theirs = append(p.theirs, theirs)
		p.pumps = append(p.pumps, &pump{from: ours, to: stream.to, done: make(chan error, 1)})
	}
	if stdin == nil {
		return p, nil
	}
	theirs, ours, err := os.Pipe()
	if err != nil {
		p.abandon()
		return nil, err
	}
	c.Stdin, p.stdin, p.theirs = theirs, ours, append(p.theirs, theirs)
	return p, nil
}

// begin passes on, once the program has been started.
func (p *pipes) begin() {
	closeAll(p.theirs)
	for _, pump := range p.pumps {
		go pump.run()
	}
	if p.stdin != nil {
		go func() {
			_, _ = p.stdin.Write(p.input) // a program need not read it
			_ = p.stdin.Close()           // as above
		}()
	}
}

// abandon closes everything, if the program could not be started.
func (p *pipes) abandon() {
	closeAll(p.theirs)
	for _, pump := range p.pumps {
		_ = pump.from.Close() // nothing was read
	}
	if p.stdin != nil {
		_ = p.stdin.Close() // nothing was written
	}
}

func closeAll(files []*os.File) {
	for _, file := range files {
		_ = file.Close() // the program has a descriptor of its own
	}
}

// finish returns once all has been passed on that the program, which has ended,
// has printed, however slowly that is read; after the end of ctx only for a while.
func (p *pipes) finish(ctx context.Context) error {
	if p.stdin != nil {
		_ = p.stdin.SetDeadline(time.Now()) // input not read by now never will be
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

// pump passes on the data of a pipe.
type pump struct {
	from  *os.File
	to    io.WriteCloser
	ended atomic.Bool // set when the program has ended
	done  chan error
}

func (p *pump) run() {
	err := p.pass()
	_ = p.from.Close() // it was read to its end, or cannot be passed on
	p.done <- cmp.Or(err, p.to.Close())
}

// pass passes on until every holder of the other end has closed it or, after the
// end of the program, holds it without printing, or prints without an end.
func (p *pump) pass() error {
	buffer := make([]byte, 32<<10)
	for left := maxLeft; left > 0; {
		ended := p.ended.Load()
		if ended {
			p.expire()
		}
		n, err := p.from.Read(buffer)
		if _, err := p.to.Write(buffer[:n]); err != nil {
			return err
		}
		if err != nil {
			return nil // the end of the pipe, or it was held for too long
		}
		if ended {
			left -= n
		}
	}
	return nil
}

// end says that the program has ended.
func (p *pump) end() {
	p.ended.Store(true)
	p.expire()
}

// expire bounds the wait for more. The deadline is set before each read: the last one
// may have passed while a reader paused.
func (p *pump) expire() { _ = p.from.SetReadDeadline(time.Now().Add(lingering)) }

// wait returns when pass has.
func (p *pump) wait(ctx context.Context) error {
	select {
	case err := <-p.done:
		return err
	case <-ctx.Done():
	}
	patience := time.NewTimer(unread)
	defer patience.Stop()
	select {
	case err := <-p.done:
		return err
	case <-patience.C:
		return ErrNotRead
	}
}

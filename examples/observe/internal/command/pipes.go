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
	// lingerTime is how long a process that has outlived its program may keep
	// the output open without printing.
	lingerTime = 2 * time.Second
	// maxRest limits how many bytes are read after the end of a program. A pipe
	// cannot hold more (/proc/sys/fs/pipe-max-size).
	maxRest = 1 << 20
	// readPatience is how long the reader of our output may pause when this
	// process should end. It is longer than a pump waits for a process that
	// keeps the output open.
	readPatience = lingerTime + time.Second
)

// ErrNotRead means that a program's output could not be passed on before the
// end, because the reader of our own output does not read.
var ErrNotRead = errors.New("the output is not being read")

// pipes connect a program with this process. They replace the pipes of os/exec,
// which cannot distinguish a reader that pauses from a process that keeps the
// output open. With a time limit for the second, the first would lose output.
type pipes struct {
	stdin  *os.File // our end; nil without input
	input  []byte
	pumps  []*pump
	theirs []*os.File // the program's ends
}

// connect gives c its standard streams.
func connect(c *exec.Cmd, stdin []byte, stdout, stderr io.WriteCloser) (*pipes, error) {
	p := &pipes{input: stdin}
	for _, stream := range []struct {
		target io.WriteCloser
		file   *io.Writer
	}{{stdout, &c.Stdout}, {stderr, &c.Stderr}} {
		ours, theirs, err := os.Pipe()
		if err != nil {
			p.abandon()
			return nil, err
		}
		*stream.file = theirs
		p.theirs = append(p.theirs, theirs)
		p.pumps = append(p.pumps, &pump{source: ours, target: stream.target, result: make(chan error, 1)})
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

// begin starts to pass data on, after the program was started.
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

// abandon closes all pipes if the program could not be started.
func (p *pipes) abandon() {
	closeAll(p.theirs)
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

// finish returns once all output of the program, which has ended, was passed
// on. It waits for a slow reader without a limit, but after the end of ctx only
// for readPatience.
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

// pump passes on the data of a pipe.
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
// printing, or prints without end.
func (p *pump) pass() error {
	buffer := make([]byte, 32<<10)
	for left := maxRest; left > 0; {
		ended := p.ended.Load()
		if ended {
			p.expire()
		}
		n, err := p.source.Read(buffer)
		if _, err := p.target.Write(buffer[:n]); err != nil {
			return err
		}
		if err != nil {
			return nil // the end of the pipe, or the deadline
		}
		if ended {
			left -= n
		}
	}
	return nil
}

// end records that the program has ended.
func (p *pump) end() {
	p.ended.Store(true)
	p.expire()
}

// expire limits the wait for more data. It is called before each read, because
// the last deadline may have passed while the reader paused.
func (p *pump) expire() { _ = p.source.SetReadDeadline(time.Now().Add(lingerTime)) }

// wait returns when pass has returned.
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

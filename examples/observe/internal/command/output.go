package command

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"sync"
)

// maxLine is how many bytes of an unfinished line are kept. Lines up to this
// length are not mixed with the lines of other programs.
const maxLine = 64 << 10

// An Output receives lines from several programs, and writes them to one writer
// with one call at a time. It is safe for concurrent use.
type Output struct {
	mu     sync.Mutex // guards writes to output
	output io.Writer
	name   string
	escape bool

	failed chan struct{} // closed when err is set
	err    error         // the error of the first failed write
}

// NewOutput returns an Output that writes to output. name is the name of output
// in errors. If output is a terminal, the Output escapes control characters,
// because the text may come from any user with write access to the cluster.
func NewOutput(output io.Writer, name string) *Output {
	return &Output{output: output, name: name, escape: isTerminal(output), failed: make(chan struct{})}
}

// Failed returns a channel that is closed when a write has failed. After that
// the Output writes no more.
func (o *Output) Failed() <-chan struct{} { return o.failed }

// Err returns the error of the write that failed, or nil.
func (o *Output) Err() error {
	select {
	case <-o.failed:
		return o.err
	default:
		return nil
	}
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Write writes all lines with one call of the underlying writer, so that lines
// of several programs do not mix. After an error it writes no more, and returns
// the same error again.
func (o *Output) Write(lines []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.Err(); err != nil {
		return 0, err
	}
	if _, err := o.output.Write(o.visible(lines)); err != nil {
		o.err = fmt.Errorf("writing to %s: %w", o.name, err)
		close(o.failed)
		return 0, o.err
	}
	return len(lines), nil
}

func (o *Output) visible(lines []byte) []byte {
	if !o.escape || bytes.IndexFunc(lines, isControl) < 0 {
		return lines
	}
	return Visible(lines)
}

// Lines returns a writer for the output of one program.
func (o *Output) Lines() *Lines { return &Lines{output: o} }

// Lines passes text on to its Output in whole lines, except for a line that is
// longer than maxLine. It is not safe for concurrent use.
type Lines struct {
	output *Output
	rest   []byte
	open   bool // the start of the line in rest was already passed on
}

// Write passes on the complete lines, and keeps the rest for the next call. It
// also passes on an unfinished line that is longer than maxLine.
func (l *Lines) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	end := bytes.LastIndexByte(l.rest, '\n') + 1
	if end == 0 && len(l.rest) > maxLine {
		end = len(l.rest)
	}
	if end == 0 {
		return len(p), nil
	}
	if _, err := l.output.Write(l.rest[:end]); err != nil {
		return 0, err
	}
	l.open = l.rest[end-1] != '\n'
	l.rest = append(l.rest[:0], l.rest[end:]...)
	return len(p), nil
}

// Close completes an unfinished last line and passes it on.
func (l *Lines) Close() error {
	if len(l.rest) == 0 && !l.open {
		return nil
	}
	_, err := l.output.Write(append(l.rest, '\n'))
	l.rest, l.open = nil, false
	return err
}

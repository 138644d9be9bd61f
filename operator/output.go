package operator

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/homeostat/homeostat/reconcile/inspect"
)

// linePatience is how long a line of the log waits to be written. The runtime of
// a container may stop reading the standard error of its process, for example
// when the disk is full. A write then does not return.
const linePatience = time.Second

// lastPatience is how long the last lines of the program wait altogether. They
// say why it ends, and there is no work any more that waits for them.
const lastPatience = 5 * time.Second

// output is a writer of lines. Write returns when the line has been written, or
// after linePatience. Until that line has been written after all, output drops
// all further lines at once, so that work does not wait for the log. It is safe
// for concurrent use.
type output struct {
	writer  io.Writer
	writing sync.Mutex // held by the caller whose line is under way; guards end
	end     time.Time  // until when lines wait after last was called, or zero

	mu     sync.Mutex // guards the fields below
	result chan error // receives when the line that is late has been written; nil if no line is late
	since  time.Time  // when that line was sent
	lost   int        // lines since then
	// lostText returns the line that takes the place of lost ones.
	lostText func(lost int, during time.Duration) []byte
}

func newOutput(w io.Writer) *output {
	return &output{writer: w, lostText: func(lost int, during time.Duration) []byte {
		return fmt.Appendf(nil, "%d lines were lost, because standard error took no line for %v\n", lost, during)
	}}
}

// asJSON makes o write the line about lost lines as a JSON record.
func (o *output) asJSON() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lostText = func(lost int, during time.Duration) []byte {
		var line bytes.Buffer
		log := Logger(&line, true, 0)
		log.Info("lines were lost, because standard error took none", "lines", lost, "for", during.String())
		return line.Bytes()
	}
}

func (o *output) Write(line []byte) (int, error) {
	o.writing.Lock()
	defer o.writing.Unlock()
	text, ok := o.next(line)
	if !ok {
		return len(line), nil
	}
	result, sent := make(chan error, 1), time.Now()
	go func() {
		_, err := o.writer.Write(text)
		result <- err
	}()
	timer := time.NewTimer(max(linePatience, time.Until(o.end)))
	defer timer.Stop()
	select {
	case err := <-result:
		return len(line), err
	case <-timer.C:
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.result, o.since = result, sent
	return len(line), nil
}

// last is called before the last lines of the program. It waits until the line
// that is late has been written, so that they are not dropped.
func (o *output) last() {
	o.writing.Lock()
	defer o.writing.Unlock()
	o.end = time.Now().Add(lastPatience)
	o.mu.Lock()
	late := o.result
	o.mu.Unlock()
	if late == nil {
		return
	}
	timer := time.NewTimer(lastPatience)
	defer timer.Stop()
	select {
	case err := <-late:
		late <- err // next looks for it
	case <-timer.C:
	}
}

// next returns the text to write for a line, or false if the line is dropped.
func (o *output) next(line []byte) (text []byte, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.result == nil:
	case len(o.result) == 0:
		o.lost++
		return nil, false
	case o.lost > 0:
		text = o.lostText(o.lost, time.Since(o.since).Round(time.Second))
	}
	o.result, o.lost = nil, 0
	return append(text, line...), true // a copy, because the caller uses the line again
}

// problems returns a problem while a line has not been written in time.
func (o *output) problems() []inspect.Problem {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.result == nil || len(o.result) > 0 {
		return nil
	}
	return []inspect.Problem{{
		Check: "log", Cause: "log blocked", Since: o.since,
		Reason: fmt.Sprintf("standard error takes no line, so lines of the log are lost, %d so far", o.lost),
		Remedy: "check the container runtime and the disk of the node, or restart the Pod",
	}}
}

package compile

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// reportInterval is how often a build says how far it is.
const reportInterval = 5 * time.Second

// A report tells how far a build is. It reads the go command's standard error, where "go build -v" names each
// package that it compiles, and "go list" each module that it fetches.
type report struct {
	out    io.Writer
	errors io.Writer // receives the lines that are no progress; set between commands

	mu       sync.Mutex // guards the fields below
	began    time.Time
	doing    string
	pending  map[string]bool // packages that are still to be compiled
	total    int
	compiled int
	fetched  int
	partial  []byte
}

// start reports at every interval until the returned function has been called.
func (r *report) start() (stop func()) {
	r.mu.Lock()
	r.began = time.Now()
	r.mu.Unlock()
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(reportInterval)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				r.say(r.line(time.Now()))
			case <-over:
				return
			}
		}
	}()
	return func() {
		close(over)
		<-ended
	}
}

func (r *report) say(text string) {
	_, _ = fmt.Fprintln(r.out, text) // The reader may have closed it; the build continues.
}

func (r *report) step(doing string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.doing = doing
}

// compile names the packages that are to be compiled from now on.
func (r *report) compile(packages []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.doing, r.total, r.pending = "compiling", len(packages), map[string]bool{}
	for _, p := range packages {
		r.pending[p] = true
	}
}

// line describes the present step of the build.
func (r *report) line(now time.Time) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := "building bin/controlplane: " + r.doing
	switch {
	case r.total == 0 && r.fetched > 0:
		text += fmt.Sprintf(", %d so far", r.fetched)
	case r.total > 0 && r.compiled < r.total-1:
		text += fmt.Sprintf(", package %d of %d", r.compiled, r.total)
	case r.total > 0:
		text = "building bin/controlplane: linking"
	}
	return fmt.Sprintf("%s (%v)", text, now.Sub(r.began).Round(time.Second))
}

// Write takes the go command's output.
func (r *report) Write(p []byte) (int, error) {
	r.mu.Lock()
	r.partial = append(r.partial, p...)
	var other []string
	for {
		line, rest, ok := bytes.Cut(r.partial, []byte("\n"))
		if !ok {
			break
		}
		r.partial = rest
		if text := string(line); !r.note(text) {
			other = append(other, text+"\n")
		}
	}
	r.mu.Unlock()
	if _, err := io.WriteString(r.errors, strings.Join(other, "")); err != nil {
		return 0, err
	}
	return len(p), nil
}

// note counts a line that is about progress, and reports whether it was one. The caller holds the mutex.
func (r *report) note(line string) bool {
	switch {
	case r.pending[line]:
		delete(r.pending, line)
		r.compiled++
		return true
	case strings.HasPrefix(line, "go: downloading "):
		r.fetched++
		return true
	default:
		return false
	}
}

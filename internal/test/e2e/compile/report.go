package compile

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// reportInterval is the time between two reports of a build.
const reportInterval = 5 * time.Second

// A report writes the progress of a build. It reads the go command's standard
// error, where "go build -v" names each package that it compiles, and "go list"
// each module that it fetches.
type report struct {
	progress io.Writer
	errors   io.Writer // receives lines that do not report progress; set between commands

	mu       sync.Mutex // guards the fields below
	began    time.Time
	activity string
	pending  map[string]bool // packages that are still to be compiled
	total    int
	compiled int
	fetched  int
	partial  []byte
}

// start reports at every interval until the returned function is called.
func (r *report) start() (stop func()) {
	r.mu.Lock()
	r.began = time.Now()
	r.mu.Unlock()
	stopped, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(reportInterval)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				r.say(r.line(time.Now()))
			case <-stopped:
				return
			}
		}
	}()
	return func() {
		close(stopped)
		<-ended
	}
}

func (r *report) say(text string) {
	_, _ = fmt.Fprintln(r.progress, text) // the build continues if the reader has closed it
}

func (r *report) step(activity string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.activity = activity
}

// compile sets the packages that are about to be compiled.
func (r *report) compile(packages []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.activity, r.total, r.pending = "compiling", len(packages), map[string]bool{}
	for _, p := range packages {
		r.pending[p] = true
	}
}

// line describes the present step of the build.
func (r *report) line(moment time.Time) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := "building bin/controlplane: " + r.activity
	switch {
	case r.total == 0 && r.fetched > 0:
		text += fmt.Sprintf(", %d so far", r.fetched)
	case r.total > 0 && r.compiled < r.total-1:
		text += fmt.Sprintf(", package %d of %d", r.compiled, r.total)
	case r.total > 0:
		text = "building bin/controlplane: linking"
	}
	return fmt.Sprintf("%s (%v)", text, moment.Sub(r.began).Round(time.Second))
}

// Write receives the go command's output.
func (r *report) Write(p []byte) (int, error) {
	r.mu.Lock()
	r.partial = append(r.partial, p...)
	var errors []string
	for {
		line, rest, ok := bytes.Cut(r.partial, []byte("\n"))
		if !ok {
			break
		}
		r.partial = rest
		if text := string(line); !r.note(text) {
			errors = append(errors, text+"\n")
		}
	}
	r.mu.Unlock()
	if _, err := io.WriteString(r.errors, strings.Join(errors, "")); err != nil {
		return 0, err
	}
	return len(p), nil
}

// note counts a line that reports progress, and returns false for any other
// line. The caller must hold the mutex.
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

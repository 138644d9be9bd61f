package compile

import (
	"bytes"
	"strings"
	"sync"
)

// tailLines is how many of the last lines of a program's output an error shows.
const tailLines = 40

// A Tail is a writer that keeps the last forty lines, and an unfinished line
// after them. Its zero value is ready to use. It is safe for concurrent use.
type Tail struct {
	mu      sync.Mutex // guards the fields below
	lines   []string
	partial []byte
}

// Write appends output. It never fails.
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.partial = append(t.partial, p...)
	for {
		line, rest, ok := bytes.Cut(t.partial, []byte("\n"))
		if !ok {
			return len(p), nil
		}
		t.lines = append(t.lines, string(line))
		t.lines = t.lines[max(0, len(t.lines)-tailLines):]
		t.partial = rest
	}
}

// String returns the lines, including an unfinished one, without spaces and
// empty lines at the beginning and the end.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.Join(t.lines, "\n")
	if len(t.partial) > 0 {
		text += "\n" + string(t.partial)
	}
	return strings.TrimSpace(text)
}

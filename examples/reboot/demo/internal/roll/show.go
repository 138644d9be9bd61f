package roll

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/homeostat/homeostat/examples/reboot/demo/internal/witness"
)

const keptLines = 8

// show displays the roll in a table that is redrawn, or in lines.
type show struct {
	out     io.Writer
	table   bool
	started time.Time

	mu    sync.Mutex // guards the fields below
	lines []string
	drawn int // number of lines of the table that are on the screen
	last  map[string]string
}

func newShow(out io.Writer, table bool) *show {
	return &show{out: out, table: table, started: time.Now(), last: map[string]string{}}
}

// say writes a line of text, above the table if the progress is shown as a
// table.
func (s *show) say(format string, args ...any) {
	line := fmt.Sprintf("%6.1fs  %s", time.Since(s.started).Seconds(), fmt.Sprintf(format, args...))
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.table || s.drawn == 0 {
		s.write(line + "\n")
		return
	}
	s.lines = append(s.lines, line)
	s.lines = s.lines[max(0, len(s.lines)-keptLines):]
}

func (s *show) write(text string) { _, _ = io.WriteString(s.out, text) } // The roll does not depend on its output.

// A row is one node in the table.
type row struct{ name, state, machine, ready, slot string }

// A frame contains what the table shows at one time.
type frame struct {
	rows             []row
	slots, max, done int
	violations       []witness.Violation
}

// draw shows a frame.
func (s *show) draw(f frame) {
	if !s.table {
		s.changes(f)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	if s.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\x1b[J", s.drawn)
	}
	text := s.text(f)
	s.drawn = strings.Count(text, "\n")
	b.WriteString(text)
	s.write(b.String())
}

func (s *show) text(f frame) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%6.1fs  slots in use %d of %d   rebooted %d of %d   violations %d\n",
		time.Since(s.started).Seconds(), f.slots, f.max, f.done, len(f.rows), len(f.violations))
	fmt.Fprintf(&b, "  %-10s %-11s %-9s %-8s %s\n", "NODE", "STATE", "MACHINE", "READY", "SLOT")
	for _, r := range f.rows {
		fmt.Fprintf(&b, "  %-10s %-11s %-9s %-8s %s\n", r.name, r.state, r.machine, r.ready, r.slot)
	}
	for _, l := range s.lines {
		b.WriteString(l + "\n")
	}
	return b.String()
}

// changes writes a line for each node whose state has changed.
func (s *show) changes(f frame) {
	for _, r := range f.rows {
		s.mu.Lock()
		previous := s.last[r.name]
		s.last[r.name] = r.state
		s.mu.Unlock()
		if previous != r.state {
			s.say("%-10s %-11s slots in use %d of %d, rebooted %d of %d", r.name, r.state, f.slots, f.max, f.done, len(f.rows))
		}
	}
}

// stateOf returns the word that the table shows for the state of a node.
func stateOf(n witness.Node, hasSlot bool, boots int, isUp bool) string {
	switch {
	case n.Rebooting && !isUp:
		return "Down"
	case n.Rebooting && boots > 1:
		return "Booted"
	case n.Rebooting:
		return "Draining"
	case n.Told:
		return "Granted"
	case n.Needed && hasSlot:
		return "Reserved"
	case n.Needed:
		return "Requested"
	case hasSlot && n.Done > 0:
		return "Verifying"
	case n.Done > 0:
		return "Done"
	default:
		return "-"
	}
}

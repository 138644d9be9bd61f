package roll

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/homeostat/homeostat/examples/reboot/demo/internal/witness"
)

// Verdict is the result of a roll.
type Verdict struct {
	// Nodes is the number of nodes, and Rebooted is how many of them have
	// rebooted exactly once and were not left cordoned.
	Nodes, Rebooted int
	// MostSlots is the largest number of slots that were seen to be held at the
	// same time. Max is the number that the group allows.
	MostSlots, Max int
	// Took is the time from the first request to the last release, or until the
	// time limit if the roll did not finish.
	Took time.Duration
	// Events is the number of events that the witness has checked.
	Events int
	// Killed are the names of the killed processes.
	Killed []string
	// Refused describes the eviction that a disruption budget refused.
	Refused string
	// Faults describes each promise that was broken, such as "node-03 was left
	// cordoned".
	Faults []string
}

// Good reports whether all promises were kept.
func (v Verdict) Good() bool { return len(v.Faults) == 0 }

// Write writes the verdict to out as text for people.
func (v Verdict) Write(out io.Writer) error {
	var b strings.Builder
	word := "PASS"
	if !v.Good() {
		word = "FAIL"
	}
	fmt.Fprintf(&b, "\nVERDICT %s: %d of %d nodes rebooted once, in %.0fs, with at most %d of %d slots in use\n",
		word, v.Rebooted, v.Nodes, v.Took.Seconds(), v.MostSlots, v.Max)
	fmt.Fprintf(&b, "  checked %s on every one of %d watch events\n", strings.Join(witness.Invariants(), ", "), v.Events)
	if len(v.Killed) > 0 {
		fmt.Fprintf(&b, "  killed on the way (SIGKILL): %s\n", strings.Join(v.Killed, ", "))
	}
	if v.Refused != "" {
		fmt.Fprintf(&b, "  drained every node, after this refusal: %s\n", v.Refused)
	}
	for _, f := range v.Faults {
		fmt.Fprintf(&b, "  FAULT %s\n", f)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

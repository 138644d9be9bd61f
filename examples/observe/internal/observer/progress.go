package observer

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/examples/observe/internal/command"
	"github.com/homeostat/homeostat/reconcile"
)

// Progress prints a line for each run, one at the beginning and one at the end
// of the first pass over the objects, and a summary. A run that is repeated at
// once has only one line. Progress is safe for concurrent use if its writer is.
type Progress struct {
	// Out receives the lines. If it is nil, no lines are printed.
	Out io.Writer
	// JSON prints each line as a JSON object, for programs.
	JSON bool
}

// entry is one line of the progress output, as text or JSON.
type entry struct {
	Time            string    `json:"time"`
	Type            Type      `json:"type"`
	ResourceVersion string    `json:"resourceVersion,omitempty"`
	Namespace       string    `json:"namespace,omitempty"`
	Name            string    `json:"name,omitempty"`
	UID             types.UID `json:"uid,omitempty"`
	Command         []string  `json:"command,omitempty"`
	*Summary
}

// attempt prints that argv runs for an object.
func (p Progress) attempt(t Type, key reconcile.Key, v version, argv []string) {
	e := entry{
		Type: t, ResourceVersion: v.resourceVersion, Namespace: key.Namespace, Name: key.Name, UID: v.uid, Command: argv,
	}
	p.print(e, fmt.Sprintf("%s %s\t%s", t, v.resourceVersion, command.Line(argv)))
}

// begin prints that the first pass over the objects of the first list has
// begun, and end prints that it is over.
func (p Progress) begin() { p.print(entry{Type: "SyncStarted"}, "Sync started") }
func (p Progress) end()   { p.print(entry{Type: "SyncEnded"}, "Sync ended") }

// Sum writes the summary s: as a JSON object to Out if JSON is true, and
// otherwise as a line of text to people. If Out is nil, it writes nothing, not
// even to people.
func (p Progress) Sum(s Summary, people io.Writer) {
	switch {
	case p.Out == nil:
	case p.JSON:
		p.print(entry{Type: "Summary", Summary: &s}, "")
	default:
		_, _ = fmt.Fprintln(people, s) // there is no other place to report an error
	}
}

func (p Progress) print(e entry, text string) {
	if p.Out == nil {
		return
	}
	e.Time = time.Now().Format(time.RFC3339)
	line := fmt.Appendf(nil, "# %s %s\n", e.Time, text)
	if p.JSON {
		line, _ = json.Marshal(e) // strings and numbers can always be encoded
		line = append(line, '\n')
	}
	_, _ = p.Out.Write(line) // there is no other place to report an error
}

// A Summary counts the runs of an [Observer].
type Summary struct {
	// Keys counts the objects, and names of deleted objects, that the observer
	// has begun to handle, even if no arguments could be made for them. An
	// object that was created again after its deletion was handled counts
	// twice.
	Keys uint64 `json:"keys"`
	// Runs counts the runs of commands. Failures counts the failed runs that
	// were not repeated at once, and the objects for which no arguments could
	// be made. It leaves out runs that failed while the observer was stopping.
	// Retries counts the runs after a failure, and Deletions the successful
	// runs of the delete command. Without a command, or in a dry run, each run
	// that would have taken place counts as a successful run.
	Runs      uint64 `json:"runs"`
	Failures  uint64 `json:"failures"`
	Retries   uint64 `json:"retries"`
	Deletions uint64 `json:"deletions"`
}

func (s Summary) String() string {
	return fmt.Sprintf("summary: %d keys, %d runs, %d failures, %d retries, %d deletions",
		s.Keys, s.Runs, s.Failures, s.Retries, s.Deletions)
}

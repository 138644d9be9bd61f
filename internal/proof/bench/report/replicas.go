package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
)

// replicaRows describes the lines of the tables in
// docs/benchmarks/replicas.txt. unit identifies the row of the results that a
// line shows.
var replicaRows = []struct{ unit, text, suffix string }{
	{"start-cpu-s", "start: processor time", "s"},
	{"start-received-MiB", "start: received", "MiB"},
	{"start-peak-MiB", "start: resident, at most", "MiB"},
	{"writes/s", "writes a second", ""},
	{"write-cpu-µs", "for each write: processor time", "µs"},
	{"write-received-B", "for each write: received", "B"},
	{"peak-MiB", "writes: resident, at most", "MiB"},
	{"resident-MiB", "then: resident", "MiB"},
	{"file-MiB", "then: of the program's file", "MiB"},
	{"heap-MiB", "then: heap in use", "MiB"},
	{"objects", "then: objects", ""},
}

// replicas returns the tables for the suite of replicas in docs/scaling.md.
// There is one table for each combination of a kind of object and the side
// (server or client) that selects the objects of a replica.
func (r *results) replicas() []byte {
	var text bytes.Buffer
	_, rows := r.packages()
	var names []string
	for _, w := range rows["replicas"] {
		if _, ok := w.median("alone"); ok && !slices.Contains(names, w.name) {
			names = append(names, w.name)
		}
	}
	for n, name := range names {
		if n > 0 {
			text.WriteString("\n")
		}
		r.writeReplicas(&text, name)
	}
	for _, w := range rows["replicas"] {
		if cpu, ok := w.median("first"); ok && w.unit == "start-cpu-s" {
			received, _ := r.byKey[rowKey{w.pkg, w.name, "start-received-MiB"}].median("first")
			_, _ = fmt.Fprintf(&text, "\n%s: the first replica of all, which chooses the ranges: "+
				"%s s of processor time, %s MiB received",
				strings.TrimPrefix(w.name, "Replicas/kind="), number(cpu), number(received))
		}
	}
	return append(bytes.TrimSpace(text.Bytes()), '\n')
}

func (r *results) writeReplicas(text *bytes.Buffer, name string) {
	value := func(unit, impl string) float64 {
		if w := r.byKey[rowKey{"replicas", name, unit}]; w != nil {
			v, _ := w.median(impl)
			return v
		}
		return 0
	}
	objects := r.byKey[rowKey{"replicas", name, "objects"}]
	if objects == nil {
		return
	}
	share := "" // one-of-three
	for _, impl := range objects.impls {
		if strings.HasPrefix(impl, "one-of-") {
			share = impl
		}
	}
	parts := strings.Split(name, "/") // Replicas/kind=pods/selects=server
	_, _ = fmt.Fprintf(text, "%s of %s bytes; the %s selects\n", strings.TrimPrefix(parts[1], "kind="),
		number(value("B/object", "alone")), strings.TrimPrefix(parts[2], "selects="))
	w := tabwriter.NewWriter(text, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintf(w, "\talone\t%s\tof alone\theaviest\tof alone\t\n", // to memory
		strings.ReplaceAll(share, "-", " "))
	for _, row := range replicaRows {
		single := value(row.unit, "alone")
		if single == 0 {
			continue
		}
		_, _ = fmt.Fprintf(w, "%s\t", row.text) // to memory
		_, _ = fmt.Fprintf(w, "%s\t", strings.TrimSpace(number(single)+" "+row.suffix))
		for _, impl := range []string{share, "heaviest"} {
			v := value(row.unit, impl)
			_, _ = fmt.Fprintf(w, "%s\t%.2f\t", strings.TrimSpace(number(v)+" "+row.suffix), v/single)
		}
		_, _ = fmt.Fprintln(w)
	}
	_ = w.Flush() // to memory
}

package main

import (
	"bytes"
	"fmt"
	"text/tabwriter"
)

// costs lists the costs of one replica in docs/scaling.md. Each cost names a
// row of the results, the factor for its value, and the unit to print.
var costs = []struct {
	subject, pkg, name, unit, impl string
	factor                         float64
	text                           string
}{
	{"a cached Pod", "cache", "Sync/pods=100000", "heap-B/Pod", ours, 1e-3, "KB"},
	{
		"a cached Pod, with DropManagedFields", "cache", "Sync/pods=100000", "heap-B/Pod",
		ours + "-without-managedFields", 1e-3, "KB",
	},
	{"100,000 Pods at the start", "cache", "Sync/pods=100000", "s", ours, 1, "s until they are cached"},
	{"", "cache", "Sync/pods=100000", "cpu-s", ours, 1, "s of processor time"},
	{"", "cache", "Sync/pods=100000", "peak-MiB", ours, 1, "MiB resident at the peak"},
	{"an event of a watch", "cache", "Events/pods=100000", "cpu-µs/event", ours, 1, "µs of processor time"},
	{"a reconcile with nothing to do", "loop", "NoOp/workers=1", "cpu-ns/reconcile", ours, 1e-3, "µs of processor time"},
	{"a waiting key", "queue", "MillionKeys", "B/key", ours, 1, "bytes"},
	{
		"a reconcile that creates an object", "ingress", "IngressPerService", "start-cpu-s", ours, 1e3 / 5000,
		"ms of processor time, with its request",
	},
}

// costs returns the text of the table of costs. It leaves out costs that were
// not measured.
func (r *results) costs() []byte {
	var text bytes.Buffer
	w := tabwriter.NewWriter(&text, 0, 0, 1, ' ', 0)
	for _, c := range costs {
		row := r.byKey[rowKey{c.pkg, c.name, c.unit}]
		if row == nil {
			continue
		}
		if value, ok := row.median(c.impl); ok {
			_, _ = fmt.Fprintf(w, "%s\t  %s\t%s\n", c.subject, number(value*c.factor), c.text) // to memory
		}
	}
	_ = w.Flush() // to memory
	return text.Bytes()
}

// growth lists the costs in docs/scaling.md that grow with the number of a
// program's objects. Each cost names a row of the results, and the factor that
// converts the row's value to the cost of one object.
var growth = []struct {
	subject, pkg, name, unit string
	factor                   float64
}{
	{"memory of caches, of full Pods, GB", "cache", "Sync/pods=100000", "heap-B/Pod", 1e-9},
	{"the first list, s", "cache", "Sync/pods=100000", "s", 1.0 / 100_000},
	{"events, processor time of a core, %", "cache", "Events/pods=100000", "cpu-µs/event", 1e-6 * 100 / changedEvery},
}

// changedEvery is the time in seconds between two changes of one object.
const changedEvery = 50_000.0 / 300

// grown returns the table of the costs for different numbers of objects. It
// multiplies the measured costs of one object.
func (r *results) grown() []byte {
	var text bytes.Buffer
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	line := func(subject string, value func(objects float64) float64) {
		_, _ = fmt.Fprintf(w, "%s\t", subject) // to memory
		for _, objects := range []float64{50_000, 500_000, 5_000_000} {
			_, _ = fmt.Fprintf(w, "%s\t", number(value(objects))) // to memory
		}
		_, _ = fmt.Fprintln(w) // to memory
	}
	line("objects", func(objects float64) float64 { return objects })
	line("events a second", func(objects float64) float64 { return objects / changedEvery })
	for _, c := range growth {
		row := r.byKey[rowKey{c.pkg, c.name, c.unit}]
		if row == nil {
			continue
		}
		if value, ok := row.median(ours); ok {
			line(c.subject, func(objects float64) float64 { return objects * value * c.factor })
		}
	}
	_ = w.Flush() // to memory
	return text.Bytes()
}

package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"golang.org/x/perf/benchfmt"
	"golang.org/x/perf/benchmath"
)

// ours is the implementation that the others are compared with.
const ours = "homeostat"

// results holds the parsed output of benchmarks.
type results struct {
	config  map[string]string // the lines that describe the machine and the first run, by key
	origins map[string]string // by package: commit, day and load of its results, if the commit is not the first one
	rows    []*row            // the rows, in the order of their measurement
	byKey   map[rowKey]*row
}

type rowKey struct{ pkg, name, unit string }

// row is one unit of one benchmark, with the values of each implementation.
type row struct {
	rowKey
	values map[string][]float64
	impls  []string // the implementations, in the order of the benchmark
}

// higher lists the units in which more is better, and descriptive the units
// that describe the benchmark itself.
var (
	higher      = []string{"served"}
	descriptive = []string{"dispatches-to-last", "known/Pod", "of-unshared"}
)

func read(input io.Reader, name string) (*results, error) {
	r := &results{config: map[string]string{}, origins: map[string]string{}, byKey: map[rowKey]*row{}}
	lines := benchfmt.NewReader(input, name)
	for lines.Scan() {
		switch record := lines.Result().(type) {
		case *benchfmt.Result:
			r.add(record)
		case *benchfmt.SyntaxError:
			return nil, record
		}
	}
	return r, lines.Err()
}

func (r *results) add(result *benchfmt.Result) {
	pkg := path.Base(result.GetConfig("pkg"))
	for _, c := range result.Config {
		if _, ok := r.config[c.Key]; !ok && c.Key != "pkg" {
			r.config[c.Key] = string(c.Value)
		}
	}
	if commit := result.GetConfig("commit"); commit != r.config["commit"] {
		r.origins[pkg] = fmt.Sprintf("commit %s, on %s", commit, result.GetConfig("date"))
		if load := result.GetConfig("load"); load != "" {
			r.origins[pkg] += fmt.Sprintf(", a load of %s when it began", load)
		}
	}
	base, parts := result.Name.Parts()
	name, impl := string(base), ours
	for _, p := range parts {
		switch {
		case bytes.HasPrefix(p, []byte("/impl=")):
			impl = string(p[len("/impl="):])
		case p[0] == '/':
			name += string(p)
		}
	}
	for _, v := range result.Values {
		unit, value := v.Unit, v.Value
		if v.OrigUnit != "" {
			unit, value = v.OrigUnit, v.OrigValue
		}
		key := rowKey{pkg, name, unit}
		if r.byKey[key] == nil {
			r.byKey[key] = &row{rowKey: key, values: map[string][]float64{}}
			r.rows = append(r.rows, r.byKey[key])
		}
		measured := r.byKey[key]
		if !slices.Contains(measured.impls, impl) {
			measured.impls = append(measured.impls, impl)
		}
		measured.values[impl] = append(measured.values[impl], value)
	}
}

// median returns the median of an implementation. It returns false if the
// implementation was not measured.
func (w *row) median(impl string) (float64, bool) {
	values := w.values[impl]
	if len(values) == 0 {
		return 0, false
	}
	sample := benchmath.NewSample(slices.Clone(values), &benchmath.DefaultThresholds)
	return benchmath.AssumeNothing.Summary(sample, 0.95).Center, true
}

// ratio returns how many times worse an implementation is than ours: its cost
// divided by ours, or our value divided by its value if more is better. It
// returns false for our own implementation, if one of the two was not measured
// or is zero, or if the unit only describes the benchmark.
func (w *row) ratio(impl string) (float64, bool) {
	mine, ok := w.median(ours)
	theirs, measured := w.median(impl)
	if !ok || !measured || impl == ours || slices.Contains(descriptive, w.unit) {
		return 0, false
	}
	if slices.Contains(higher, w.unit) {
		mine, theirs = theirs, mine
	}
	if mine == 0 || theirs == 0 {
		return 0, false
	}
	return theirs / mine, true
}

// lost returns the rows in which a rival is better than ours by more than the
// fraction in part, the worst row first. It also returns the number of compared
// values. Variants of our implementation do not count as rivals.
func (r *results) lost(part float64) (lost []lostRow, compared int) {
	for _, w := range r.rows {
		for _, impl := range w.impls {
			ratio, ok := w.ratio(impl)
			if !ok || !rival(impl) {
				continue
			}
			compared++
			if ratio < 1-part {
				lost = append(lost, lostRow{w, impl, 1 / ratio})
			}
		}
	}
	slices.SortStableFunc(lost, func(a, b lostRow) int { return cmp.Compare(b.times, a.times) })
	return lost, compared
}

type lostRow struct {
	*row
	impl  string
	times float64 // how many times worse ours is: the inverse of ratio
}

func rival(impl string) bool { return !strings.HasPrefix(impl, ours) }

// packages returns the rows by package, and the packages in the order of their
// first rows.
func (r *results) packages() (order []string, rows map[string][]*row) {
	rows = map[string][]*row{}
	for _, w := range r.rows {
		if rows[w.pkg] == nil {
			order = append(order, w.pkg)
		}
		rows[w.pkg] = append(rows[w.pkg], w)
	}
	return order, rows
}

// implementations returns the names of the implementations in rows: ours first,
// and the others in alphabetical order. If ours is not one of them, the rows
// compare settings of our implementation. Their names are then in the order of
// measurement.
func implementations(rows []*row) []string {
	var names []string
	for _, w := range rows {
		for _, i := range w.impls {
			if !slices.Contains(names, i) {
				names = append(names, i)
			}
		}
	}
	if i := slices.Index(names, ours); i >= 0 {
		names = slices.Delete(names, i, i+1)
		slices.Sort(names)
		names = slices.Insert(names, 0, ours)
	}
	return names
}

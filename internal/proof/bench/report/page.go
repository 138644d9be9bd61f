package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// tie is the fraction by which two medians must differ so that one of them
// counts as better.
const tie = 0.05

// page returns the text of the README.md of the benchmarks, in Markdown.
func (r *results) page() []byte {
	var b strings.Builder
	c := r.config
	fmt.Fprintf(&b, "<!-- Made by make bench-report from results.txt: do not edit. -->\n\n# Benchmarks\n\n")
	subject := "Everything"
	if len(r.origins) > 0 {
		subject = "Everything, except sections that say that they were measured apart,"
	}
	fmt.Fprintf(&b, "%s is from one run of `make bench-report`, of commit %s, on %s, beside client-go and "+
		"controller-runtime in the versions of `internal/proof/go.mod`: Go %s, %s/%s, %s, %s cores, %s", subject,
		c["commit"], c["date"], c["go"], c["goos"], c["goarch"], c["cpu"], c["cores"], c["memory"])
	if load := c["load"]; load != "" {
		fmt.Fprintf(&b, ", a load of %s when it began", load)
	}
	b.WriteString(". Figures are medians, with the multiple of ours in parentheses. `cpu-` is processor time, which " +
		"other programs of a shared machine disturb less than the clock. [What the rows mean](rows.md).\n\n" +
		"![Costs of the others, as multiples of ours](ratios.svg)\n\n")
	r.writeLost(&b)
	order, rows := r.packages()
	for _, pkg := range order {
		r.writeTable(&b, pkg, rows[pkg])
	}
	return []byte(b.String())
}

// writeLost writes the list of the rows in which a rival is better.
func (r *results) writeLost(b *strings.Builder) {
	lost, compared := r.lost(tie)
	fmt.Fprintf(b, "## Lost\n\nOf %d comparisons a rival is better in %d, by more than %.0f %%:\n\n",
		compared, len(lost), 100*tie)
	if len(lost) == 0 {
		return
	}
	b.WriteString("| row | unit | rival | ours ÷ rival |\n|---|---|---|--:|\n")
	for _, l := range lost {
		fmt.Fprintf(b, "| %s: %s | %s | %s | %s |\n", l.pkg, l.name, l.unit, l.impl, number(l.times))
	}
	b.WriteString("\n")
}

// explained maps packages to the pages that explain their rows.
var explained = map[string]string{
	"queue": "rows.md#queue", "patch": "rows.md#patch", "cache": "rows.md#cache", "loop": "rows.md#loop",
	"size": "rows.md#size", "ingress": "rows.md#ingress", "mirror": "rows.md#mirror", "references": "rows.md#references",
	"scale":    "../scaling.md#shards",
	"replicas": "../scaling.md#shards-with-caches-of-their-own",
}

func (r *results) writeTable(b *strings.Builder, pkg string, rows []*row) {
	impls := implementations(rows)
	fmt.Fprintf(b, "## %s%s\n\n", strings.ToUpper(pkg[:1]), pkg[1:])
	if page := explained[pkg]; page != "" {
		fmt.Fprintf(b, "[What the rows mean](%s).", page)
		if origin := r.origins[pkg]; origin != "" {
			fmt.Fprintf(b, " Measured apart: %s.", origin)
		}
		b.WriteString("\n\n")
	}
	b.WriteString("| | unit |")
	for _, i := range impls {
		b.WriteString(" " + i + " |")
	}
	b.WriteString("\n|---|---|" + strings.Repeat("--:|", len(impls)) + "\n")
	for _, w := range rows {
		if w.zero() {
			continue
		}
		fmt.Fprintf(b, "| %s | %s |", w.name, w.unit)
		for _, i := range impls {
			b.WriteString(" " + w.cell(i) + " |")
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
}

// zero reports whether all medians are 0, because the benchmark does not
// measure the unit.
func (w *row) zero() bool {
	return !slices.ContainsFunc(w.impls, func(i string) bool { m, _ := w.median(i); return m != 0 })
}

func (w *row) cell(impl string) string {
	m, ok := w.median(impl)
	if !ok {
		return "–"
	}
	text := number(m)
	if impl == ours {
		return "**" + text + "**"
	}
	if ratio, ok := w.ratio(impl); ok {
		text += " (" + number(ratio) + ")"
	}
	return text
}

// number formats a number with three digits, or more if there are more before
// the point.
func number(v float64) string {
	if v == 0 {
		return "0"
	}
	decimals := max(0, 2-int(math.Floor(math.Log10(math.Abs(v)))))
	text := strconv.FormatFloat(v, 'f', min(decimals, 4), 64)
	whole, fraction, _ := strings.Cut(text, ".")
	for i := len(whole) - 3; i > 0 && whole[i-1] != '-'; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if fraction = strings.TrimRight(fraction, "0"); fraction != "" {
		whole += "." + fraction
	}
	return whole
}

package main

import (
	_ "embed"
	"fmt"
	"os"
	"strings"
	"text/template"
)

//go:embed operators.md
var source string

// result is an operator with its figures.
type result struct {
	operator
	record
}

// write writes the page, unless no page was requested. The page shows each
// operator whose figures are in the file beside it.
func (l *laboratory) write() error {
	if l.page == "" {
		return nil
	}
	records, err := l.records()
	if err != nil {
		return err
	}
	var measured []result
	for _, o := range operators {
		if r, ok := records[o.Name]; ok {
			measured = append(measured, result{operator: o, record: r})
		}
	}
	t, err := template.New("operators.md").Parse(source)
	if err != nil {
		return err
	}
	var b strings.Builder
	if err := t.Execute(&b, measured); err != nil {
		return err
	}
	return os.WriteFile(l.page, []byte(b.String()), 0o644)
}

// Title returns the name of the operator and the version that was measured.
func (r result) Title() string { return r.Name + " " + r.record.Version }

// Measured reports whether a variant has figures.
func (r result) Measured(v variant) bool {
	_, ok := r.Figures[v.Name]
	return ok
}

// Row returns the table cells of a variant. For our variants, each figure is
// followed by its ratio to the figure of the released program.
func (r result) Row(v variant) string {
	f, base := r.Figures[v.Name], r.Figures[released]
	cells := []string{
		cell(f.Peak, base.Peak, "%.0f"), cell(f.Rest, base.Rest, "%.0f"),
		cell(f.Changed, base.Changed, "%.0f"), cell(f.Start, base.Start, "%.2f"), cell(f.Change, base.Change, "%.2f"),
		cell(f.Ready, base.Ready, "%.1f"),
	}
	return strings.Join(cells, " | ")
}

// Measurement returns when and how the figures were measured.
func (r result) Measurement() string {
	rounds := "one run of each program"
	if r.Rounds > 1 {
		rounds = fmt.Sprintf("the median of %d runs of each program", r.Rounds)
	}
	text := fmt.Sprintf("%s, on %s", rounds, r.Date)
	if r.Rests != "" {
		text += ", after " + r.Rests + " of rest"
	}
	if r.Changing != "" {
		text += ", with changes for " + r.Changing
	}
	if slowest, fastest := r.rates(); fastest > 0 {
		text += fmt.Sprintf(", %.0f to %.0f changes in each second", slowest, fastest)
	}
	if r.Load > 0 {
		text += fmt.Sprintf(", at a load average of %.1f", r.Load)
	}
	return text + "." + strings.TrimRight(" "+r.Remark, " ")
}

// rates returns the lowest and the highest number of changes in a second that a
// variant was measured with, or 0 if they were not recorded.
func (r result) rates() (slowest, fastest float64) {
	for _, f := range r.Figures {
		if f.Rate == 0 {
			continue
		}
		if slowest == 0 || f.Rate < slowest {
			slowest = f.Rate
		}
		fastest = max(fastest, f.Rate)
	}
	return slowest, fastest
}

func cell(f, base float64, format string) string {
	text := fmt.Sprintf(format, f)
	if f == base {
		return text
	}
	return text + fmt.Sprintf(" (%.2f)", f/base)
}

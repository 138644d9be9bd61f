package main

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"text/template"
)

//go:embed operators.md
var source string

// result contains the figures of an operator, by variant.
type result struct {
	operator
	Figures map[string]figures
}

// write writes the page, unless no page was requested. The page shows each
// operator that was measured in this scratch folder.
func (l *laboratory) write() error {
	if l.page == "" {
		return nil
	}
	var measured []result
	for _, o := range operators {
		text, err := os.ReadFile(l.figures(&o))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		r := result{operator: o}
		if err = errors.Join(err, json.Unmarshal(text, &r.Figures)); err != nil {
			return err
		}
		measured = append(measured, r)
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

func cell(f, base float64, format string) string {
	text := fmt.Sprintf(format, f)
	if f == base {
		return text
	}
	return text + fmt.Sprintf(" (%.2f)", f/base)
}

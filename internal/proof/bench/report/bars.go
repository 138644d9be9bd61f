package main

import (
	"fmt"
	"html"
	"strings"
)

// panel is one chart of the picture. It has a bar for each setting in which the
// named rows were measured.
type panel struct {
	title, pkg, unit string
	names            []string
	target           float64 // the value at which to draw a line, or 0 for no line
}

// panels are the panels in docs/scaling.md. Rows that were not measured are
// left out.
var panels = []panel{
	{
		"16 replicas start: the heaviest, beside the mean of objects", "scale", "heaviest/mean",
		[]string{"Scale/16-replicas/all-start"},
		1.2,
	},
	{
		"16 replicas start: requests of all until nothing moves", "scale", "requests",
		[]string{"Scale/16-replicas/all-start"},
		0,
	},
	{
		"One of 16 is killed: seconds until every shard has an owner", "scale", "until-all-are-owned-s",
		[]string{"Scale/16-replicas/one-is-killed"},
		30,
	},
	{"Undisturbed: events a minute to each of 4, 16, 32 replicas", "scale", "events/minute", []string{
		"Scale/4-replicas/one-replica-undisturbed", "Scale/16-replicas/one-replica-undisturbed",
		"Scale/32-replicas/one-replica-undisturbed",
	}, 0},
	{
		"Undisturbed: KiB of heap of each, with its part of the simulated server", "scale", "heap-KiB",
		[]string{"Scale/16-replicas/one-replica-undisturbed"},
		0,
	},
}

// Sizes of the charts, in pixels.
const (
	barHeight = 16
	barLabels = 250
	barWidth  = 820
)

// bars returns an SVG with a chart for each panel.
func (r *results) bars() []byte {
	var b strings.Builder
	y := 8
	for _, p := range panels {
		y = r.bar(&b, p, y)
	}
	return fmt.Appendf(nil, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" `+
		`font-family="sans-serif" font-size="12" role="img">`+
		"\n<title>What replicas with shards cost</title>\n<style>\n"+
		".t{fill:#1f2328}.b{fill:#0969da}.l{stroke:#bc4c00}.m{fill:#bc4c00}\n"+
		"@media(prefers-color-scheme:dark){.t{fill:#f0f6fc}.b{fill:#58a6ff}.l{stroke:#f0883e}.m{fill:#f0883e}}\n"+
		"</style>\n%s</svg>\n",
		barWidth, y, b.String())
}

// bar draws one panel that begins at the y coordinate y, and returns the y
// coordinate at which the panel ends.
func (r *results) bar(b *strings.Builder, p panel, y int) int {
	type entry struct {
		label string
		value float64
	}
	var bars []entry
	largest := p.target
	for _, name := range p.names {
		w := r.byKey[rowKey{p.pkg, name, p.unit}]
		if w == nil {
			continue
		}
		for _, impl := range w.impls {
			value, _ := w.median(impl)
			label := impl
			if len(p.names) > 1 {
				label = strings.Split(name, "/")[1] + ", " + impl
			}
			bars = append(bars, entry{label, value})
			largest = max(largest, value)
		}
	}
	if len(bars) == 0 || largest == 0 {
		return y
	}
	x := func(value float64) float64 { return barLabels + (barWidth-barLabels-80)*value/largest }
	fmt.Fprintf(b, `<text class="t" x="8" y="%d" font-weight="bold">%s</text>`+"\n", y+14, html.EscapeString(p.title))
	y += 24
	began := y
	for _, o := range bars {
		fmt.Fprintf(b, `<text class="t" x="%d" y="%d" text-anchor="end">%s</text>`,
			barLabels-8, y+12, html.EscapeString(o.label))
		fmt.Fprintf(b, `<rect class="b" x="%d" y="%d" width="%.1f" height="%d"/>`,
			barLabels, y+2, x(o.value)-barLabels, barHeight-4)
		end := x(o.value)
		if p.target > 0 {
			end = max(end, x(p.target))
		}
		fmt.Fprintf(b, `<text class="t" x="%.1f" y="%d">%s</text>`+"\n", end+6, y+12, number(o.value))
		y += barHeight
	}
	if p.target > 0 {
		fmt.Fprintf(b, `<line class="l" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/>`, x(p.target), x(p.target), began-2, y+2)
		fmt.Fprintf(b, `<text class="m" x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n",
			x(p.target), began-5, number(p.target))
	}
	return y + 14
}

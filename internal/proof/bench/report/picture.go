package main

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// Sizes of the picture, in pixels.
const (
	lineHeight = 18
	labels     = 430
	width      = 960
	top        = 56
)

// The axis is logarithmic, from a tenth of ours to a hundred times.
const (
	least = 0.1
	most  = 100
)

// colors contains the colors of the rivals, for a light and for a dark
// background.
var colors = []struct{ impl, light, dark string }{
	{"client-go", "#0969da", "#58a6ff"},
	{"controller-runtime", "#bc4c00", "#f0883e"},
}

// picture returns an SVG with a dot for each comparison of a cost with
// client-go or controller-runtime.
func (r *results) picture() []byte {
	var drawn []*row
	for _, w := range r.rows {
		for _, c := range colors {
			if _, ok := w.ratio(c.impl); ok {
				drawn = append(drawn, w)
				break
			}
		}
	}
	height := top + len(drawn)*lineHeight + 12
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" `+
		`font-family="sans-serif" font-size="12" role="img">`+"\n", width, height)
	b.WriteString("<title>Costs of client-go and controller-runtime, as multiples of ours</title>\n<style>\n" +
		".t{fill:#1f2328}.g{stroke:#d1d9e0}.one{stroke:#1f2328}\n")
	for i, c := range colors {
		fmt.Fprintf(&b, ".c%d{fill:%s}\n", i, c.light)
	}
	b.WriteString("@media(prefers-color-scheme:dark){.t{fill:#f0f6fc}.g{stroke:#3d444d}.one{stroke:#f0f6fc}\n")
	for i, c := range colors {
		fmt.Fprintf(&b, ".c%d{fill:%s}\n", i, c.dark)
	}
	b.WriteString("}\n</style>\n")
	for i, c := range colors {
		fmt.Fprintf(&b, `<circle class="c%d" cx="%d" cy="14" r="5"/><text class="t" x="%d" y="18">%s</text>`+"\n",
			i, 12+i*120, 22+i*120, c.impl)
	}
	for _, v := range []float64{0.1, 0.5, 1, 2, 5, 10, 20, 50, 100} {
		class := "g"
		if v == 1 {
			class = "one"
		}
		fmt.Fprintf(&b, `<line class="%s" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/>`+"\n",
			class, position(v), position(v), top-8, height-8)
		fmt.Fprintf(&b, `<text class="t" x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", position(v), top-14, number(v))
	}
	for i, w := range drawn {
		y := top + i*lineHeight + lineHeight/2
		fmt.Fprintf(&b, `<text class="t" x="%d" y="%d" text-anchor="end">%s</text>`+"\n", labels-8, y+4,
			html.EscapeString(shorten(w.pkg+": "+w.name, 48)+", "+w.unit))
		for n, c := range colors {
			if ratio, ok := w.ratio(c.impl); ok {
				fmt.Fprintf(&b, `<circle class="c%d" cx="%.1f" cy="%d" r="4"><title>%s: %s</title></circle>`+"\n",
					n, position(ratio), y, c.impl, number(ratio))
			}
		}
	}
	b.WriteString("</svg>\n")
	return []byte(b.String())
}

// position returns the position of a ratio on the axis.
func position(ratio float64) float64 {
	ratio = min(max(ratio, least), most)
	return labels + (width-labels-24)*math.Log(ratio/least)/math.Log(most/least)
}

// shorten returns text, cut to n characters if it is longer.
func shorten(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return text[:n-1] + "…"
}

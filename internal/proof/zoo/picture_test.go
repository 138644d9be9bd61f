package zoo_test

import (
	"bytes"
	"flag"
	"fmt"
	"html"
	"os"
	"strings"
	"testing"

	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

var draw = flag.Bool("draw", false, "draw the picture of docs/testing.md again")

// The picture of docs/testing.md shows the failure that the page quotes. make
// pictures draws it.
func TestPictureShowsTheFailure(t *testing.T) {
	const file = "../../../docs/pictures/found-bug.svg"
	r := reconciletest.Search(t, shop(generateKey), &reconciletest.Options{Budget: toFind})
	if *draw {
		if err := os.WriteFile(file, picture(r), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	drawn, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(strings.TrimSpace(r.Failure), "\n")[:2] {
		if !bytes.Contains(drawn, []byte(html.EscapeString(line))) {
			t.Errorf("%s does not show %q: run make pictures", file, line)
		}
	}
}

// Sizes of the picture, in pixels: it is narrow, so that it can be read on a
// telephone.
const (
	wide    = 460
	left    = 34 // the program
	right   = wide - 34
	line    = 17
	columns = 60 // of text
)

const style = `
.t{fill:#1f2328}.d{fill:#59636e}.f{fill:#cf222e}
.l{stroke:#59636e}.x{stroke:#cf222e}.b{stroke:#0969da}
@media(prefers-color-scheme:dark){.t{fill:#f0f6fc}.d{fill:#9198a1}.f{fill:#ff7b72}
.l{stroke:#9198a1}.x{stroke:#ff7b72}.b{stroke:#58a6ff}}
`

// picture draws the trace of a failure as SVG: time runs down, from the program
// on the left to the server on the right.
func picture(r *reconciletest.Report) []byte {
	d := &drawing{y: 52}
	for _, step := range r.Trace {
		kind, what, _ := strings.Cut(step, " ")
		what, place, _ := strings.Cut(strings.TrimSpace(what), "   (")
		switch {
		case kind == "call" && !strings.Contains(step, "<<<"):
			class := "b"
			if strings.HasPrefix(what, "list") || strings.HasPrefix(what, "watch") || strings.HasPrefix(what, "get") {
				class = "l"
			}
			d.arrow(what, strings.TrimSuffix(place, ")"), class, left, right)
		case kind == "deliver":
			d.arrow(what, "", "l", right, left)
		default:
			d.note(kind, what)
		}
	}
	lines, bottom := strings.Split(strings.TrimSpace(r.Failure), "\n"), d.y
	d.y += 2 * line
	for _, text := range lines {
		if strings.HasPrefix(text, "  replay:") {
			break
		}
		d.text(12, "f", strings.TrimSpace(text))
	}
	d.y += line / 2
	d.text(12, "d", strings.TrimSpace(lines[len(lines)-1])) // the hint
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" `+
		`font-family="sans-serif" font-size="13" role="img">`+"\n<title>The trace of a bug</title>\n<desc>%s</desc>\n<style>%s</style>\n",
		wide, d.y, wide, d.y, html.EscapeString(r.Failure), style)
	b.WriteString(`<g class="t" font-weight="bold"><text x="12" y="18">program</text>` +
		fmt.Sprintf(`<text x="%d" y="18" text-anchor="end">API server</text></g>`+"\n", wide-12))
	fmt.Fprintf(&b, `<line class="l" x1="%d" x2="%d" y1="26" y2="%d"/>`+"\n", right, right, bottom)
	from := 26
	for _, end := range append(d.ends, bottom) { // the program lives until it is stopped
		fmt.Fprintf(&b, `<line class="l" x1="%d" x2="%d" y1="%d" y2="%d"/>`+"\n", left, left, from, end)
		from = end + 2*line
	}
	b.Write(d.svg.Bytes())
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// drawing is the picture so far, down to y.
type drawing struct {
	svg  bytes.Buffer
	y    int
	ends []int // of the program's lives
}

// arrow draws a message from one to the other, with the line of the program
// that sent it.
func (d *drawing) arrow(what, place, class string, from, to int) {
	d.text(left+10, "t", what)
	if place != "" {
		d.y -= line
		fmt.Fprintf(&d.svg, `<text class="d" x="%d" y="%d" font-size="11" text-anchor="end">%s</text>`+"\n",
			right-10, d.y, html.EscapeString(place))
		d.y += line
	}
	tip, dash := -7, ""
	if to < from {
		tip, dash = 7, ` stroke-dasharray="5 3"`
	}
	y := d.y - line/2 - 2
	fmt.Fprintf(&d.svg, `<line class="%s" x1="%d" x2="%d" y1="%d" y2="%d" stroke-width="1.5"%s/>`+"\n", class, from, to, y, y, dash)
	fmt.Fprintf(&d.svg, `<path class="%s" d="M%d %dL%d %dL%d %d" fill="none" stroke-width="1.5"/>`+"\n",
		class, to+tip, y-4, to, y, to+tip, y+4)
	d.y += line
}

// note draws a deviation.
func (d *drawing) note(kind, what string) {
	if kind == "restart" {
		y := d.y - line/2
		d.ends = append(d.ends, y)
		fmt.Fprintf(&d.svg, `<path class="x" d="M%d %dl10 10m0 -10l-10 10" stroke-width="2.5"/>`+"\n", left-5, y)
		d.y += line
	}
	d.text(left+10, "f", kind+": "+strings.TrimPrefix(what, "the program: a restart "))
	d.y += line / 2
}

// text writes lines of text, one below the other.
func (d *drawing) text(x int, class, text string) {
	for _, l := range wrap(text) {
		fmt.Fprintf(&d.svg, `<text class="%s" x="%d" y="%d">%s</text>`+"\n", class, x, d.y, html.EscapeString(l))
		d.y += line
	}
}

// wrap breaks a text between words.
func wrap(text string) []string {
	var lines []string
	for word := range strings.FieldsSeq(text) {
		if n := len(lines); n > 0 && len(lines[n-1])+len(word) < columns {
			lines[n-1] += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	return lines
}

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"html"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// panel is a panel of examples/monitoring/dashboard.json.
type panel struct {
	Title, Type string
	GridPos     struct{ H, W, X, Y int }
	Targets     []struct{ Expr, LegendFormat string }
	FieldConfig struct{ Defaults struct{ Unit string } }
}

// series is one line of a panel.
type series struct {
	name   string
	points []point
}

type point struct {
	time  time.Time
	value float64
}

// span is the time from the start of an incident until the incident is fixed.
type span struct {
	name       string
	start, end time.Time
}

// step is the time between two points.
const step = 5 * time.Second

// picture draws the panels of the dashboard with the answers of Prometheus to
// their queries, and marks the incidents.
func (w *world) picture(ctx context.Context, start time.Time, spans []span) (string, error) {
	text, err := os.ReadFile(filepath.Join(w.root, "examples", "monitoring", "dashboard.json"))
	if err != nil {
		return "", err
	}
	var dashboard struct{ Panels []panel }
	if err := json.Unmarshal(text, &dashboard); err != nil {
		return "", err
	}
	c := &canvas{start: start, end: time.Now(), spans: spans}
	for _, p := range dashboard.Panels {
		var list []series
		for _, target := range p.Targets {
			found, err := w.query(ctx, target.Expr, target.LegendFormat, c.start, c.end)
			if err != nil {
				return "", fmt.Errorf("drawing panel %q: %w", p.Title, err)
			}
			list = append(list, found...)
		}
		c.panel(p, list)
	}
	return c.svg(), nil
}

// query returns the series with which Prometheus answers a query for the time
// from start to end.
func (w *world) query(ctx context.Context, expr, legend string, start, end time.Time) ([]series, error) {
	expr = strings.NewReplacer("$namespace", ".*", "$__rate_interval", "30s").Replace(expr)
	text, err := get(ctx, "http://"+w.prometheus.address+"/api/v1/query_range?"+url.Values{
		"query": {expr}, "step": {step.String()}, "start": {start.Format(time.RFC3339)}, "end": {end.Format(time.RFC3339)},
	}.Encode(), "")
	var answer struct {
		Error string
		Data  struct {
			Result []struct {
				Metric map[string]string
				Values [][2]any
			}
		}
	}
	if err == nil {
		err = json.Unmarshal([]byte(text), &answer)
	}
	if err != nil {
		return nil, fmt.Errorf("querying %s: %w", expr, err)
	}
	if answer.Error != "" {
		return nil, fmt.Errorf("querying %s: %s", expr, answer.Error)
	}
	var list []series
	for _, r := range answer.Data.Result {
		s := series{name: label.ReplaceAllStringFunc(legend, func(text string) string {
			return r.Metric[strings.Trim(text, "{} ")]
		})}
		for _, v := range r.Values {
			seconds, _ := v[0].(float64)
			text, _ := v[1].(string)
			if value, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(value) && !math.IsInf(value, 0) {
				s.points = append(s.points, point{time.UnixMilli(int64(seconds * 1000)), value})
			}
		}
		list = append(list, s)
	}
	return list, nil
}

// label matches the placeholder of a label in a legend, such as {{pod}}.
var label = regexp.MustCompile(`\{\{[^}]*\}\}`)

// A canvas is the part of the picture that has been drawn so far. Its grid has
// 24 columns, like a dashboard of Grafana.
type canvas struct {
	start, end time.Time
	spans      []span
	body       strings.Builder
	bottom     int
}

const (
	column, row = 50, 24 // pixels of the grid
	top         = 30     // pixels above the grid
)

var colors = []string{"#1f77b4", "#d62728", "#2ca02c", "#ff7f0e", "#9467bd", "#8c564b", "#e377c2", "#17becf"}

func (c *canvas) text(x, y int, class, text string) {
	fmt.Fprintf(&c.body, "<text x=\"%d\" y=\"%d\" class=%q>%s</text>\n", x, y, class, html.EscapeString(text))
}

func (c *canvas) panel(p panel, list []series) {
	x, y, width, height := p.GridPos.X*column, top+p.GridPos.Y*row, p.GridPos.W*column, p.GridPos.H*row
	c.bottom = max(c.bottom, y+height)
	if p.Type == "row" {
		c.text(x+6, y+17, "row", p.Title)
		return
	}
	fmt.Fprintf(&c.body, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" class=\"panel\"/>\n",
		x+3, y+2, width-6, height-4)
	c.text(x+10, y+17, "title", p.Title)
	list = slices.DeleteFunc(list, func(s series) bool { return len(s.points) == 0 })
	if p.Type == "stat" {
		c.stat(x+10, y+38, list)
		return
	}
	const legend = 15 // pixels of a line
	lines := min(len(list), 5)
	c.graph(box{x + 48, y + 26, width - 60, height - 36 - legend*lines}, p.FieldConfig.Defaults.Unit, list)
	for i, s := range list[:lines] {
		name := s.name
		if i == lines-1 && len(list) > lines {
			name += fmt.Sprintf(", and %d more", len(list)-lines)
		}
		bottom := y + height - 8 - legend*(lines-1-i)
		fmt.Fprintf(&c.body, "<rect x=\"%d\" y=\"%d\" width=\"10\" height=\"3\" fill=%q/>\n",
			x+12, bottom-5, colors[i%len(colors)])
		c.text(x+27, bottom, "small", name)
	}
}

// stat shows the largest value of each of the first four series, or "none" if
// there is no series.
func (c *canvas) stat(x, y int, list []series) {
	if len(list) == 0 {
		c.text(x, y, "small", "none")
	}
	for i, s := range list[:min(len(list), 4)] {
		largest := slices.MaxFunc(s.points, func(a, b point) int { return cmp.Compare(a.value, b.value) })
		c.text(x, y+15*i, "small", fmt.Sprintf("%s: at most %s", cmp.Or(s.name, "all"), number(largest.value)))
	}
}

type box struct{ x, y, width, height int }

// graph draws each series as a line, on top of the spans of the incidents.
func (c *canvas) graph(b box, unit string, list []series) {
	largest := 0.0
	for _, s := range list {
		for _, p := range s.points {
			largest = max(largest, p.value)
		}
	}
	position := func(t time.Time) float64 {
		return float64(b.x) + float64(b.width)*float64(t.Sub(c.start))/float64(c.end.Sub(c.start))
	}
	for n, s := range c.spans {
		c.text(int(position(s.start))+2, b.y+10, "number", strconv.Itoa(n+1))
		fmt.Fprintf(&c.body, "<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" class=\"span\"/>\n",
			position(s.start), b.y, position(s.end)-position(s.start), b.height)
	}
	fmt.Fprintf(&c.body, "<path d=\"M%d %dV%dH%d\" class=\"axis\"/>\n", b.x, b.y, b.y+b.height, b.x+b.width)
	c.text(b.x-4, b.y+9, "y", number(largest)+units[unit])
	c.text(b.x-4, b.y+b.height, "y", "0")
	for i, s := range list {
		var path strings.Builder
		for n, p := range s.points {
			command := "L"
			if n == 0 || p.time.Sub(s.points[n-1].time) > 2*step {
				command = "M"
			}
			height := float64(b.height) * p.value / max(largest, 1e-9)
			fmt.Fprintf(&path, "%s%.1f %.1f", command, position(p.time), float64(b.y+b.height)-height)
		}
		fmt.Fprintf(&c.body, "<path d=%q class=\"line\" stroke=%q/>\n", path.String(), colors[i%len(colors)])
	}
}

// units are Grafana's names of units.
var units = map[string]string{"s": " s", "bytes": " B", "ops": "/s", "reqps": "/s"}

// number rounds v to three significant digits, or to a whole number if v has
// four digits before the point. From 10,000 on it has a suffix, such as 12.3k.
func number(v float64) string {
	suffix := ""
	for _, s := range []string{"k", "M", "G"} {
		if v >= 10_000 {
			v, suffix = v/1000, s
		}
	}
	return strconv.FormatFloat(v, 'g', max(3, len(strconv.Itoa(int(v)))), 64) + suffix
}

// svg returns the whole picture.
func (c *canvas) svg() string {
	var names []string
	for n, s := range c.spans {
		names = append(names, strconv.Itoa(n+1)+" "+s.name)
	}
	title := fmt.Sprintf("Two replicas in %s; red: %s", c.end.Sub(c.start).Round(time.Second), strings.Join(names, ", "))
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" role="img">
<title>The dashboard</title>
<style>
.page { fill: #f4f5f5 } .panel { fill: #fff; stroke: #ddd } .span { fill: #d62728; opacity: .1 }
.axis { fill: none; stroke: #999 } .line { fill: none; stroke-width: 1.5 } .row { font-size: 14px; font-weight: bold }
.title { font-size: 12px; font-weight: bold } .small { font-size: 11px }
.y { font-size: 10px; text-anchor: end; fill: #555 } .number { font-size: 10px; fill: #d62728 }
</style>
<rect width="100%%" height="100%%" class="page"/>
<text x="6" y="20" class="title">%s</text>
%s</svg>
`, 24*column, c.bottom+6, html.EscapeString(title), c.body.String())
}

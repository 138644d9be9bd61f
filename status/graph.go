package status

import (
	"fmt"
	"maps"
	"slices"
)

// graph is a drawing of the flow of changes. Informers are on the left,
// controllers in the middle, and the kinds that they write on the right.
type graph struct {
	Class         string
	Width, Height int
	Nodes         []node
	Edges         []edge
}

// node is a box for an informer, a controller or a written kind.
type node struct {
	Class                string // informer, controller or output, followed by "bad" if it has a problem
	X, Y, Width, Height  int
	Title, Text, Subtext string // Text and Subtext are cut to fit
}

// edge is a line between two nodes. Its title says why they are connected.
type edge struct {
	Class string // primary, owned, mapped, references or writes
	Path  string
	Title string
}

// layout is the width of nodes and gaps, in pixels, and the number of
// characters that fit into a node. The page contains one drawing for each
// layout, and its style shows the drawing that fits the window.
type layout struct {
	class            string
	node, gap, chars int
}

var layouts = []layout{
	{class: "wide", node: 200, gap: 110, chars: 26},
	{class: "narrow", node: 112, gap: 14, chars: 12},
}

const (
	nodeHeight = 46
	rowHeight  = 62
)

// draw places the nodes column by column and connects them.
func (l layout) draw(r *report) graph {
	kinds := outputsOf(r)
	rows := max(len(r.Informers), len(r.Controllers), len(kinds))
	g := graph{Class: l.class, Width: 3*l.node + 2*l.gap, Height: rows * rowHeight}
	informers, outputs := map[string]node{}, map[string]node{}
	for i, informer := range r.Informers {
		n := l.place(0, i, len(r.Informers), rows)
		n.Class, n.Title = "informer", informer.Name
		n.Text, n.Subtext = l.cut(informer.Name), l.cut(counted(informer.Objects, "object"))
		if !informer.Synced {
			n.Class, n.Subtext = "informer bad", "not synced"
		}
		informers[informer.Name] = n
		g.Nodes = append(g.Nodes, n)
	}
	for i, kind := range kinds {
		n := l.place(2, i, len(kinds), rows)
		n.Class, n.Title, n.Text, n.Subtext = "output", kind.Kind, l.cut(kind.Kind), "watched, too"
		if !kind.Watched {
			n.Class, n.Subtext = "output bad", "not watched"
			n.Title += ": a controller that writes it has no trigger for it, so changes by others are not repaired"
		}
		outputs[kind.Kind] = n
		g.Nodes = append(g.Nodes, n)
	}
	for i, c := range r.Controllers {
		n := l.place(1, i, len(r.Controllers), rows)
		n.Class, n.Title, n.Text, n.Subtext = "controller", c.Name, l.cut(c.Name), l.cut(string(c.Phase))
		g.Nodes = append(g.Nodes, n)
		g.connect(n, &c, informers, outputs)
	}
	return g
}

// connect draws the edges of one controller. Two triggers of one informer share
// an edge, whose title names both.
func (g *graph) connect(n node, c *controllerReport, informers, outputs map[string]node) {
	drawn := map[string]int{}
	for _, t := range c.Triggers {
		source, ok := informers[t.Informer]
		if i, found := drawn[t.Informer]; found {
			g.Edges[i].Title += " and " + t.Type
		} else if ok {
			drawn[t.Informer] = len(g.Edges)
			g.Edges = append(g.Edges, edge{
				t.Type, curve(source, n), fmt.Sprintf("%s → %s: %s", t.Informer, c.Name, t.Type),
			})
		}
	}
	for _, o := range c.Outputs {
		g.Edges = append(g.Edges, edge{"writes", curve(n, outputs[o.Kind]), fmt.Sprintf("%s writes %s", c.Name, o.Kind)})
	}
}

// outputsOf returns each written kind once. A kind is watched if every
// controller that writes it watches it.
func outputsOf(r *report) []outputReport {
	watched := map[string]bool{}
	for _, c := range r.Controllers {
		for _, o := range c.Outputs {
			byOthers, seen := watched[o.Kind]
			watched[o.Kind] = o.Watched && (byOthers || !seen)
		}
	}
	kinds := make([]outputReport, 0, len(watched))
	for _, kind := range slices.Sorted(maps.Keys(watched)) {
		kinds = append(kinds, outputReport{kind, watched[kind]})
	}
	return kinds
}

// place returns the position of the i-th of n nodes in a column. The column is
// centred vertically in a drawing with this number of rows.
func (l layout) place(column, i, n, rows int) node {
	top := (rows-n)*rowHeight/2 + (rowHeight-nodeHeight)/2
	return node{X: column * (l.node + l.gap), Y: top + i*rowHeight, Width: l.node, Height: nodeHeight}
}

// curve returns the path of a line from the right edge of one node to the left
// edge of another.
func curve(left, right node) string {
	x1, y1 := left.X+left.Width, left.Y+left.Height/2
	x2, y2 := right.X, right.Y+right.Height/2
	middle := (x1 + x2) / 2
	return fmt.Sprintf("M%d,%d C%d,%d %d,%d %d,%d", x1, y1, middle, y1, middle, y2, x2, y2)
}

// cut shortens a text to the width of a node.
func (l layout) cut(text string) string {
	letters := []rune(text)
	if len(letters) <= l.chars {
		return text
	}
	return string(letters[:l.chars-1]) + "…"
}

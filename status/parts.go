package status

// This file has the parts that pages are made of.

func (m *markup) begin(title string, refresh int) {
	m.add("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n" +
		"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n")
	if refresh > 0 {
		m.add(`<meta http-equiv="refresh" content="%d">`+"\n", refresh)
	}
	m.add("<title>%s</title>\n<style>", title)
	m.out.WriteString(string(pageStyle)) // its digest stands in the policy
	m.add("</style>\n</head>\n<body>\n")
}

func (m *markup) badge(class, text string) { m.add(`<span class="badge %s">%s</span>`, class, text) }

func (m *markup) table(caption string) {
	m.add("<table>\n<caption>%s</caption>\n<tbody>", caption)
}

func (m *markup) endTable() { m.add("</tbody>\n</table>\n") }

func (m *markup) fact(name, value string) { m.add("<tr><td>%s</td><td>%s</td></tr>", name, value) }

// cell writes a cell that carries its label to where there is no room for columns.
func (m *markup) cell(label, value string) {
	if value == "" {
		value = "–"
	}
	m.add(`<td data-label="%s"><div>%s</div></td>`+"\n", label, value)
}

func (m *markup) causes(causes []causeReport) {
	for _, c := range causes[:min(len(causes), maxCauses)] {
		m.add("<div>%s</div>", cause(c))
	}
	switch more := len(causes) - maxCauses; {
	case len(causes) == 0:
		m.add("–")
	case more > 0:
		m.add("<div>and %d more</div>", more)
	}
}

// graphs draws the report twice, for wide and for narrow windows.
func (o *overview) graphs() {
	o.add("<section id=\"graph\">\n<h2>What leads to what</h2>\n")
	for _, g := range graphsOf(o.report) {
		o.add(`<svg class="%s" role="img" aria-label="informers, controllers and the kinds that they write" `+
			`viewBox="0 0 %d %d" width="%d" height="%d">`+"\n", g.Class, g.Width, g.Height, g.Width, g.Height)
		for _, e := range g.Edges {
			o.add(`<path class="edge %s" d="%s"><title>%s</title></path>`+"\n", e.Class, e.Path, e.Title)
		}
		for _, n := range g.Nodes {
			o.add(`<g class="%s" transform="translate(%d,%d)"><title>%s</title><rect width="%d" height="%d" rx="7"/>`+
				`<text x="10" y="19">%s</text><text class="sub" x="10" y="36">%s</text></g>`+"\n",
				n.Class, n.X, n.Y, n.Title, n.Width, n.Height, n.Text, n.Subtext)
		}
		o.add("</svg>\n")
	}
	o.add(`<p class="legend"><span class="primary">reconciled objects</span> <span class="owned">owned</span> ` +
		`<span class="mapped">mapped</span> <span class="writes">written</span></p>` + "\n</section>\n")
}

package status

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/homeostat/homeostat/reconcile/inspect"
)

// overview writes the page about all controllers and informers.
type overview struct {
	markup
	*report
	refresh int // the seconds between reloads; 0 for no reload
	keys    int // number of keys of each controller
}

// render writes the whole page.
func (o *overview) render() {
	class, text, title := o.verdict()
	o.begin(title, o.refresh)
	o.add("<header>\n<h1>Homeostat</h1>\n")
	o.badge(class, text)
	o.add("\n<p>%s ·\n", o.Time.UTC().Format(pageTime))
	o.pace("?keys="+strconv.Itoa(o.keys)+"&", o.refresh)
	o.add("\n"+`· <a href="?format=json&amp;keys=%d">JSON</a></p>`+"\n</header>\n<main>\n", o.keys)
	o.problems()
	switch {
	case len(o.Controllers) > 0:
		o.graphs()
	case len(o.Informers) == 0:
		o.add("<p>There are no controllers.</p>\n")
	}
	for i := range o.Controllers {
		o.controller(&o.Controllers[i])
	}
	o.informers()
	o.add("</main>\n</body>\n</html>\n")
}

// problems writes why the process is not ready, and the problems that do not
// make it unready.
func (o *overview) problems() {
	if len(o.Problems) == 0 {
		return
	}
	o.add("<section id=\"problems\">\n<h2>Problems</h2>\n<dl>")
	for _, p := range o.Problems {
		o.add("<dt>%s</dt><dd>%s</dd>", p.Check, p.Reason)
	}
	o.add("</dl>\n</section>\n")
}

// controller writes the section of one controller: its state, slots, queue,
// counts and keys.
func (o *overview) controller(c *controllerReport) {
	o.add("<section class=\"controller\">\n<h2>%s ", c.Name)
	if c.Phase == inspect.Working || c.Phase == inspect.Standby {
		o.badge("good", string(c.Phase))
	} else {
		o.badge("bad", string(c.Phase))
	}
	o.add("</h2>\n<p>Reconciles %s. %d of %s busy; %s delayed, %d of them backing off",
		c.Kind, c.Active, counted(c.Workers, "worker"), counted(c.Delayed, "key"), c.BackingOff)
	if c.Leader != "" {
		o.add("; %s", c.Leader)
	}
	o.add(".</p>\n")
	o.slots(c.Slots)
	o.imbalance(c.Imbalance)
	o.add("<div class=\"facts\">\n")
	o.lanes(c.Lanes)
	o.table("Reconciles")
	for _, result := range slices.Sorted(maps.Keys(c.Reconciles)) {
		o.fact(result, c.Reconciles[result])
	}
	o.endTable()
	o.facts(c)
	o.add("</div>\n")
	o.keyTable(c)
	o.add(`<form><input type="hidden" name="controller" value="%s"><input name="key" required `+
		`placeholder="namespace/name" aria-label="key"> <button>show this key</button></form>`+"\n", c.Name)
	o.add("</section>\n")
}

// slots writes a square for each slot, coloured by its state, and names the
// namespaces that are too heavy.
func (o *overview) slots(slots []slotReport) {
	if len(slots) == 0 {
		return
	}
	o.add(`<ol class="slots" start="0" aria-label="slots">`)
	for _, s := range slots {
		o.add(`<li class="%s" title="%s"></li>`, s.State, slot(o.Time, s))
	}
	o.add("</ol>\n")
	for n, s := range slots {
		if s.Heavy != "" {
			o.add("<p>The namespace %s in shard %d is too heavy: its objects are more than the fair share of a replica, "+
				"and are not divided.</p>\n", s.Heavy, n)
		}
	}
}

// imbalance warns if a replica has far more objects than the mean.
func (o *overview) imbalance(heaviest float64) {
	if heaviest > 1.5 {
		o.add("<p>The replica with the most objects has %s times the mean of all replicas. Scaling to zero and up divides "+
			"the namespaces anew.</p>\n", fmt.Sprintf("%.1f", heaviest))
	}
}

// lanes writes the table of the queue's lanes.
func (o *overview) lanes(lanes []laneReport) {
	o.add("<table>\n<caption>Queue</caption>\n" +
		"<thead><tr><th>lane</th><th>waiting</th><th>oldest</th><th>dispatched</th></tr></thead>\n<tbody>")
	for _, l := range lanes {
		oldest := "–"
		if l.Depth > 0 {
			oldest = span(l.Oldest)
		}
		o.add("<tr><td>%s</td><td>%d</td><td>%s</td><td>%d</td></tr>", l.Lane, l.Depth, oldest, l.Dispatched)
	}
	o.endTable()
}

// facts writes the counts of a controller, and the counts of its sweeps if it
// sweeps.
func (o *overview) facts(c *controllerReport) {
	o.table("Other counts")
	o.fact("keys whose last reconcile failed", c.Failing)
	o.fact("keys that are retried", c.Retrying)
	o.fact("waited for their own writes", c.HeldBack)
	o.fact("ran before seeing them", c.Overdue)
	o.fact("slowed down: no progress", c.HotLoops)
	if s := c.Sweep; s != nil {
		success := "never"
		if !s.Last.IsZero() {
			success = age(o.Time, s.Last)
		}
		o.fact("names known outside", s.Known)
		o.fact("orphans enqueued", s.Orphans)
		o.fact("last good sweep", success)
	}
	o.endTable()
}

// keyTable writes the keys that are held, waiting, delayed or resting.
func (o *overview) keyTable(c *controllerReport) {
	if len(c.Keys) == 0 {
		o.add("<p class=\"quiet\">No key is being reconciled, waiting or backing off.</p>\n")
		return
	}
	o.add("<table class=\"keys\">\n<thead><tr><th>key</th><th>state</th><th>attempt</th><th>causes</th>" +
		"<th>last error</th></tr></thead>\n<tbody>\n")
	for i := range c.Keys {
		o.keyRow(c.Name, &c.Keys[i])
	}
	o.endTable()
	if c.More {
		o.add(`<p>There are more keys: <a href="?keys=%d">show up to %d</a>.</p>`+"\n", maxKeys, maxKeys)
	}
}

// keyRow writes the row of one key, with a link to its own page.
func (o *overview) keyRow(controller string, k *keyReport) {
	failed := ""
	if k.Error != "" {
		failed = " failed"
	}
	o.add(`<tr class="%s%s">`+"\n"+`<td data-label="key"><div><a href="%s">`, k.State, failed,
		linkTo(controller, k.Namespace, k.Name))
	if k.Namespace != "" {
		o.add(`<span class="ns">%s/</span>`, k.Namespace)
	}
	o.add("%s</a></div></td>\n", k.Name)
	o.cell("state", state(o.Time, k))
	o.cell("attempt", k.Attempt)
	o.add(`<td data-label="causes"><div>`)
	o.causes(k.Causes)
	o.add("</div></td>\n"+`<td data-label="last error"><div>%s`, cmp.Or(k.Error, "–"))
	if !k.FailedAt.IsZero() {
		o.add(" <small>%s</small>", age(o.Time, k.FailedAt))
	}
	o.add("</div></td>\n</tr>\n")
}

// informers writes the table of all informers.
func (o *overview) informers() {
	if len(o.Informers) == 0 {
		return
	}
	o.add("<section id=\"informers\">\n<h2>Informers</h2>\n<table class=\"keys\">\n" +
		"<thead><tr><th>informer</th><th>kind</th>" +
		"<th>scope</th><th>state</th><th>objects</th><th>size</th><th>version seen</th><th>heard</th><th>lag</th>" +
		"<th>lists</th><th>watches</th><th>used by</th></tr></thead>\n<tbody>\n")
	for _, i := range o.Informers {
		class, heard := "", "–"
		if !i.Synced {
			class = "failed"
		}
		if !i.LastActivity.IsZero() {
			heard = age(o.Time, i.LastActivity)
		}
		o.add(`<tr class="%s">`+"\n", class)
		o.cell("informer", i.Name)
		o.cell("kind", i.Kind)
		o.cell("scope", scope(i))
		o.cell("state", condition(i))
		if i.Referenced {
			o.cell("objects", fmt.Sprintf("%d of %s", i.Objects, counted(i.References, "reference")))
		} else {
			o.cell("objects", i.Objects)
		}
		o.cell("size", size(i.Bytes))
		o.cell("version seen", i.Version)
		o.cell("heard", heard)
		o.cell("lag", span(i.Lag))
		o.cell("lists", i.Lists)
		o.cell("watches", watching(o.Time, &i))
		o.cell("used by", strings.Join(i.Controllers, ", "))
		o.add("</tr>\n")
	}
	o.endTable()
	o.add("</section>\n")
}

// graphs draws the report once for each layout.
func (o *overview) graphs() {
	o.add("<section id=\"graph\">\n<h2>Flow of changes</h2>\n")
	for _, l := range layouts {
		g := l.draw(o.report)
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

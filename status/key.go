package status

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// keyView is the content of the page of one key, and its JSON.
type keyView struct {
	Time       time.Time `json:"time"`
	Controller string    `json:"controller"`
	Namespace  string    `json:"namespace"`
	Name       string    `json:"name"`
	// Now is the state of the key if it is in the queue, or if its last
	// reconcile gave up. Otherwise it is null. It is also null if maxKeys other
	// keys come first in the status of the controller.
	Now *keyReport `json:"now"`
	// References are the objects that the key's object refers to, by
	// reconcile.References.
	References []referenceReport `json:"references,omitempty"`
	// Attempts are the last reconciles of the key, the newest first.
	Attempts []attemptReport `json:"attempts"`
}

// referenceReport describes an object that another object refers to.
type referenceReport struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	State     string `json:"state"`
}

// attemptReport describes one reconcile. Seen is when the caches had seen its
// writes. Seen is left out if the caches have not seen the writes yet, or if
// the reconcile wrote no object.
type attemptReport struct {
	Number     int           `json:"number"`
	Start      time.Time     `json:"start"`
	Took       float64       `json:"tookSeconds"`
	Causes     []causeReport `json:"causes"`
	Writes     []writeReport `json:"writes"`
	MoreWrites int           `json:"moreWrites,omitempty"`
	Seen       time.Time     `json:"seen,omitzero"`
	Overdue    bool          `json:"overdue,omitempty"`
	Outcome    string        `json:"outcome"`
	Error      string        `json:"error,omitempty"`
}

// writeReport names an object that a reconcile wrote. Version is its
// resourceVersion after the write.
type writeReport struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Version   string `json:"version,omitempty"`
	Deleted   bool   `json:"deleted,omitempty"`
}

// keyViewOf returns the view of the key that query names. It returns false if
// the named controller does not exist. The view of a key that was never
// reconciled has no attempts.
func keyViewOf(controllers []*reconcile.Controller, query url.Values) (*keyView, bool) {
	name := query.Get("controller")
	i := slices.IndexFunc(controllers, func(c *reconcile.Controller) bool { return c.Name() == name })
	if i < 0 {
		return nil, false
	}
	key := reconcile.Key{Name: query.Get("key")}
	if namespace, name, ok := strings.Cut(key.Name, "/"); ok {
		key = reconcile.Key{Namespace: namespace, Name: name}
	}
	v := &keyView{
		Time: time.Now(), Controller: name, Namespace: key.Namespace, Name: key.Name, Attempts: []attemptReport{},
	}
	status := controllers[i].Status(maxKeys)
	if k := slices.IndexFunc(status.Keys, func(k inspect.KeyStatus) bool { return k.Key == key }); k >= 0 {
		report := keyOf(&status.Keys[k], status.Phase)
		v.Now = &report
	}
	for _, r := range controllers[i].References(key) {
		v.References = append(v.References, referenceReport{r.Kind, r.Key.Namespace, r.Key.Name, r.State})
	}
	for _, a := range slices.Backward(controllers[i].History(key)) {
		v.Attempts = append(v.Attempts, attemptOf(&a))
	}
	return v, true
}

// attemptOf returns the report of one attempt.
func attemptOf(a *inspect.Attempt) attemptReport {
	r := attemptReport{
		Number: a.Number, Start: a.Start, Took: a.Took.Seconds(), Causes: causesOf(a.Causes), Writes: []writeReport{},
		MoreWrites: a.MoreWrites, Seen: a.Seen, Overdue: a.Overdue,
		Outcome: a.Outcome.String(), Error: a.Failure,
	}
	for _, w := range a.Writes {
		r.Writes = append(r.Writes, writeReport{w.Kind, w.Namespace, w.Name, w.ResourceVersion, w.Deleted})
	}
	return r
}

// keyPage writes the page of one key.
type keyPage struct {
	markup
	*keyView
	refresh int // the seconds between reloads; 0 for no reload
}

// linkTo returns the address of the page of a key, relative to any page of this
// package.
func linkTo(controller, namespace, name string) string {
	return "?" + url.Values{"controller": {controller}, "key": {title(namespace, name)}}.Encode()
}

// render writes the whole page.
func (p *keyPage) render() {
	address := linkTo(p.Controller, p.Namespace, p.Name)
	p.begin(title(p.Namespace, p.Name)+" in "+p.Controller, p.refresh)
	p.add("<header>\n<h1>%s</h1>\n", title(p.Namespace, p.Name))
	p.add("<p>in controller %s · %s ·\n", p.Controller,
		p.Time.UTC().Format(pageTime))
	p.pace(address+"&", p.refresh)
	p.add("\n"+`· <a href="%s">JSON</a> · <a href="?">all keys</a></p>`+"\n</header>\n", address+"&format=json")
	p.add("<main>\n<section>\n")
	text := "idle: neither waiting nor being reconciled"
	if p.Now != nil {
		text = state(p.Time, p.Now)
	}
	p.add("<h2>Now</h2>\n<p>%s</p>\n", text)
	if len(p.References) > 0 {
		p.add("<h2>References</h2>\n<ul>\n")
		for _, r := range p.References {
			p.add("<li>%s %s: %s</li>\n", r.Kind, title(r.Namespace, r.Name), r.State)
		}
		p.add("</ul>\n")
	}
	p.add("<h2>Last reconciles, newest first</h2>\n")
	if len(p.Attempts) == 0 {
		p.add("<p class=\"quiet\">No reconcile is recorded yet. Viewing this page records them for ten minutes.</p>\n")
	}
	p.add("<ol class=\"timeline\">\n")
	for i := range p.Attempts {
		p.attempt(&p.Attempts[i])
	}
	p.add("</ol>\n</section>\n</main>\n</body>\n</html>\n")
}

// attempt writes one entry of the timeline: the causes, the reconcile, its
// writes, when they were seen, and the outcome.
func (p *keyPage) attempt(a *attemptReport) {
	class := "bad"
	if a.Error == "" {
		class = "good"
	}
	p.add(`<li class="%s"><h3>%s <small>%s, attempt %d</small></h3>`+"\n<dl class=\"steps\">\n",
		class, age(p.Time, a.Start), a.Start.UTC().Format("15:04:05.000"), a.Number)
	p.add("<div><dt>cause</dt><dd>")
	p.causes(a.Causes)
	p.add("</dd></div>\n<div><dt>reconcile</dt><dd>took %s", span(a.Took))
	if a.Overdue {
		p.add(", before its last writes were seen")
	}
	p.add("</dd></div>\n<div><dt>writes</dt><dd>")
	p.writes(a)
	p.add("</dd></div>\n<div><dt>seen</dt><dd>%s</dd></div>\n<div><dt>outcome</dt><dd>", seen(a))
	p.badge(class, a.Outcome)
	if a.Error != "" {
		p.add(" %s", a.Error)
	}
	p.add("</dd></div>\n</dl></li>\n")
}

// writes lists the objects that an attempt wrote, one on each line.
func (p *keyPage) writes(a *attemptReport) {
	if len(a.Writes) == 0 {
		p.add("–")
	}
	for _, w := range a.Writes {
		text := w.Kind + " " + title(w.Namespace, w.Name)
		if w.Deleted {
			text = "deleted " + text
		} else if w.Version != "" {
			text += " →" + w.Version
		}
		p.add("<div>%s</div>", text)
	}
	if a.MoreWrites > 0 {
		p.add("<div>and %d more</div>", a.MoreWrites)
	}
}

// seen says in words when the caches had seen the writes of an attempt.
func seen(a *attemptReport) string {
	switch {
	case len(a.Writes) == 0:
		return "–"
	case a.Seen.IsZero():
		return "not yet"
	default:
		end := a.Start.Add(time.Duration(a.Took * float64(time.Second)))
		return fmt.Sprintf("after %s", rounded(a.Seen.Sub(end)))
	}
}

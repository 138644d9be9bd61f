package state

import (
	"regexp"
	"strings"
)

// Affected names what a fault that lasts may change. An object of Titles may
// differ in everything, and any value may differ that mentions one of Names.
type Affected struct {
	Titles map[string]bool // "secrets d/a"
	Names  map[string]bool
	// Struck is the key of the object that the fault strikes, or empty. An
	// object in its namespace belongs to it if one name begins with the other,
	// as "shop" and "shop-key".
	Struck string
}

// Objects returns the objects of the rest. They are shared; do not modify them.
func (r *Rest) Objects() []Located { return r.objects }

// DiffOthers lists how r differs from want, as [Rest.Diff] does, apart from
// what is affected. A status tells of other objects, as do labels and
// annotations: only the existence and the content of objects count.
func (r *Rest) DiffOthers(want *Rest, masked map[string]bool, affected Affected) []string {
	var others []change
	for _, c := range r.changes(want, masked) {
		title, field, isField := strings.Cut(c.key, ": ")
		switch {
		case affected.Titles[title] || affected.related(title) || strings.Contains(title, "*"):
		case isField && (strings.HasPrefix(field, "status") || strings.HasPrefix(field, "metadata.")):
		case isField && (affected.mentioned(field) || affected.mentioned(c.have) || affected.mentioned(c.should)):
		case !isField && affected.reported(title):
		default:
			others = append(others, c)
		}
	}
	return linesOf(others)
}

// word matches a part of a text that may be a name.
var word = regexp.MustCompile(`[a-z0-9]([-a-z0-9]*[a-z0-9])?`)

// mentioned reports whether a text contains an affected name, by itself or at
// the beginning of a longer name.
func (a Affected) mentioned(text string) bool {
	for _, w := range word.FindAllString(text, -1) {
		for name := range a.Names {
			if w == name || strings.HasPrefix(w, name+"-") || strings.HasSuffix(w, "-"+name) {
				return true
			}
		}
	}
	return false
}

// related reports whether an object belongs to the struck one by its name.
func (a Affected) related(title string) bool {
	_, key, _ := strings.Cut(title, " ")
	return a.Struck != "" && (strings.HasPrefix(a.Struck+"-", key+"-") || strings.HasPrefix(key+"-", a.Struck+"-"))
}

// reported reports whether an object may only exist because of an affected one,
// by its name.
func (a Affected) reported(title string) bool {
	_, key, _ := strings.Cut(title, " ")
	_, name, found := strings.Cut(key, "/")
	if !found {
		name = key
	}
	for affected := range a.Names {
		if name != affected && a.mentioned(name) {
			return true
		}
	}
	return false
}

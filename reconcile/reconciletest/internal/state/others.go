package state

import (
	"regexp"
	"strings"
)

// Affected describes what a lasting fault may change. The objects in Titles may
// differ in all fields. In other objects, a value may differ if it contains the
// name of an object in Titles.
type Affected struct {
	Titles map[string]bool // such as "secrets d/a"
	Names  map[string]bool
	// Struck is the key of the object to which the fault applies, or empty if
	// there is no such object. An object in the same namespace belongs to it if
	// the name of one begins with the name of the other and a hyphen, such as
	// "shop" and "shop-key".
	Struck string
}

// Objects returns the objects that existed at the rest. They are shared; do not
// modify them.
func (r *Rest) Objects() []Located { return r.objects }

// DiffOthers lists how r differs from want, as [Rest.Diff] does, except for
// affected objects and values. It compares only the existence and the content
// of objects. It does not compare the status and the metadata, such as labels
// and annotations, because they may describe other objects that are affected.
// It does not compare objects with generated names.
func (r *Rest) DiffOthers(want *Rest, masked map[string]bool, affected Affected) []string {
	var unrelated []change
	for _, c := range r.changes(want, masked) {
		title, field, isField := strings.Cut(c.key, ": ")
		switch {
		case affected.Titles[title] || affected.related(title) || strings.Contains(title, "*"):
		case isField && (strings.HasPrefix(field, "status") || strings.HasPrefix(field, "metadata.")):
		case isField && (affected.mentioned(field) || affected.mentioned(c.value) || affected.mentioned(c.wantValue)):
		case !isField && affected.reported(title):
		default:
			unrelated = append(unrelated, c)
		}
	}
	return linesOf(unrelated)
}

// word matches a part of a text that may be a name.
var word = regexp.MustCompile(`[a-z0-9]([-a-z0-9]*[a-z0-9])?`)

// mentioned reports whether a text contains an affected name, by itself, or at
// the beginning or the end of a longer name. For example, web is in web-1 and
// in my-web.
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

// related reports whether the name of an object shows that it belongs to the
// object that the fault affects.
func (a Affected) related(title string) bool {
	_, key, _ := strings.Cut(title, " ")
	return a.Struck != "" && (strings.HasPrefix(a.Struck+"-", key+"-") || strings.HasPrefix(key+"-", a.Struck+"-"))
}

// reported reports whether the name of an object shows that it may exist only
// because of an affected object.
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

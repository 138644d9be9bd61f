// Package state compares the server's state at rest in two runs, leaving out
// values that differ between any two runs.
package state

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"regexp"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/report"
)

// State holds one entry for each field of each object: "configmaps d/a: data.x"
// → "1". Identifiers, times and generated names are replaced by placeholders. A
// value that is the resourceVersion of an object has the object's name after
// it.
type State map[string]string

// Located is an object with the name of its resource.
type Located struct {
	Resource string // "pods", "jobs.batch"
	Object   *unstructured.Unstructured
}

// Ignored reports whether a resource is left out of every comparison: Events
// and Leases do not describe the result of the program's work. Kinds of other
// groups may have the same names.
func Ignored(r schema.GroupResource) bool {
	switch r.Resource {
	case "events":
		return r.Group == corev1.GroupName || r.Group == eventsv1.GroupName
	case "leases":
		return r.Group == coordinationv1.GroupName
	}
	return false
}

// KeyOf is an object's namespace, a slash, and its name; the name alone if it
// has no namespace.
func KeyOf(o *unstructured.Unstructured) string {
	if o.GetNamespace() == "" {
		return o.GetName()
	}
	return o.GetNamespace() + "/" + o.GetName()
}

var timestamp = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$`)

// volatile lists the fields of the metadata that depend on the history of an
// object.
var volatile = []string{
	"resourceVersion", "uid", "creationTimestamp", "managedFields", "generation", "selfLink", "deletionTimestamp",
	"name", "namespace",
}

// normalizer replaces values that differ between any two runs.
type normalizer struct {
	placeholders map[string]string // by identifier or generated name
	versions     map[string]string // the objects, by resourceVersion
	ignore       *Ignore
	resource     string // of the object that is added
	out          State
}

// Of returns the state of objects in the order of their creation, grouped by
// resource.
func Of(all []Located, ignore *Ignore) State {
	all = slices.DeleteFunc(all, func(l Located) bool { return ignore.has(l.Resource, "*") })
	n := &normalizer{placeholders: map[string]string{}, versions: map[string]string{}, ignore: ignore, out: State{}}
	titles := make([]string, len(all))
	for _, late := range []bool{false, true} { // a name made from a UID comes after that UID's object
		for i, l := range all {
			if uidIn.MatchString(l.Object.GetName()) == late {
				titles[i] = n.title(l)
			}
		}
	}
	for i, l := range all {
		n.out[titles[i]], n.resource = "there", l.Resource
		n.add(titles[i]+": ", l.Object)
	}
	return n.out
}

// title names an object, and makes the placeholders for its identifiers.
func (n *normalizer) title(l Located) string {
	n.resource = l.Resource
	title := l.Resource + " " + n.name(l.Object)
	n.placeholders[string(l.Object.GetUID())] = "uid of " + title
	n.versions[l.Object.GetResourceVersion()] = title
	if ip, _, _ := unstructured.NestedString(l.Object.Object, "spec", "clusterIP"); net.ParseIP(ip) != nil {
		n.placeholders[ip] = "address of " + title
	}
	return title
}

// uidIn matches possible UIDs of objects, anywhere in a text.
var uidIn = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// withoutUIDs is a text with placeholders for the UIDs of known objects.
func (n *normalizer) withoutUIDs(s string) string {
	if len(s) < 36 {
		return s
	}
	return uidIn.ReplaceAllStringFunc(s, func(uid string) string { return cmp.Or(n.placeholders[uid], uid) })
}

// generated matches the suffix that the API server appends to the first 58
// characters of generateName: five of an alphabet that spells no words.
var generated = regexp.MustCompile(`^[bcdfghjklmnpqrstvwxz2456789]{5}$`)

// Generated returns the object's generateName if the server has made the name
// from it. A program may give both, as StatefulSets do: then the name is its
// own.
func Generated(o *unstructured.Unstructured) (prefix string, ok bool) {
	prefix = o.GetGenerateName()
	suffix, is := strings.CutPrefix(o.GetName(), prefix[:min(len(prefix), 58)])
	return prefix, prefix != "" && is && generated.MatchString(suffix)
}

// name is the object's namespace and name, with a number in place of the
// generated part.
func (n *normalizer) name(o *unstructured.Unstructured) string {
	name := o.GetName()
	prefix, madeUp := Generated(o)
	if n.ignore.has(n.resource, "metadata.name") {
		madeUp = true // its owner distinguishes it from others
		labels := o.GetLabels()
		delete(labels, RivalKey)
		prefix = fmt.Sprint(labels)
		if owner := metav1.GetControllerOf(o); owner != nil {
			prefix = owner.Name + "-"
		}
	}
	if madeUp {
		i := 1
		for slices.Contains(slices.Collect(maps.Values(n.placeholders)), fmt.Sprintf("%s*%d", prefix, i)) {
			i++
		}
		n.placeholders[name] = fmt.Sprintf("%s*%d", prefix, i)
		name = n.placeholders[name]
	} else {
		name = n.withoutUIDs(name)
	}
	if ns := o.GetNamespace(); ns != "" {
		return ns + "/" + name
	}
	return name
}

func (n *normalizer) add(title string, o *unstructured.Unstructured) {
	for key, v := range o.Object {
		switch key {
		case "apiVersion", "kind":
		case "metadata":
			m := maps.Clone(v.(map[string]any))
			for _, f := range volatile {
				delete(m, f)
			}
			n.flatten(title, "metadata", m)
		default:
			n.flatten(title, key, upToDate(o, key, v))
		}
	}
}

// upToDate replaces status.observedGeneration by whether it is the generation.
func upToDate(o *unstructured.Unstructured, key string, v any) any {
	status, ok := v.(map[string]any)
	if key != "status" || !ok || status["observedGeneration"] == nil {
		return v
	}
	status = maps.Clone(status)
	seen, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
	status["observedGeneration"] = "of an older spec"
	if seen == o.GetGeneration() {
		status["observedGeneration"] = "of this spec"
	}
	return status
}

func (n *normalizer) flatten(title, path string, v any) {
	if n.ignore.has(n.resource, path) || path == "metadata.annotations."+RivalKey || path == "metadata.labels."+RivalKey {
		return
	}
	switch t := v.(type) {
	case map[string]any:
		for k, sub := range t {
			n.flatten(title, path+"."+k, sub)
		}
	case []any:
		names := elements(path, t)
		for i, sub := range t {
			n.flatten(title, path+names[i], sub)
		}
	case string:
		n.out[title+path] = n.text(t)
	case int64:
		n.out[title+path] = fmt.Sprint(t)
		if n.resource == "services" && strings.HasSuffix(path, "odePort") && t >= firstNodePort {
			n.out[title+path] = "a port of the nodes"
		}
	default:
		text, _ := json.Marshal(v)
		n.out[title+path] = string(text)
	}
}

// firstNodePort begins those that the server chooses from.
const firstNodePort = 30000

// elements names the elements of a list: "[0]" by its place, or "[Ready]" by
// its type or name in a status, where the order is that in which they have
// come.
func elements(path string, list []any) []string {
	if strings.HasPrefix(path, "status.") {
		for _, key := range []string{"type", "name"} {
			if names := namesBy(key, list); names != nil {
				return names
			}
		}
	}
	names := make([]string, len(list))
	for i := range names {
		names[i] = fmt.Sprintf("[%d]", i)
	}
	return names
}

// namesBy are the elements' values of a key; nil if one has none, or that of
// another.
func namesBy(key string, list []any) []string {
	names := make([]string, len(list))
	for i, v := range list {
		m, _ := v.(map[string]any)
		value, _ := m[key].(string)
		name := "[" + value + "]"
		if value == "" || slices.Contains(names, name) {
			return nil
		}
		names[i] = name
	}
	return names
}

func (n *normalizer) text(s string) string {
	if placeholder, ok := n.placeholders[s]; ok {
		return placeholder
	}
	if timestamp.MatchString(s) {
		return "a time"
	}
	if of, is := n.versions[s]; is && s != "" {
		return s + versionOf + of
	}
	return n.withoutUIDs(s)
}

const versionOf = ", the resourceVersion of "

// alike reports whether two values are the same, or the resourceVersions of the
// same object, which differ between runs. An earlier resourceVersion does not
// count.
func alike(a, b string) bool {
	if a == b {
		return true
	}
	x, ofX, _ := strings.Cut(a, versionOf)
	y, ofY, _ := strings.Cut(b, versionOf)
	return x == y || ofX != "" && ofX == ofY
}

const most = 20 // lines of a diff

// Diff lists the differences of s from want, except in masked fields: lines of
// want begin with "- ", lines of s with "+ ". It returns at most 20 lines.
func (s State) Diff(want State, masked map[string]bool) []string {
	return linesOf(s.changes(want, masked))
}

// change is one key in which two states differ.
type change struct {
	key          string
	had, has     bool
	should, have string
}

// changes returns the differences of s from want, sorted, except in masked fields.
func (s State) changes(want State, masked map[string]bool) []change {
	keys := maps.Clone(map[string]string(s))
	maps.Copy(keys, want)
	var all []change
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		c := change{key: k}
		c.have, c.has = s[k]
		c.should, c.had = want[k]
		if masked[k] || c.has == c.had && alike(c.have, c.should) || s.lacks(k) || want.lacks(k) {
			continue
		}
		all = append(all, c)
	}
	return all
}

func linesOf(changes []change) []string {
	var lines []string
	for _, c := range changes {
		if c.had {
			lines = append(lines, "- "+c.key+" = "+c.should)
		}
		if c.has {
			lines = append(lines, "+ "+c.key+" = "+c.have)
		}
	}
	if len(lines) > most {
		return append(lines[:most:most], fmt.Sprintf("… and %d more", len(lines)-most))
	}
	return lines
}

// lacks reports whether the key is a field of an object that does not exist.
func (s State) lacks(key string) bool {
	title, _, field := strings.Cut(key, ": ")
	return field && s[title] == ""
}

// Mask returns the fields and objects in which two right runs differ.
func (s State) Mask(other State) map[string]bool {
	masked := map[string]bool{}
	for _, of := range []State{s, other} {
		for k := range of {
			if !alike(s[k], other[k]) {
				masked[k] = true
			}
		}
	}
	return masked
}

// Compare compares a run at each rest with the run without faults, using the
// mask of each rest. If the numbers of rests differ, it compares only the ends.
// It returns the number of the rest that differs, from 0, and the difference,
// or nil.
func Compare(have, want []*Rest, masks []map[string]bool) (at int, differs *Difference) {
	for i := range want {
		when := fmt.Sprintf("at rest before step %d of the workload", i+1)
		at = i
		if i == len(want)-1 {
			at, when = len(have)-1, "at the end"
		} else if len(have) != len(want) {
			continue
		}
		var mask map[string]bool
		if i < len(masks) {
			mask = masks[i]
		}
		if changes := have[at].changes(want[i], mask); len(changes) > 0 {
			return at, &Difference{
				Text: "the state differs from the run without faults, " + when + " (- without, + with):\n    " +
					strings.Join(linesOf(changes), "\n    "),
				Seen: seen(changes),
			}
		}
	}
	return 0, nil
}

// Difference is how the state of a run differs from the run without faults.
type Difference struct {
	Text string
	Seen report.Seen
}

// seen has what the differences show of their cause.
func seen(changes []change) report.Seen {
	s := report.Seen{End: true, Fields: true, Lost: true}
	for _, c := range changes {
		title, _, field := strings.Cut(c.key, ": ")
		s.Fields = s.Fields && field
		s.Lost = s.Lost && !c.has
		s.MadeUp = s.MadeUp || strings.Contains(title, "-*")
	}
	s.Lost = s.Lost && !s.Fields
	return s
}

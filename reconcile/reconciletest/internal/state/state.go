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

// State holds one entry for each object, and one for each of its fields:
// "configmaps d/a: data.x" → "1". It has no entries for ignored fields, and for
// metadata that depends on the history of the object, such as its generation.
// Identifiers, times and generated names are replaced by placeholders. A value
// that is the resourceVersion of an object is followed by the object's name.
type State map[string]string

// Located is an object with the name of its resource.
type Located struct {
	Resource string // such as "pods" or "jobs.batch"
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

// KeyOf returns "namespace/name", or only the name of an object without a
// namespace.
func KeyOf(o *unstructured.Unstructured) string {
	if o.GetNamespace() == "" {
		return o.GetName()
	}
	return o.GetNamespace() + "/" + o.GetName()
}

var timestamp = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$`)

// volatile lists the fields of the metadata that a State leaves out. Most of
// them depend on the history of an object, such as its resourceVersion. The
// name and the namespace are in the title of the object.
var volatile = []string{
	"resourceVersion", "uid", "creationTimestamp", "managedFields", "generation", "selfLink", "deletionTimestamp",
	"name", "namespace",
}

// normalizer replaces values that differ between any two runs.
type normalizer struct {
	placeholders map[string]string // the placeholders, by identifier or generated name
	versions     map[string]string // the title of the object with a resourceVersion, such as "pods default/a"
	ignore       *Ignore
	resource     string // the resource of the object that is being added
	state        State
}

// New returns the State of objects. They must be grouped by resource and,
// within a resource, sorted by creation, because placeholders such as web-*1
// are numbered in that order. New removes ignored objects from the slice in
// place.
func New(objects []Located, ignore *Ignore) State {
	objects = slices.DeleteFunc(objects, func(l Located) bool { return ignore.contains(l.Resource, "*") })
	n := &normalizer{placeholders: map[string]string{}, versions: map[string]string{}, ignore: ignore, state: State{}}
	titles := make([]string, len(objects))
	for _, derived := range []bool{false, true} { // a name made from a UID comes after that UID's object
		for i, l := range objects {
			if uidIn.MatchString(l.Object.GetName()) == derived {
				titles[i] = n.title(l)
			}
		}
	}
	for i, l := range objects {
		n.state[titles[i]], n.resource = "there", l.Resource
		n.add(titles[i]+": ", l.Object)
	}
	return n.state
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

// withoutUIDs returns a text with placeholders for the UIDs of known objects.
func (n *normalizer) withoutUIDs(s string) string {
	if len(s) < 36 {
		return s
	}
	return uidIn.ReplaceAllStringFunc(s, func(uid string) string { return cmp.Or(n.placeholders[uid], uid) })
}

// generated matches the suffix that the API server appends to the first 58
// characters of generateName. It has five characters of an alphabet that is
// chosen to avoid words.
var generated = regexp.MustCompile(`^[bcdfghjklmnpqrstvwxz2456789]{5}$`)

// Generated returns the object's generateName, and reports whether the server
// has generated the name from it. A program may also set both fields itself, as
// the StatefulSet controller does for Pods. Then ok is false.
func Generated(o *unstructured.Unstructured) (prefix string, ok bool) {
	prefix = o.GetGenerateName()
	suffix, matched := strings.CutPrefix(o.GetName(), prefix[:min(len(prefix), 58)])
	return prefix, prefix != "" && matched && generated.MatchString(suffix)
}

// name returns the object's namespace and name, with a number in place of the
// generated part. If Ignore lists the names of the resource, the name of the
// controller, or else the labels, and a number stand for the whole name.
func (n *normalizer) name(o *unstructured.Unstructured) string {
	name := o.GetName()
	prefix, madeUp := Generated(o)
	if n.ignore.contains(n.resource, "metadata.name") {
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

// upToDate replaces status.observedGeneration with "of this spec" if it equals
// the generation, and with "of an older spec" otherwise. It returns the values
// of all other keys unchanged.
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
	if n.ignore.contains(n.resource, path) || path == "metadata.annotations."+RivalKey ||
		path == "metadata.labels."+RivalKey {
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
		n.state[title+path] = n.text(t)
	case int64:
		n.state[title+path] = fmt.Sprint(t)
		if n.resource == "services" && strings.HasSuffix(path, "odePort") && t >= firstNodePort {
			n.state[title+path] = "a port of the nodes"
		}
	default:
		text, _ := json.Marshal(v)
		n.state[title+path] = string(text)
	}
}

// firstNodePort is the first of the node ports from which the server chooses.
const firstNodePort = 30000

// elements returns the names of a list's elements. These are indices such as
// "[0]". In a status, where the order depends on history, they are types or
// names such as "[Ready]", if each element has a different one.
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

// namesBy returns the value that each element has for a key, in brackets. It
// returns nil if an element has no such value, or if two elements have the same
// value.
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
	if version, ok := n.versions[s]; ok && s != "" {
		return s + versionOf + version
	}
	return n.withoutUIDs(s)
}

const versionOf = ", the resourceVersion of "

// alike reports whether two values are equal, have the same resourceVersion, or
// are current resourceVersions of the same object, which differ between runs.
func alike(a, b string) bool {
	if a == b {
		return true
	}
	x, ofX, _ := strings.Cut(a, versionOf)
	y, ofY, _ := strings.Cut(b, versionOf)
	return x == y || ofX != "" && ofX == ofY
}

const maxLines = 20 // the maximum number of lines of a diff

// Diff lists the differences between s and want, except in masked fields. Lines
// of want begin with "- ", lines of s with "+ ". It returns at most 20 such
// lines, followed by a line that counts the others.
func (s State) Diff(want State, masked map[string]bool) []string {
	return linesOf(s.changes(want, masked))
}

// change is one key in which two states differ.
type change struct {
	key              string
	wanted, exists   bool
	wantValue, value string
}

// changes returns the differences of s from want, sorted, except in masked
// fields and in the fields of objects that only one of the states contains.
func (s State) changes(want State, masked map[string]bool) []change {
	keys := maps.Clone(map[string]string(s))
	maps.Copy(keys, want)
	var changes []change
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		c := change{key: k}
		c.value, c.exists = s[k]
		c.wantValue, c.wanted = want[k]
		if masked[k] || c.exists == c.wanted && alike(c.value, c.wantValue) || s.lacks(k) || want.lacks(k) {
			continue
		}
		changes = append(changes, c)
	}
	return changes
}

func linesOf(changes []change) []string {
	var lines []string
	for _, c := range changes {
		if c.wanted {
			lines = append(lines, "- "+c.key+" = "+c.wantValue)
		}
		if c.exists {
			lines = append(lines, "+ "+c.key+" = "+c.value)
		}
	}
	if len(lines) > maxLines {
		return append(lines[:maxLines:maxLines], fmt.Sprintf("… and %d more", len(lines)-maxLines))
	}
	return lines
}

// lacks reports whether the key is a field of an object that s does not
// contain.
func (s State) lacks(key string) bool {
	title, _, field := strings.Cut(key, ": ")
	return field && s[title] == ""
}

// Mask returns the set of the fields and objects in which s and other, the
// states of two correct runs, differ.
func (s State) Mask(other State) map[string]bool {
	masked := map[string]bool{}
	for _, state := range []State{s, other} {
		for k := range state {
			if !alike(s[k], other[k]) {
				masked[k] = true
			}
		}
	}
	return masked
}

// Compare compares a run at each rest with the run without faults, using the
// mask of each rest. If the numbers of rests differ, it compares only the ends.
// It returns the number of the first rest that differs, from 0, and the
// difference. The difference is nil if all rests are equal.
func Compare(have, want []*Rest, masks []map[string]bool) (index int, differs *Difference) {
	for i := range want {
		place := fmt.Sprintf("at rest before step %d of the workload", i+1)
		index = i
		if i == len(want)-1 {
			index, place = len(have)-1, "at the end"
		} else if len(have) != len(want) {
			continue
		}
		var mask map[string]bool
		if i < len(masks) {
			mask = masks[i]
		}
		if changes := have[index].changes(want[i], mask); len(changes) > 0 {
			return index, &Difference{
				Text: "the state differs from the run without faults, " + place + " (- without, + with):\n    " +
					strings.Join(linesOf(changes), "\n    "),
				Seen: seen(changes),
			}
		}
	}
	return 0, nil
}

// Difference describes how the state of a run differs from the run without
// faults.
type Difference struct {
	Text string
	Seen report.Seen
}

// seen returns what the differences show about their cause, for example that
// objects are missing.
func seen(changes []change) report.Seen {
	s := report.Seen{End: true, Fields: true, Lost: true}
	for _, c := range changes {
		title, _, field := strings.Cut(c.key, ": ")
		s.Fields = s.Fields && field
		s.Lost = s.Lost && !c.exists
		s.MadeUp = s.MadeUp || strings.Contains(title, "-*")
	}
	s.Lost = s.Lost && !s.Fields
	return s
}

package reconciletest

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat/homeostat/internal/apisim"
)

// state is what the server holds, one entry for each field: "configmaps d/a: data.x" → "1". What two right runs
// cannot have in common is replaced: identifiers, times, generated names.
type state map[string]string

// boring resources say nothing about where the program arrived.
func boring(resource string) bool { return resource == "events" || resource == "leases" }

var timestamp = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$`)

// unsteady fields of the metadata say how an object came to be, not what it is.
var unsteady = []string{
	"resourceVersion", "uid", "creationTimestamp", "managedFields", "generation", "selfLink", "deletionTimestamp",
	"name", "namespace",
}

type photographer struct {
	stands map[string]string // an identifier or generated name → what stands for it
	ignore []string
	out    state
}

// located is an object and the name of its resource.
type located struct {
	resource string
	obj      *unstructured.Unstructured
}

func photograph(sim *apisim.Server, ignore []string) state {
	var all []located
	for _, r := range sim.Resources() {
		if boring(r.Resource) {
			continue
		}
		objects := sim.Objects(r.GVR())
		slices.SortFunc(objects, func(a, b *unstructured.Unstructured) int { return strings.Compare(born(a), born(b)) })
		for _, o := range objects {
			all = append(all, located{resource: shortName(r.GVR().GroupResource()), obj: o})
		}
	}
	return picture(all, ignore)
}

// picture is of objects in the order of their creation, those of one resource together.
func picture(all []located, ignore []string) state {
	p := &photographer{stands: map[string]string{}, ignore: ignore, out: state{}}
	titles := make([]string, len(all))
	for i, l := range all {
		titles[i] = l.resource + " " + p.name(l.obj)
		p.stands[string(l.obj.GetUID())] = "uid of " + titles[i]
	}
	for i, l := range all {
		p.out[titles[i]] = "there"
		p.shoot(titles[i]+": ", l.obj)
	}
	return p.out
}

// born orders objects by their creation: the server counts in the end of the uid.
func born(o *unstructured.Unstructured) string {
	uid := string(o.GetUID())
	return uid[strings.LastIndex(uid, "-")+1:]
}

// name is the object's namespace and name, with a number in place of the generated part.
func (p *photographer) name(o *unstructured.Unstructured) string {
	name, prefix := o.GetName(), o.GetGenerateName()
	if prefix != "" && strings.HasPrefix(name, prefix) {
		n := 1
		for slices.Contains(slices.Collect(maps.Values(p.stands)), fmt.Sprintf("%s*%d", prefix, n)) {
			n++
		}
		p.stands[name] = fmt.Sprintf("%s*%d", prefix, n)
		name = p.stands[name]
	}
	if ns := o.GetNamespace(); ns != "" {
		return ns + "/" + name
	}
	return name
}

func (p *photographer) shoot(title string, o *unstructured.Unstructured) {
	for key, v := range o.Object {
		switch key {
		case "apiVersion", "kind":
		case "metadata":
			m := maps.Clone(v.(map[string]any))
			for _, f := range unsteady {
				delete(m, f)
			}
			p.flatten(title, "metadata", m)
		default:
			p.flatten(title, key, current(o, key, v))
		}
	}
}

// current replaces status.observedGeneration by whether it is the generation.
func current(o *unstructured.Unstructured, key string, v any) any {
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

func (p *photographer) flatten(title, path string, v any) {
	if slices.Contains(p.ignore, path) || path == "metadata.annotations."+rivalKey {
		return
	}
	switch t := v.(type) {
	case map[string]any:
		for k, sub := range t {
			p.flatten(title, path+"."+k, sub)
		}
	case []any:
		for i, sub := range t {
			p.flatten(title, fmt.Sprintf("%s[%d]", path, i), sub)
		}
	case string:
		p.out[title+path] = p.text(t)
	default:
		text, _ := json.Marshal(v)
		p.out[title+path] = string(text)
	}
}

func (p *photographer) text(s string) string {
	if stand, ok := p.stands[s]; ok {
		return stand
	}
	if timestamp.MatchString(s) {
		return "a time"
	}
	return s
}

// differences lists what is not the same, but for masked fields, as a diff.
func (s state) differences(want state, masked map[string]bool) []string {
	keys := map[string]bool{}
	for k := range s {
		keys[k] = true
	}
	for k := range want {
		keys[k] = true
	}
	var lines []string
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		have, has := s[k]
		should, had := want[k]
		if masked[k] || has == had && have == should || s.lacks(k) || want.lacks(k) {
			continue
		}
		if had {
			lines = append(lines, "- "+k+" = "+should)
		}
		if has {
			lines = append(lines, "+ "+k+" = "+have)
		}
	}
	return lines
}

// lacks tells whether the key is a field of an object that is not there at all.
func (s state) lacks(key string) bool {
	title, _, field := strings.Cut(key, ": ")
	return field && s[title] == ""
}

// mask finds the fields in which two right runs differ.
func (s state) mask(other state) map[string]bool {
	masked := map[string]bool{}
	for k, v := range s {
		if w, ok := other[k]; ok && v != w {
			masked[k] = true
		}
	}
	return masked
}

package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Mask replaces values that differ between any two servers: identifiers by
// their order of appearance, and times by a word. Equal values are masked
// equally.
type Mask struct {
	ns     string
	masked map[string]string
	count  map[string]int
}

// NewMask returns a mask for the answers about one namespace, ns.
func NewMask(ns string) *Mask {
	return &Mask{ns: ns, masked: map[string]string{}, count: map[string]int{}}
}

// maskedDefaults lists fields that the real server sets if the caller does not,
// and that the simulated server does not set.
var maskedDefaults = []string{
	"serviceAccount", "serviceAccountName", "volumes", "volumeMounts", "qosClass",
	"deprecated.daemonset.template.generation",
}

var (
	decoding = regexp.MustCompile(`cannot be handled as a (\w+): .*`)
	patching = regexp.MustCompile(`(error decoding patch|continue key is not valid): .*`)
	storage  = regexp.MustCompile(`Key: [^ ]+,`)
	times    = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	versions = regexp.MustCompile(`(?:version: |record \(|current: )\d+(?: \(\d+\))?`)
)

// Show returns the text of an answer in which the values that differ between
// servers are masked. It leaves out fields that only a real server sets. An
// answer that is not JSON is not masked.
func (m *Mask) Show(raw []byte) string {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return strings.TrimSpace(string(raw))
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	_ = e.Encode(m.value(v, ""))
	return strings.TrimSpace(b.String())
}

func (m *Mask) value(v any, key string) any {
	switch t := v.(type) {
	case map[string]any:
		return m.object(t)
	case []any:
		for i := range t {
			t[i] = m.value(t[i], "")
		}
	case string:
		return m.text(t, key)
	}
	return v
}

func (m *Mask) object(o map[string]any) map[string]any {
	kind, _ := o["kind"].(string)
	meta, _ := o["metadata"].(map[string]any)
	if o["type"] == "BOOKMARK" || strings.HasSuffix(kind, "List") {
		if inner, ok := o["object"].(map[string]any); ok {
			meta, _ = inner["metadata"].(map[string]any)
		}
		if _, ok := meta["resourceVersion"]; ok {
			meta["resourceVersion"] = "*"
		}
	}
	m.noteGenerated(meta)
	if meta["continue"] == "" {
		delete(meta, "continue")
	}
	for _, k := range sortedFields(o) {
		if slices.Contains(maskedDefaults, k) || k == "managedFields" && !strings.HasSuffix(m.ns, "apply") {
			delete(o, k)
			continue
		}
		if owners, ok := o[k].([]any); ok && k == "managedFields" {
			sortOwners(owners)
		}
		o[k] = m.value(o[k], k)
		if left, ok := o[k].(map[string]any); ok && k == "annotations" && len(left) == 0 {
			delete(o, k) // all annotations were defaults
		}
	}
	return o
}

// noteGenerated records a name that the server has generated. The name is shown
// as its prefix and an asterisk from then on.
func (m *Mask) noteGenerated(meta map[string]any) {
	prefix, _ := meta["generateName"].(string)
	if name, _ := meta["name"].(string); prefix != "" && strings.HasPrefix(name, prefix) {
		m.masked[name] = prefix + "*"
	}
}

// sortOwners sorts the entries of managedFields regardless of their times.
// Servers sort by time first, so without this the order would depend on whether
// two writes fall into the same second.
func sortOwners(owners []any) {
	field := func(owner any, key string) string {
		o, _ := owner.(map[string]any)
		s, _ := o[key].(string)
		return s
	}
	slices.SortStableFunc(owners, func(a, b any) int {
		for _, key := range []string{"operation", "manager", "apiVersion", "subresource"} {
			if c := strings.Compare(field(a, key), field(b, key)); c != 0 {
				return c
			}
		}
		return 0
	})
}

func sortedFields(o map[string]any) []string {
	var fields []string
	for k := range o {
		fields = append(fields, k)
	}
	slices.Sort(fields)
	return fields
}

func (m *Mask) text(s, key string) any {
	switch key {
	case "uid", "resourceVersion":
		if s == "" || s == "*" {
			return s
		}
		return m.name(key, s)
	case "continue":
		return "token"
	}
	for known, name := range m.masked {
		if len(known) > 5 {
			s = strings.ReplaceAll(s, known, name)
		}
	}
	s = decoding.ReplaceAllString(s, "cannot be handled as a $1")
	s = patching.ReplaceAllString(s, "$1")
	s = storage.ReplaceAllString(s, "Key: k,")
	s = times.ReplaceAllString(s, "time")
	s = versions.ReplaceAllString(s, "version N")
	return strings.ReplaceAll(s, m.ns, "$ns")
}

func (m *Mask) name(kind, s string) string {
	if known, ok := m.masked[s]; ok {
		return known
	}
	m.count[kind]++
	m.masked[s] = fmt.Sprintf("%s%d", kind, m.count[kind])
	return m.masked[s]
}

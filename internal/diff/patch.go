package diff

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// A Patch is the difference of two objects.
type Patch struct {
	// Data is the patch, or nil if there is no difference.
	Data []byte
	// Style is the style of Data: JSON also where Strategic was asked for but could not be trusted.
	Style Style
	// Status says that the patch changes the object's status.
	Status bool
	// Other is a member besides status that the patch changes.
	Other string
}

// Make compares before and after, two objects of the same kind, neither of which is nil.
//
// A strategic patch is given up for a JSON merge patch where lists have no unique merge key or the
// server could not merge a value; such a patch replaces whole lists. Types that have no plan,
// and objects of different types, are compared by their JSON and get a JSON merge patch.
func Make(before, after any, s Style) (Patch, error) {
	p, err := fast(before, after, s)
	if errors.Is(err, errUnmergeable) {
		p, err = fast(before, after, JSON)
	}
	if errors.Is(err, errNoPlan) {
		return encoded(before, after)
	}
	return p, err
}

// errNoPlan is the error for a type that cannot be compared in memory.
var errNoPlan = errors.New("no plan")

const firstBytes = 256

func fast(before, after any, s Style) (Patch, error) {
	if u, ok := before.(*unstructured.Unstructured); ok {
		edited, ok := after.(*unstructured.Unstructured)
		if !ok {
			return Patch{}, errNoPlan
		}
		return untyped(u.Object, edited.Object)
	}
	va, vb := reflect.ValueOf(before), reflect.ValueOf(after)
	if va.Kind() != reflect.Pointer || va.Type() != vb.Type() {
		return Patch{}, errNoPlan
	}
	n := planOf(va.Type().Elem())
	if n == nil || n.kind != kindStruct {
		return Patch{}, errNoPlan
	}
	var w writer
	w.style = s
	p := Patch{Style: s}
	a, b := va.UnsafePointer(), vb.UnsafePointer()
	for i := range n.fields {
		f := &n.fields[i]
		x, y := f.at(a), f.at(b)
		if w.equalFields(f, x, y) {
			continue
		}
		start := w.begin()
		w.member(f, x, y, false)
		p.note(f.name, len(w.buf) > start)
	}
	return p.done(&w)
}

// begin prepares the buffer for the first member of the patch.
func (o *output) begin() int {
	if o.buf == nil {
		o.buf = append(make([]byte, 0, firstBytes), '{')
	}
	return len(o.buf)
}

func (p *Patch) note(name string, changed bool) {
	switch {
	case !changed:
	case name == "status":
		p.Status = true
	default:
		p.Other = name
	}
}

func (p *Patch) done(w *writer) (Patch, error) {
	if w.err != nil {
		return Patch{}, w.err
	}
	if len(w.buf) > 1 {
		w.buf = append(w.buf, '}')
		p.Data = w.buf
	}
	return *p, nil
}

// untyped compares two trees as they come out of a JSON decoder.
func untyped(a, b map[string]any) (Patch, error) {
	var p Patch
	var w writer
	w.begin()
	w.objectDiff(keepMaps(a, b))
	if w.err == nil && len(w.buf) > 1 {
		var members map[string]json.RawMessage
		_ = json.Unmarshal(append(w.buf, '}'), &members) // it is JSON
		for name := range members {
			p.note(name, true)
		}
	}
	return p.done(&w)
}

// keepMaps gives b an empty map of labels or annotations where it has none and a has one: then their
// keys are removed one by one, and keys that other clients have added since survive.
func keepMaps(a, b map[string]any) (map[string]any, map[string]any) {
	was, _ := a["metadata"].(map[string]any)
	is, ok := b["metadata"].(map[string]any)
	if !ok {
		return a, b
	}
	var copied map[string]any
	for _, name := range []string{"labels", "annotations"} {
		before, _ := was[name].(map[string]any)
		if after, _ := is[name].(map[string]any); len(before) == 0 || len(after) > 0 {
			continue
		}
		if copied == nil {
			copied = map[string]any{}
			maps.Copy(copied, is)
		}
		copied[name] = map[string]any{}
	}
	if copied == nil {
		return a, b
	}
	b = maps.Clone(b)
	b["metadata"] = copied
	return a, b
}

// A Style is a kind of patch.
type Style uint8

const (
	// JSON is a JSON merge patch, RFC 7386.
	JSON Style = iota
	// Strategic is a strategic merge patch: lists are merged by key.
	Strategic
)

// StyleOf returns the style that the server understands for obj: strategic for the
// types of Kubernetes itself, which servers know by their Go struct, JSON for
// everything else.
//
// The package of the Go type decides, not a scheme: programs register their
// custom types in client-go's scheme as well.
func StyleOf(obj any) Style {
	t := reflect.TypeOf(obj)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if strings.HasPrefix(t.PkgPath(), "k8s.io/api/") {
		return Strategic
	}
	return JSON
}

const metadataMember = `"metadata":{`

// WithMetadata returns patch with members, written as JSON without braces, added
// to its metadata object. It may overwrite both. patch must be compact JSON.
func WithMetadata(patch, members []byte) []byte {
	at := metadataAt(patch)
	if at == 0 {
		at = 1
		members = append(append([]byte(metadataMember), members...), '}')
	}
	if patch[at] != '}' {
		members = append(members, ',')
	}
	return slices.Insert(patch, at, members...)
}

// metadataAt returns the index of the first byte inside the metadata object, or 0.
func metadataAt(patch []byte) int {
	if bytes.HasPrefix(patch[1:], []byte(metadataMember)) {
		return 1 + len(metadataMember)
	}
	if !bytes.Contains(patch, []byte(metadataMember)) {
		return 0
	}
	d := json.NewDecoder(bytes.NewReader(patch))
	_, err := d.Token() // {
	for err == nil && d.More() {
		var key json.Token
		if key, err = d.Token(); key == "metadata" {
			return int(d.InputOffset()) + bytes.IndexByte(patch[d.InputOffset():], '{') + 1
		}
		var skip json.RawMessage
		err = cmp.Or(err, d.Decode(&skip))
	}
	return 0
}

// encoded compares two objects by their JSON, for types that have no plan. The patch is a JSON merge patch.
func encoded(before, after any) (Patch, error) {
	a, err := treeOf(before)
	if err != nil {
		return Patch{}, fmt.Errorf("encoding the object before the edit: %w", err)
	}
	b, err := treeOf(after)
	if err != nil {
		return Patch{}, fmt.Errorf("encoding the object after the edit: %w", err)
	}
	return untyped(a, b)
}

// treeOf returns the JSON of o, which must be an object, with its numbers as they are written.
func treeOf(o any) (tree map[string]any, err error) {
	data, err := json.Marshal(o)
	if err == nil {
		err = decode(data, &tree)
	}
	return tree, err
}

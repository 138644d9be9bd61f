package diff

import (
	"encoding/json"
	"errors"
	"maps"
	"reflect"

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
		noteKeys(&p, append(w.buf, '}'))
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

func noteKeys(p *Patch, data []byte) {
	var members map[string]json.RawMessage
	if json.Unmarshal(data, &members) == nil {
		for name := range members {
			p.note(name, true)
		}
	}
}

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
	// Style is the style of Data, which may differ from the one that was asked for.
	Style Style
	// Status says that the patch changes the object's status.
	Status bool
	// Other is a member besides status that the patch changes.
	Other string
	// Others are patches to try, in this order, if the server refuses Data. Only the server
	// knows which objects exist that are empty as far as the Go type can tell.
	Others [][]byte
	// Fields are what a patch of style Operations depends on: it is refused if the server
	// has there more than the object that it was made from.
	Fields []string
}

// Make returns a patch from before to after, two objects of the same kind, neither of which
// is nil. Only what differs is sent:
//
//   - of style s, or JSON where Strategic could be misread, if no list is sent as a
//     whole: what it does not mention stays as it is,
//   - otherwise of style Operations, which addresses the elements of lists by their index.
//     The object must be as it was read: make its resourceVersion a condition.
func Make(before, after any, s Style) (Patch, error) {
	p, err := fast(before, after, s, true)
	if errors.Is(err, errUnmergeable) {
		p, err = fast(before, after, JSON, true)
	}
	if errors.Is(err, errNoPlan) {
		p, err = encoded(before, after, true)
	}
	if errors.Is(err, errWholeList) {
		return listsByIndex(before, after, s)
	}
	return p, err
}

// Compare returns the JSON merge patch from before to after, with whole lists. It is to be
// read: a server that applied it would lose what the Go type does not know of the elements.
func Compare(before, after any) (Patch, error) {
	p, err := fast(before, after, JSON, false)
	if errors.Is(err, errNoPlan) {
		return encoded(before, after, false)
	}
	return p, err
}

// errNoPlan is the error for a type that cannot be compared in memory.
var errNoPlan = errors.New("no plan")

const firstBytes = 256

func fast(before, after any, s Style, strict bool) (Patch, error) {
	if u, ok := before.(*unstructured.Unstructured); ok {
		edited, ok := after.(*unstructured.Unstructured)
		if !ok {
			return Patch{}, errNoPlan
		}
		return untyped(u.Object, edited.Object, strict)
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
	w.style, w.strict = s, strict
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
		if w.strict && w.style == JSON && hasList(w.buf) {
			return Patch{}, errWholeList
		}
		w.buf = append(w.buf, '}')
		p.Data = w.buf
	}
	return *p, nil
}

// untyped compares two trees as they come out of a JSON decoder.
func untyped(a, b map[string]any, strict bool) (Patch, error) {
	var p Patch
	var w writer
	w.strict = strict
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
	// Operations is a JSON patch, RFC 6902.
	Operations
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

// WithOperations returns a patch of style Operations that first sets fields of the metadata,
// which makes conditions of them: members are their names and values.
func WithOperations(patch []byte, members ...string) []byte {
	first := []byte{'['}
	for i := 0; i < len(members); i += 2 {
		first = append(first, `{"op":"add","path":"/metadata/`...)
		first = append(append(first, members[i]...), `","value":`...)
		first = append(AppendString(first, members[i+1]), "},"...)
	}
	return append(first, patch[1:]...)
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
func encoded(before, after any, strict bool) (Patch, error) {
	a, err := treeOf(before)
	if err != nil {
		return Patch{}, fmt.Errorf("encoding the object before the edit: %w", err)
	}
	b, err := treeOf(after)
	if err != nil {
		return Patch{}, fmt.Errorf("encoding the object after the edit: %w", err)
	}
	return untyped(a, b, strict)
}

// treeOf returns the JSON of o, which must be an object, with its numbers as they are written.
func treeOf(o any) (tree map[string]any, err error) {
	data, err := json.Marshal(o)
	if err == nil {
		err = decode(data, &tree)
	}
	return tree, err
}

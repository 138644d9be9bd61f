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
	// Style is the style of Data. It may differ from the style that the caller
	// of Make asked for.
	Style Style
	// Status says that the patch changes the object's status.
	Status bool
	// Member is the name of a member other than status that the patch changes,
	// such as "spec". If there are several, it is one of them.
	Member string
	// Fallbacks are patches to try, in this order, if the server refuses Data.
	// Each makes a different assumption about which objects exist on the
	// server, because the Go type does not distinguish an empty object from a
	// missing one, and because an object may have been cut out of the cache.
	Fallbacks [][]byte
	// Fields lists the paths that a patch of style Operations depends on. The
	// server refuses the patch if its object has members at these paths that
	// the original object did not have.
	Fields []string
}

// Make returns a patch from original to edited, two non-nil objects of the same
// kind. The patch contains only the differences:
//
//   - If no list has to be sent as a whole, the patch has style s, or JSON if
//     the objects cannot be compared in memory, or if the server could misread
//     a strategic patch. The server does not change fields that the patch does
//     not mention.
//   - Otherwise it has style Operations, which addresses the elements of lists
//     by their index. It is correct only for the object as it was read, so the
//     caller must make the object's resourceVersion a condition of the patch.
//
// For example, an edit of one label of a custom resource is a merge patch, and
// an edit of one element of its list is a patch of style Operations.
func Make(original, edited any, s Style) (Patch, error) {
	p, err := fast(original, edited, s, true)
	if errors.Is(err, errUnmergeable) {
		p, err = fast(original, edited, JSON, true)
	}
	if errors.Is(err, errNoPlan) {
		p, err = encoded(original, edited, true)
	}
	if errors.Is(err, errWholeList) {
		return listsByIndex(original, edited, s)
	}
	return p, err
}

// Compare returns the JSON merge patch from original to edited, with whole
// lists. The result is for people to read. Do not send it to a server, since it
// would remove members of list elements that the Go type does not know.
func Compare(original, edited any) (Patch, error) {
	p, err := fast(original, edited, JSON, false)
	if errors.Is(err, errNoPlan) {
		return encoded(original, edited, false)
	}
	return p, err
}

// errNoPlan is the error for a type that cannot be compared in memory.
var errNoPlan = errors.New("the type cannot be compared in memory")

// firstBytes is the initial capacity of the buffer for a patch.
const firstBytes = 256

// fast returns the patch from original to edited. It compares them in memory.
// If strict is true, it returns errWholeList instead of a patch that could lose
// data, such as a patch that replaces a whole list. It returns errNoPlan for
// types that have no plan, and if original and edited have different types.
func fast(original, edited any, s Style, strict bool) (Patch, error) {
	if u, ok := original.(*unstructured.Unstructured); ok {
		e, ok := edited.(*unstructured.Unstructured)
		if !ok {
			return Patch{}, errNoPlan
		}
		return untyped(u.Object, e.Object, strict)
	}
	va, vb := reflect.ValueOf(original), reflect.ValueOf(edited)
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
		x, y := f.locate(a), f.locate(b)
		if w.equalFields(f, x, y) {
			continue
		}
		start := w.begin()
		w.member(f, x, y, false)
		p.note(f.name, len(w.buf) > start)
	}
	return p.finish(&w)
}

// begin opens the patch if it is empty, and returns the length of the buffer.
func (o *output) begin() int {
	if o.buf == nil {
		o.buf = append(make([]byte, 0, firstBytes), '{')
	}
	return len(o.buf)
}

// note records in p that the patch changes the member with the given name, if
// changed is true.
func (p *Patch) note(name string, changed bool) {
	switch {
	case !changed:
	case name == "status":
		p.Status = true
	default:
		p.Member = name
	}
}

// finish closes the patch and returns it.
func (p *Patch) finish(w *writer) (Patch, error) {
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

// untyped returns the JSON merge patch from a to b, two objects from a JSON
// decoder. If strict is true, it fails instead of replacing a whole list.
func untyped(a, b map[string]any, strict bool) (Patch, error) {
	var p Patch
	var w writer
	w.strict = strict
	w.begin()
	w.objectDiff(keepMaps(a, b))
	if w.err == nil && len(w.buf) > 1 {
		var members map[string]json.RawMessage
		_ = json.Unmarshal(append(w.buf, '}'), &members) // the writer's output is valid JSON
		for name := range members {
			p.note(name, true)
		}
	}
	return p.finish(&w)
}

// keepMaps returns a and b. If only a has labels or annotations, it returns a
// copy of b with an empty map in their place. The patch then removes the keys
// of a one by one, and keys that other clients have added since remain.
func keepMaps(a, b map[string]any) (map[string]any, map[string]any) {
	oldMetadata, _ := a["metadata"].(map[string]any)
	newMetadata, ok := b["metadata"].(map[string]any)
	if !ok {
		return a, b
	}
	var copied map[string]any
	for _, name := range []string{"labels", "annotations"} {
		old, _ := oldMetadata[name].(map[string]any)
		if changed, _ := newMetadata[name].(map[string]any); len(old) == 0 || len(changed) > 0 {
			continue
		}
		if copied == nil {
			copied = map[string]any{}
			maps.Copy(copied, newMetadata)
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
	// Strategic is a strategic merge patch. It merges the elements of a list by
	// their key, if the Go type defines a key for the list.
	Strategic
	// Operations is a JSON patch, RFC 6902.
	Operations
)

// StyleOf returns the style that the server understands for obj. This is
// Strategic for the built-in types of Kubernetes, because servers know their Go
// structs, and JSON for all other types.
//
// The package of the Go type decides, because programs register their custom
// types in client-go's scheme as well.
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

// WithOperations returns a patch of style Operations that first sets fields of
// the metadata. The server checks them as conditions. members alternates names
// and values.
func WithOperations(patch []byte, members ...string) []byte {
	tests := []byte{'['}
	for i := 0; i < len(members); i += 2 {
		tests = append(tests, `{"op":"add","path":"/metadata/`...)
		tests = append(append(tests, members[i]...), `","value":`...)
		tests = append(AppendString(tests, members[i+1]), "},"...)
	}
	return append(tests, patch[1:]...)
}

const metadataMember = `"metadata":{`

// WithMetadata returns patch with members added to its metadata object. members
// is JSON without braces, and patch must be compact JSON. The call may
// overwrite both.
func WithMetadata(patch, members []byte) []byte {
	position := metadataAt(patch)
	if position == 0 {
		position = 1
		members = append(append([]byte(metadataMember), members...), '}')
	}
	if patch[position] != '}' {
		members = append(members, ',')
	}
	return slices.Insert(patch, position, members...)
}

// metadataAt returns the index of the first byte inside the metadata object, or
// 0 if the patch has no metadata.
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

// encoded returns the JSON merge patch from original to edited. It compares
// their JSON, because their type has no plan. If strict is true, it fails
// instead of replacing a whole list.
func encoded(original, edited any, strict bool) (Patch, error) {
	a, err := treeOf(original)
	if err != nil {
		return Patch{}, fmt.Errorf("encoding the object before the edit: %w", err)
	}
	b, err := treeOf(edited)
	if err != nil {
		return Patch{}, fmt.Errorf("encoding the object after the edit: %w", err)
	}
	return untyped(a, b, strict)
}

// treeOf returns the decoded JSON of o. o must be an object. Numbers keep their
// text.
func treeOf(o any) (tree map[string]any, err error) {
	data, err := json.Marshal(o)
	if err == nil {
		err = decode(data, &tree)
	}
	return tree, err
}

package diff

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// shape is the kind of a JSON value.
type shape uint8

const (
	shapeNull shape = iota
	shapeFlat
	shapeObject
	shapeList
)

// tree is a JSON value, together with what its Go type reveals about the
// server's value.
type tree struct {
	shape shape
	// text is the JSON of a flat value.
	text []byte
	// plain says that servers write this flat value exactly as in text. For
	// example, a quantity is not plain: a server may have 1000m where its type
	// writes 1.
	plain bool
	// sure says that the server has this object. Unless servers encode the
	// object by the same Go type, it is false for a struct that has only zero
	// values, because the JSON of the Go type may have added it.
	sure bool
	// blank says that this empty list or object counts as missing: the JSON of
	// the type omits it although the server has it, or the kind is built in and
	// does not distinguish an empty value from a missing one.
	blank bool
	// fromNil says that the server may have null for this empty value of a map.
	fromNil bool
	// byKey says that a patch empties this object by removing its members one
	// by one.
	byKey bool
	// isMap says that this object is a map. The server may have entries that a
	// Transform has cut out of it.
	isMap bool
	// respelled says that this is an entry of a map whose Go type may write the
	// key in a different form than the server has.
	respelled bool
	// reshaped says that the server's value may have a different shape, and that
	// the Go type has read it as this one.
	reshaped bool
	// byMember says that this object is a struct, and not a pointer to a
	// struct. A patch removes its members one by one, because members that the
	// Go type does not know must remain.
	byMember bool
	// names are the names of an object's members, and members their values in
	// the same order.
	names   []string
	members []*tree
	// elements are the elements of a list. mergeKey is the name of the member
	// that identifies an element, or "" if that is unknown.
	elements []*tree
	mergeKey string
}

// member returns the member of the given name, or nil if it is missing or null.
func (t *tree) member(name string) *tree {
	if t == nil {
		return nil
	}
	if i := slices.Index(t.names, name); i >= 0 && t.members[i].shape != shapeNull {
		return t.members[i]
	}
	return nil
}

func (t *tree) add(name string, value *tree) {
	t.names = append(t.names, name)
	t.members = append(t.members, value)
}

// planter makes trees of the values of one object.
type planter struct {
	comparer

	exact  bool // whether servers encode the object by the same Go type
	edited bool // whether the object is the edited one
}

// typed returns the tree of the value at p.
func (l *planter) typed(n *node, p place) *tree {
	t := l.treeFor(n, p)
	t.reshaped = t.reshaped || n.reshapes
	return t
}

func (l *planter) treeFor(n *node, p place) *tree {
	if n.kind != kindOpaque && n.null(p) {
		return &tree{}
	}
	switch n.kind {
	case kindPointer:
		t := l.typed(n.elem, *(*place)(p))
		t.sure = true
		return t
	case kindStruct:
		return l.structTree(n, p)
	case kindMap:
		return l.mapTree(n, p)
	case kindSlice:
		s := (*slice)(p)
		t := &tree{shape: shapeList, elements: make([]*tree, 0, s.len)}
		for i := range s.len {
			e := l.typed(n.elem, n.index(s, i))
			e.sure = true
			t.elements = append(t.elements, e)
		}
		return t
	case kindAny:
		return l.untyped(n.value(p).Interface())
	default:
		return l.flatTree(n, p)
	}
}

// structTree returns the tree of a struct, without the members that its JSON
// omits. In the original object of a custom kind, it keeps an omitted list or
// map that is empty but not nil, because the server has it.
func (l *planter) structTree(n *node, p place) *tree {
	t := &tree{shape: shapeObject, sure: l.exact || !n.value(p).IsZero()}
	for i := range n.fields {
		f := &n.fields[i]
		q := f.locate(p)
		omitted, container := f.omitted(q), f.node.kind == kindSlice || f.node.kind == kindMap
		if omitted && (l.exact || l.edited || !container || f.node.null(q)) {
			continue
		}
		m := l.typed(f.node, q)
		m.blank = omitted || l.exact && m.empty()
		m.mergeKey = f.mergeKey
		m.byKey = m.byKey || f.byKey
		m.byMember = f.node.kind == kindStruct
		t.add(f.name, m)
	}
	return t
}

// empty reports whether t is an empty list, or an empty map whose entries a
// patch removes one by one. Built-in kinds do not distinguish an empty list or
// map from a missing one.
func (t *tree) empty() bool {
	return t.shape == shapeList && len(t.elements) == 0 || t.shape == shapeObject && len(t.names) == 0 && t.byKey
}

func (l *planter) mapTree(n *node, p place) *tree {
	t := &tree{shape: shapeObject, sure: true, byKey: l.exact, isMap: true}
	m := n.value(p)
	for _, name := range keysOf(m, reflect.Zero(n.typ)) {
		v := reflect.New(n.elem.typ)
		v.Elem().Set(m.MapIndex(reflect.ValueOf(name).Convert(n.typ.Key())))
		e := l.typed(n.elem, v.UnsafePointer())
		if text := n.elem.emptyJSON(); e.shape == shapeNull && text != "" { // as wholeMap writes it
			e = l.untyped(l.decode([]byte(text)))
			e.fromNil = true
		}
		e.sure, e.respelled = true, n.respells
		t.add(name, e)
	}
	return t
}

// flatTree returns the tree of a scalar value, or of a value with custom JSON.
func (l *planter) flatTree(n *node, p place) *tree {
	var o output
	if n.kind == kindOpaque {
		o.raw(l.opaque(n, p))
	} else {
		o.whole(n, p)
	}
	l.fail(o.err)
	switch {
	case l.err != nil || string(o.buf) == "null":
		return &tree{}
	case structured(o.buf):
		t := l.untyped(l.decode(o.buf))
		if n.raw(p) != nil {
			t.storeNulls()
		}
		for _, entry := range t.members {
			entry.respelled = n.respells
		}
		t.isMap = n.respells
		return t
	}
	plain := n.kind == kindString || n.kind == kindInt || n.kind == kindScalar && !n.value(p).CanFloat()
	return &tree{shape: shapeFlat, text: o.buf, plain: plain}
}

// untyped returns the tree of a value from a JSON decoder.
func (l *planter) untyped(v any) *tree {
	switch v := v.(type) {
	case nil:
		return &tree{}
	case map[string]any:
		t := &tree{shape: shapeObject, sure: true}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			t.add(name, l.untyped(v[name]))
		}
		return t
	case []any:
		t := &tree{shape: shapeList, elements: make([]*tree, 0, len(v))}
		for _, e := range v {
			t.elements = append(t.elements, l.untyped(e))
		}
		return t
	}
	data, err := json.Marshal(v)
	l.fail(err)
	switch {
	case err != nil:
		return &tree{}
	case structured(data): // a value of a Go type
		return l.untyped(l.decode(data))
	}
	var plain bool
	switch v.(type) {
	case string, bool, int64:
		plain = true
	}
	return &tree{shape: shapeFlat, text: data, plain: plain}
}

// doubt clears sure for the objects of t that have only zero values, because
// the JSON of the Go type may have added them. It keeps sure for the elements
// of lists, which the server has. It reports whether t has only zero values. A
// list, even an empty one, is not a zero value.
func (t *tree) doubt() (zero bool) {
	switch t.shape {
	case shapeNull:
		return true
	case shapeFlat:
		return t.zero()
	case shapeList:
		for _, e := range t.elements {
			e.doubt()
			e.sure = true
		}
		return false
	}
	zero = true
	for _, m := range t.members {
		zero = m.doubt() && zero
	}
	t.sure = !zero
	return zero
}

// zero reports whether t is a flat zero value. The JSON of the Go type may
// contain it although the object does not.
func (t *tree) zero() bool {
	text := string(t.text)
	return text == `""` || text == "0" || text == "false"
}

// absent reports whether the value is missing from the JSON of the Go type.
func (t *tree) absent() bool { return t == nil || t.shape == shapeNull || t.blank }

// treesOf returns the trees of two objects.
func treesOf(original, edited any, s Style) (a, b *tree, err error) {
	l := planter{exact: s == Strategic}
	m := planter{exact: l.exact, edited: true}
	if x, ok := original.(*unstructured.Unstructured); ok {
		if y, ok := edited.(*unstructured.Unstructured); ok {
			a, b = l.untyped(x.Object), m.untyped(y.Object)
			markByKey(a)
			return a, b, cmp.Or(l.err, m.err)
		}
	}
	va, vb := reflect.ValueOf(original), reflect.ValueOf(edited)
	if va.Kind() == reflect.Pointer && va.Type() == vb.Type() {
		if n := planOf(va.Type().Elem()); n != nil && n.kind == kindStruct {
			a, b = l.treeFor(n, va.UnsafePointer()), m.treeFor(n, vb.UnsafePointer())
			return a, b, cmp.Or(l.err, m.err)
		}
	}
	x, err := treeOf(original)
	if err != nil {
		return nil, nil, err
	}
	y, err := treeOf(edited)
	if err != nil {
		return nil, nil, err
	}
	a, b = l.untyped(x), m.untyped(y)
	a.doubt()
	markByKey(a)
	return a, b, cmp.Or(l.err, m.err)
}

// markByKey marks the labels and annotations of an object.
func markByKey(object *tree) {
	for _, name := range []string{"labels", "annotations"} {
		if t := object.member("metadata").member(name); t != nil {
			t.byKey = true
		}
	}
}

// sameTree reports whether a and b are the same JSON. Nil and null are the
// same.
func sameTree(a, b *tree) bool {
	switch {
	case a.absent() || b.absent():
		return a.absent() && b.absent()
	case a.shape != b.shape || !bytes.Equal(a.text, b.text):
		return false
	case a.shape == shapeList:
		return slices.EqualFunc(a.elements, b.elements, sameTree)
	}
	for i, name := range a.names {
		if !sameTree(a.members[i], b.member(name)) {
			return false
		}
	}
	for i, name := range b.names {
		if !b.members[i].absent() && a.member(name).absent() {
			return false
		}
	}
	return true
}

// append appends the JSON of t. It writes the nulls of objects only inside
// lists, or if withNulls is set, since a list keeps its elements as they are
// written.
func (t *tree) append(buf []byte, withNulls bool) []byte {
	switch t.shape {
	case shapeNull:
		return append(buf, "null"...)
	case shapeFlat:
		return append(buf, t.text...)
	case shapeList:
		buf = append(buf, '[')
		for i, e := range t.elements {
			if i > 0 {
				buf = append(buf, ',')
			}
			buf = e.append(buf, true)
		}
		return append(buf, ']')
	}
	buf = append(buf, '{')
	for i, m := range t.members {
		if m.shape == shapeNull && !withNulls {
			continue
		}
		if buf[len(buf)-1] != '{' {
			buf = append(buf, ',')
		}
		buf = append(AppendString(buf, t.names[i]), ':')
		buf = m.append(buf, withNulls)
	}
	return append(buf, '}')
}

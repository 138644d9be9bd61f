package diff

import (
	"encoding/json"
	"errors"
	"strconv"
	"unsafe"
)

// errUnmergeable ends a strategic patch that could be misread: lists
// without a unique merge key, values whose shape the server does not know.
var errUnmergeable = errors.New("cannot be merged by key")

// writer walks two objects at once and writes their difference. It keeps the first error.
type writer struct {
	buf   []byte
	style Style
	err   error
}

func (w *writer) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

// key writes the name of a member of the current object.
func (w *writer) key(prefix, name string) {
	w.comma()
	if prefix == "" {
		w.text(name)
	} else {
		w.text(prefix + name)
	}
	w.buf = append(w.buf, ':')
}

func (w *writer) comma() {
	if last := w.buf[len(w.buf)-1]; last != '{' && last != '[' {
		w.buf = append(w.buf, ',')
	}
}

func (w *writer) raw(data []byte) { w.buf = append(w.buf, data...) }

func (w *writer) null() { w.buf = append(w.buf, "null"...) }

// text writes s as JSON.
func (w *writer) text(s string) { w.buf = AppendString(w.buf, s) }

// AppendString appends s as JSON.
func AppendString(buf []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, _ := json.Marshal(s) // which fails for no string
			return append(buf, quoted...)
		}
	}
	buf = append(buf, '"')
	buf = append(buf, s...)
	return append(buf, '"')
}

func (w *writer) marshal(v any) {
	data, err := json.Marshal(v)
	if err != nil {
		w.fail(err)
		return
	}
	w.raw(data)
}

// whole writes the value at p as encoding/json does.
func (w *writer) whole(n *node, p unsafe.Pointer) {
	switch n.kind {
	case kindString:
		w.text(*(*string)(p))
	case kindBool:
		w.buf = strconv.AppendBool(w.buf, *(*bool)(p))
	case kindInt:
		w.buf = strconv.AppendInt(w.buf, n.value(p).Int(), 10)
	case kindMap:
		w.wholeMap(n, p)
	default:
		w.marshalNew(n.value(p).Addr().Interface())
	}
}

// marshalNew writes a value that may hold maps, with keys of any kind.
func (w *writer) marshalNew(v any) {
	start := len(w.buf)
	w.marshal(v)
	w.checkKeys(w.buf[start:])
}

// nested writes open, then f, then closing. If f writes nothing, it removes open
// and returns false.
func (w *writer) nested(open, closing byte, f func()) bool {
	w.buf = append(w.buf, open)
	start := len(w.buf)
	f()
	if len(w.buf) == start {
		w.buf = w.buf[:start-1]
		return false
	}
	w.buf = append(w.buf, closing)
	return true
}

package diff

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strconv"
	"strings"
)

// errUnmergeable ends a strategic patch that the server could misread, because
// it contains a list without a unique merge key, a value whose shape the server
// does not know, or a key that the server would take for a directive, such as
// "$patch".
var errUnmergeable = errors.New("the change cannot be merged by key")

// errWholeList ends a patch that could lose data which the server has. For
// example, a patch that replaces a whole list loses members of elements that
// the Go type does not know, and a patch that removes a whole map loses entries
// that a Transform has removed from the cached map. It also ends a merge patch
// that cannot store a null, and a merge patch for a value that the server may
// have in another shape or under another key.
var errWholeList = errors.New("the patch would replace a list or remove a map")

// output is JSON that is being written.
type output struct {
	comparer

	buf    []byte
	strict bool // whether the patch must neither replace a list nor remove the map of a Go type
}

// key writes the name of a member of the current object, with a colon.
func (o *output) key(prefix, name string) {
	o.comma()
	if prefix == "" {
		o.text(name)
	} else {
		o.text(prefix + name)
	}
	o.buf = append(o.buf, ':')
}

func (o *output) comma() {
	if previous := o.buf[len(o.buf)-1]; previous != '{' && previous != '[' {
		o.buf = append(o.buf, ',')
	}
}

func (o *output) raw(data []byte) { o.buf = append(o.buf, data...) }

func (o *output) null() { o.buf = append(o.buf, "null"...) }

// text writes s as JSON.
func (o *output) text(s string) { o.buf = AppendString(o.buf, s) }

// AppendString appends s to buf as a JSON string, and returns the result.
func AppendString(buf []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, _ := json.Marshal(s) // never fails for a string
			return append(buf, quoted...)
		}
	}
	buf = append(buf, '"')
	buf = append(buf, s...)
	return append(buf, '"')
}

func (o *output) marshal(v any) {
	data, err := json.Marshal(v)
	if err != nil {
		o.fail(err)
		return
	}
	o.raw(data)
}

// whole writes the value at p as encoding/json does, except for nil values in
// maps; see wholeMap.
func (o *output) whole(n *node, p place) {
	start := len(o.buf)
	switch n.kind {
	case kindString:
		o.text(*(*string)(p))
	case kindInt:
		o.buf = strconv.AppendInt(o.buf, n.value(p).Int(), 10)
	case kindMap:
		o.wholeMap(n, p)
	default:
		o.marshalNew(n.pointer(p))
	}
	if o.strict && bytes.Contains(o.buf[start:], []byte("null")) && storesNull(n, p) {
		o.fail(errWholeList) // a merge would drop the null
	}
}

// marshalNew writes a value that may contain maps, and refuses keys that the
// server would take for directives.
func (o *output) marshalNew(v any) {
	start := len(o.buf)
	o.marshal(v)
	o.checkKeys(o.buf[start:])
}

// pair writes the name of a member and calls f to write its value. If f writes
// no bytes, pair removes the name and returns false.
func (o *output) pair(prefix, name string, f func()) bool {
	start := len(o.buf)
	o.key(prefix, name)
	valueStart := len(o.buf)
	if f(); len(o.buf) > valueStart {
		return true
	}
	o.buf = o.buf[:start]
	return false
}

// nested writes an opening byte, the output of f, and a closing byte. If f
// writes no bytes, nested writes none either.
func (o *output) nested(open, closing byte, f func()) {
	o.buf = append(o.buf, open)
	start := len(o.buf)
	if f(); len(o.buf) == start {
		o.buf = o.buf[:start-1]
		return
	}
	o.buf = append(o.buf, closing)
}

// checkKey refuses a key that the server would take for a directive.
func (o *output) checkKey(k string) {
	if o.style == Strategic && strings.HasPrefix(k, "$") {
		o.fail(errUnmergeable)
	}
}

// directive matches a member whose name begins with a dollar sign.
var directive = regexp.MustCompile(`"(\$|\\u0024)([^"\\]|\\.)*":`)

// checkKeys refuses JSON with a key at any depth that the server would take for
// a directive. It may also refuse a string that contains the text of such a
// key.
func (o *output) checkKeys(data []byte) {
	if o.style == Strategic && (bytes.Contains(data, []byte(`"$`)) || bytes.Contains(data, []byte(`"\u0024`))) &&
		directive.Match(data) {
		o.fail(errUnmergeable)
	}
}

// fresh writes a value that the original object does not have. A strict
// strategic patch fails if the value contains a list.
func (o *output) fresh(n *node, p place) {
	start := len(o.buf)
	o.whole(n, p)
	o.noList(start)
}

// noList fails if a strict strategic patch has a list in the output after index
// start. JSON merge patches are checked by finish instead.
func (o *output) noList(start int) {
	if o.strict && o.style == Strategic && hasList(o.buf[start:]) {
		o.fail(errWholeList)
	}
}

// hasList reports whether data contains a list. data is JSON and may be cut off
// anywhere except inside a string.
func hasList(data []byte) bool {
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '[':
			return true
		case '"':
			for i++; data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
		}
	}
	return false
}

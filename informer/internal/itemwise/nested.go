package itemwise

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// JSON decoders, including the API server's, refuse values that are nested more
// than 10,000 levels deep. A list adds two levels to its objects, and an event
// adds one. So an object that the server has stored may be too deep inside a
// list. For example, an object of 9,999 levels makes a list of 10,001. This
// file divides such lists and events into their parts, and decodes them one by
// one.

// errNested is the error of an object that cannot be decoded because its own
// JSON is nested too deeply.
var errNested = errors.New("the object is nested more than 10000 levels deep")

// isNested reports whether err means that JSON is nested too deeply to be
// decoded.
func isNested(err error) bool {
	return err != nil && strings.Contains(err.Error(), "exceeded max depth")
}

// divide calls f with each member of the JSON object in data, or with each
// element of the JSON list. The values may be nested to any depth, because
// divide does not decode them. begin is the first delimiter of data, '{' or
// '['.
func divide(data []byte, begin json.Delim, f func(name string, value json.RawMessage)) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	token, err := d.Token()
	if err == nil && token != begin {
		err = fmt.Errorf("the data begins with %v, not with %v", token, begin)
	}
	for err == nil && d.More() {
		name := ""
		if begin == '{' {
			token, err = d.Token()
			name, _ = token.(string)
		}
		start := d.InputOffset()
		if err == nil {
			err = skip(d)
		}
		if err == nil {
			f(name, bytes.TrimLeft(data[start:d.InputOffset()], " \t\r\n:,"))
		}
	}
	if err == nil {
		_, err = d.Token()
	}
	if err != nil {
		return fmt.Errorf("splitting JSON: %w", err)
	}
	return nil
}

// skip reads one value, including all values inside it.
func skip(d *json.Decoder) error {
	for depth := 0; ; {
		token, err := d.Token()
		if err != nil {
			return err
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}

// rawMembers returns the members of a JSON object by their names. It does not
// decode them.
func rawMembers(raw []byte) (members map[string]json.RawMessage, err error) {
	if err := unmarshal(raw, &members); !isNested(err) {
		return members, err
	}
	members = map[string]json.RawMessage{}
	return members, divide(raw, '{', func(name string, value json.RawMessage) { members[name] = value })
}

// unmarshalMember decodes a member of a JSON object, if the object has it.
func unmarshalMember(object map[string]json.RawMessage, name string, dst any) error {
	if value, ok := object[name]; ok {
		return unmarshal(value, dst)
	}
	return nil
}

// nestedEvents is the serializer of a watch. It decodes the type of an event,
// but not the object, so the object may be nested to any depth.
type nestedEvents struct{ runtime.Serializer }

// Decode implements [runtime.Decoder].
func (s nestedEvents) Decode(
	data []byte, defaults *schema.GroupVersionKind, dst runtime.Object,
) (runtime.Object, *schema.GroupVersionKind, error) {
	object, kind, err := s.Serializer.Decode(data, defaults, dst)
	event, ok := dst.(*metav1.WatchEvent)
	if !ok || !isNested(err) {
		return object, kind, err
	}
	members, err := rawMembers(data)
	if err = errors.Join(err, unmarshalMember(members, "type", &event.Type)); err != nil {
		return nil, nil, fmt.Errorf("decoding an event: %w", err)
	}
	event.Object.Raw = members["object"]
	return event, &schema.GroupVersionKind{}, nil
}

// nestedFramer divides a stream into frames, each of which is a JSON object. An
// object may be nested to any depth.
type nestedFramer struct{ runtime.Framer }

// NewFrameReader implements [runtime.Framer].
func (nestedFramer) NewFrameReader(r io.ReadCloser) io.ReadCloser {
	return &frameReader{Closer: r, reader: bufio.NewReader(r)}
}

// frameReader reads one JSON object at a time. It finds the end of an object by
// counting the braces and brackets outside of strings.
type frameReader struct {
	io.Closer

	reader          *bufio.Reader
	depth           int
	quoted, escaped bool
}

var errNoFrame = errors.New("the watch stream is not a sequence of JSON objects")

// Read reads an object, or the next part of one. After a part it returns
// [io.ErrShortBuffer].
func (r *frameReader) Read(p []byte) (n int, err error) {
	for n < len(p) {
		c, err := r.reader.ReadByte()
		switch {
		case errors.Is(err, io.EOF) && r.depth > 0:
			return n, io.ErrUnexpectedEOF
		case err != nil:
			return n, err
		case r.depth == 0 && strings.IndexByte(" \t\r\n", c) >= 0:
			continue
		case r.depth == 0 && c != '{':
			return n, errNoFrame
		}
		p[n] = c
		if n++; r.ends(c) {
			return n, nil
		}
	}
	return n, io.ErrShortBuffer
}

// ends reports whether c is the last byte of the object.
func (r *frameReader) ends(c byte) bool {
	switch {
	case r.escaped:
		r.escaped = false
	case r.quoted:
		r.escaped, r.quoted = c == '\\', c != '"'
	case c == '"':
		r.quoted = true
	case c == '{', c == '[':
		r.depth++
	case c == '}', c == ']':
		r.depth--
	}
	return r.depth == 0
}

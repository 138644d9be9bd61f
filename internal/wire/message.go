package wire

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// A message looks for fields in messages, and remembers the first fault.
type message struct{ err error }

// of returns the content of a field of data that is a string, bytes or another
// message: nil if it is not there, and the last one if it is repeated.
func (m *message) of(data []byte, number protowire.Number) []byte {
	_, content, _ := m.find(data, number)
	return content
}

// find returns where the field begins, what is in it, and where it ends.
func (m *message) find(data []byte, number protowire.Number) (start int, content []byte, end int) {
	for at := 0; at < len(data) && m.err == nil; {
		found, kind, tag := protowire.ConsumeTag(data[at:])
		if tag < 0 {
			m.malformed("%w", protowire.ParseError(tag))
			break
		}
		size := protowire.ConsumeFieldValue(found, kind, data[at+tag:])
		if size < 0 {
			m.malformed("%w", protowire.ParseError(size))
			break
		}
		if found == number && kind == protowire.BytesType {
			start, end = at, at+tag+size
			content, _ = protowire.ConsumeBytes(data[at+tag : end])
		}
		at += tag + size
	}
	return start, content, end
}

func (m *message) malformed(format string, args ...any) {
	if m.err == nil {
		m.err = fmt.Errorf("malformed: "+format, args...)
	}
}

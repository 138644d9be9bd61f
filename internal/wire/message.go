package wire

import "google.golang.org/protobuf/encoding/protowire"

// part is a field of a message that is a string, bytes or another message.
type part struct {
	start, end int // of the field with its tag
	content    []byte
}

// only returns the part of data with that number. It reports false if data is
// malformed, or the part is missing or not unique.
func only(data []byte, number protowire.Number) (p part, ok bool) {
	for at := 0; at < len(data); {
		found, kind, tag := protowire.ConsumeTag(data[at:])
		if tag < 0 {
			return part{}, false
		}
		size := protowire.ConsumeFieldValue(found, kind, data[at+tag:])
		if size < 0 {
			return part{}, false
		}
		if found == number {
			if ok || kind != protowire.BytesType {
				return part{}, false
			}
			p, ok = part{start: at, end: at + tag + size}, true
			p.content, _ = protowire.ConsumeBytes(data[at+tag : p.end])
		}
		at += tag + size
	}
	return p, ok
}

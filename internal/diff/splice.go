package diff

import (
	"bytes"
	"encoding/json"
)

const metadataMember = `"metadata":{`

// WithMetadata returns patch with members, written as JSON without braces, added
// to its metadata object. patch must be a result of [Patch] without them.
func WithMetadata(patch, members []byte) []byte {
	out := make([]byte, 0, len(patch)+len(members)+len(metadataMember)+2)
	if at := metadataAt(patch); at > 0 {
		out = append(append(out, patch[:at]...), members...)
		if patch[at] != '}' {
			out = append(out, ',')
		}
		return append(out, patch[at:]...)
	}
	out = append(append(append(append(out, '{'), metadataMember...), members...), '}')
	if patch[1] != '}' {
		out = append(out, ',')
	}
	return append(out, patch[1:]...)
}

// metadataAt is the index of the first byte inside the metadata object, or 0.
func metadataAt(patch []byte) int {
	if bytes.HasPrefix(patch[1:], []byte(metadataMember)) {
		return 1 + len(metadataMember)
	}
	d := json.NewDecoder(bytes.NewReader(patch))
	if _, err := d.Token(); err != nil {
		return 0
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return 0
		}
		if key == "metadata" {
			return int(d.InputOffset()) + bytes.IndexByte(patch[d.InputOffset():], '{') + 1
		}
		var skip json.RawMessage
		if d.Decode(&skip) != nil {
			return 0
		}
	}
	return 0
}

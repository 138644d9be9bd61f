package diff

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
)

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

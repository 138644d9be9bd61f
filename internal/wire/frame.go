package wire

import (
	"bytes"
	"encoding/binary"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// Numbers of the fields of messages.
const (
	typeNumber   protowire.Number = 1 // of metav1.WatchEvent
	objectNumber protowire.Number = 2
	rawNumber    protowire.Number = 1 // of runtime.RawExtension

	typeMetaNumber        protowire.Number = 1 // of runtime.Unknown
	bodyNumber            protowire.Number = 2
	contentEncodingNumber protowire.Number = 3
	kindNumber            protowire.Number = 2 // of runtime.TypeMeta

	metadataNumber  protowire.Number = 1 // of any object
	nameNumber      protowire.Number = 1 // of metav1.ObjectMeta
	namespaceNumber protowire.Number = 3
	selfLinkNumber  protowire.Number = 4
	uidNumber       protowire.Number = 5
	versionNumber   protowire.Number = 6
)

// magic is the prefix of an object in protobuf.
var magic = []byte("k8s\x00")

// frame is a parsed event: a metav1.WatchEvent that contains a
// runtime.RawExtension, which contains, after the magic, a runtime.Unknown, which
// contains the object.
type frame struct {
	event              []byte
	deleted            bool
	object, raw, body  part
	extension, unknown []byte // what raw and body are parts of
	metadata, spec     part   // of the content of body
	key                types.NamespacedName
	uid                types.UID
	version            []byte
}

// unwrap finds the object of an event. It reports false unless that was added, modified
// or deleted, with each field that matters exactly once.
func unwrap(event []byte) (f frame, ok bool) {
	f.event = event
	t, _ := only(event, typeNumber)
	switch watch.EventType(t.content) {
	case watch.Added, watch.Modified:
	case watch.Deleted:
		f.deleted = true
	default:
		return f, false
	}
	if f.object, ok = only(event, objectNumber); !ok {
		return f, false
	}
	f.extension = f.object.content
	if f.raw, ok = only(f.extension, rawNumber); !ok {
		return f, false
	}
	if f.unknown, ok = bytes.CutPrefix(f.raw.content, magic); !ok {
		return f, false
	}
	f.body, ok = only(f.unknown, bodyNumber)
	return f, ok
}

// parse parses an event. It reports false unless that is an object of kind k that was
// added or modified, with each field that matters exactly once.
func parse(event []byte, k Kind) (f frame, ok bool) {
	if f, ok = unwrap(event); !ok || f.deleted {
		return f, false
	}
	meta, ok := only(f.unknown, typeMetaNumber)
	if !ok {
		return f, false
	}
	if kind, ok := only(meta.content, kindNumber); !ok || string(kind.content) != k.name() {
		return f, false
	}
	if encoding, ok := only(f.unknown, contentEncodingNumber); ok && len(encoding.content) > 0 {
		return f, false
	}
	if f.spec, ok = only(f.body.content, k.spec); !ok {
		return f, false
	}
	f.metadata, ok = only(f.body.content, metadataNumber)
	return f, ok && f.identify(f.metadata.content)
}

// identify reads name, namespace, UID and resourceVersion. It reports false if there
// is no UID, or a selfLink, which is the field of the mark.
func (f *frame) identify(metadata []byte) bool {
	for len(metadata) > 0 {
		number, content, size := next(metadata)
		switch {
		case size < 0, number == selfLinkNumber && len(content) > 0:
			return false
		case content == nil:
		case number == nameNumber:
			f.key.Name = string(content)
		case number == namespaceNumber:
			f.key.Namespace = string(content)
		case number == uidNumber:
			f.uid = types.UID(content)
		case number == versionNumber:
			f.version = content
		}
		metadata = metadata[size:]
	}
	return f.uid != ""
}

// appendPlaceholder appends the event, with its length in front and a placeholder for
// its object, which has only its identity, and mark as its selfLink.
func (f *frame) appendPlaceholder(to []byte, mark string) []byte {
	fields := [...]struct {
		number protowire.Number
		text   string
	}{
		{nameNumber, f.key.Name},
		{namespaceNumber, f.key.Namespace},
		{selfLinkNumber, mark},
		{uidNumber, string(f.uid)},
		{versionNumber, string(f.version)},
	}
	metadata := 0
	for _, field := range fields {
		metadata += sizeOf(field.number, len(field.text))
	}
	return f.appendAround(to, sizeOf(metadataNumber, metadata), func(to []byte) []byte {
		to = appendHead(to, metadataNumber, metadata)
		for _, field := range fields {
			to = append(appendHead(to, field.number, len(field.text)), field.text...)
		}
		return to
	})
}

// appendMarked appends the event, with its length in front and mark as the selfLink of
// its object.
func (f *frame) appendMarked(to []byte, mark string) []byte {
	of := f.body.content
	metadata := len(f.metadata.content) + sizeOf(selfLinkNumber, len(mark))
	body := len(of) - (f.metadata.end - f.metadata.start) + sizeOf(metadataNumber, metadata)
	return f.appendAround(to, body, func(to []byte) []byte {
		to = append(to, of[:f.metadata.start]...)
		to = append(appendHead(to, metadataNumber, metadata), f.metadata.content...)
		to = append(appendHead(to, selfLinkNumber, len(mark)), mark...)
		return append(to, of[f.metadata.end:]...)
	})
}

// appendAround appends the event, with its length in front and what appendBody appends,
// which has that many bytes, as its object.
func (f *frame) appendAround(to []byte, body int, appendBody func([]byte) []byte) []byte {
	unknown := len(f.unknown) - (f.body.end - f.body.start) + sizeOf(bodyNumber, body)
	raw := len(magic) + unknown
	extension := len(f.extension) - (f.raw.end - f.raw.start) + sizeOf(rawNumber, raw)
	event := len(f.event) - (f.object.end - f.object.start) + sizeOf(objectNumber, extension)

	const head = 4
	to = binary.BigEndian.AppendUint32(slices.Grow(to, head+event), uint32(event))
	to = append(to, f.event[:f.object.start]...)
	to = appendHead(to, objectNumber, extension)
	to = append(to, f.extension[:f.raw.start]...)
	to = appendHead(to, rawNumber, raw)
	to = append(to, magic...)
	to = append(to, f.unknown[:f.body.start]...)
	to = appendBody(appendHead(to, bodyNumber, body))
	to = append(to, f.unknown[f.body.end:]...)
	to = append(to, f.extension[f.raw.end:]...)
	return append(to, f.event[f.object.end:]...)
}

// decode returns the object, with the spec of state if known is true. Its lists have
// the capacity of those of state.
func (f *frame) decode(k Kind, state Object, known bool) (Object, error) {
	o, body := k.fresh(), f.body.content
	k.makeRoom(o, state)
	defer k.dropEmpty(o)
	if !known {
		return o, o.Unmarshal(body)
	}
	if err := o.Unmarshal(body[:f.spec.start]); err != nil { // which keeps fields that are set
		return nil, err
	}
	k.copySpec(o, state)
	return o, o.Unmarshal(body[f.spec.end:])
}

// sizeOf is the size of a field with content of n bytes.
func sizeOf(number protowire.Number, n int) int {
	return protowire.SizeTag(number) + protowire.SizeBytes(n)
}

// appendHead appends the tag and the length of a field.
func appendHead(to []byte, number protowire.Number, n int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(to, number, protowire.BytesType), uint64(n))
}

// part is a field of a message that is a string, bytes or another message.
type part struct {
	start, end int // of the field with its tag
	content    []byte
}

// next returns the first field of data: its number, its content, nil unless it is a string,
// bytes or another message, and its size with the tag, negative if data is malformed.
func next(data []byte) (number protowire.Number, content []byte, size int) {
	number, kind, size := protowire.ConsumeField(data)
	if size > 0 && kind == protowire.BytesType {
		_, _, tag := protowire.ConsumeTag(data)
		content, _ = protowire.ConsumeBytes(data[tag:])
	}
	return number, content, size
}

// only returns the part of data with that number. It reports false if data is
// malformed, or the part is missing or not unique.
func only(data []byte, number protowire.Number) (p part, ok bool) {
	for at := 0; at < len(data); {
		found, content, size := next(data[at:])
		switch {
		case size < 0, found == number && (ok || content == nil):
			return part{}, false
		case found == number:
			p, ok = part{start: at, end: at + size, content: content}, true
		}
		at += size
	}
	return p, ok
}

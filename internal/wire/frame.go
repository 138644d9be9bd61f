package wire

import (
	"bytes"
	"encoding/binary"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// These are the numbers of fields in messages.
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

// frame is a parsed event. It is a metav1.WatchEvent that contains a
// runtime.RawExtension. The RawExtension contains the magic and then a
// runtime.Unknown, which contains the object.
type frame struct {
	event              []byte
	deleted            bool
	object, raw, body  part
	extension, unknown []byte // the messages around raw and body
	metadata, spec     part   // the fields metadata and spec in the content of body
	key                types.NamespacedName
	uid                types.UID
	version            []byte
}

// unwrap finds the object of an event. It returns false unless the object was
// added, modified or deleted, and each field that matters occurs exactly once.
func unwrap(event []byte) (f frame, ok bool) {
	f.event = event
	t, _ := uniqueField(event, typeNumber)
	switch watch.EventType(t.content) {
	case watch.Added, watch.Modified:
	case watch.Deleted:
		f.deleted = true
	default:
		return f, false
	}
	if f.object, ok = uniqueField(event, objectNumber); !ok {
		return f, false
	}
	f.extension = f.object.content
	if f.raw, ok = uniqueField(f.extension, rawNumber); !ok {
		return f, false
	}
	if f.unknown, ok = bytes.CutPrefix(f.raw.content, magic); !ok {
		return f, false
	}
	f.body, ok = uniqueField(f.unknown, bodyNumber)
	return f, ok
}

// parse parses an event. It returns false unless an object of kind k was added
// or modified, and each field that matters occurs exactly once.
func parse(event []byte, k Kind) (f frame, ok bool) {
	if f, ok = unwrap(event); !ok || f.deleted {
		return f, false
	}
	meta, ok := uniqueField(f.unknown, typeMetaNumber)
	if !ok {
		return f, false
	}
	if kind, ok := uniqueField(meta.content, kindNumber); !ok || string(kind.content) != k.name() {
		return f, false
	}
	if encoding, ok := uniqueField(f.unknown, contentEncodingNumber); ok && len(encoding.content) > 0 {
		return f, false
	}
	if f.spec, ok = uniqueField(f.body.content, k.spec); !ok {
		return f, false
	}
	f.metadata, ok = uniqueField(f.body.content, metadataNumber)
	return f, ok && f.identify(f.metadata.content)
}

// identify reads the name, namespace, UID and resourceVersion. It returns false
// if the UID is missing, or if the selfLink is set, because a mark replaces the
// selfLink.
func (f *frame) identify(metadata []byte) bool {
	for len(metadata) > 0 {
		number, content, size := nextField(metadata)
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

// appendPlaceholder appends the event, preceded by its length, with a
// placeholder as its object. The placeholder has only the identity of the
// object, and mark as its selfLink.
func (f *frame) appendPlaceholder(dst []byte, mark string) []byte {
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
	return f.appendAround(dst, sizeOf(metadataNumber, metadata), func(dst []byte) []byte {
		dst = appendHead(dst, metadataNumber, metadata)
		for _, field := range fields {
			dst = append(appendHead(dst, field.number, len(field.text)), field.text...)
		}
		return dst
	})
}

// appendMarked appends the event, preceded by its length, with mark as the
// selfLink of its object.
func (f *frame) appendMarked(dst []byte, mark string) []byte {
	content := f.body.content
	metadata := len(f.metadata.content) + sizeOf(selfLinkNumber, len(mark))
	body := len(content) - (f.metadata.end - f.metadata.start) + sizeOf(metadataNumber, metadata)
	return f.appendAround(dst, body, func(dst []byte) []byte {
		dst = append(dst, content[:f.metadata.start]...)
		dst = append(appendHead(dst, metadataNumber, metadata), f.metadata.content...)
		dst = append(appendHead(dst, selfLinkNumber, len(mark)), mark...)
		return append(dst, content[f.metadata.end:]...)
	})
}

// appendAround appends the event, preceded by its length. It calls appendBody
// to append the object, whose size must be body bytes.
func (f *frame) appendAround(dst []byte, body int, appendBody func([]byte) []byte) []byte {
	unknown := len(f.unknown) - (f.body.end - f.body.start) + sizeOf(bodyNumber, body)
	raw := len(magic) + unknown
	extension := len(f.extension) - (f.raw.end - f.raw.start) + sizeOf(rawNumber, raw)
	event := len(f.event) - (f.object.end - f.object.start) + sizeOf(objectNumber, extension)

	const head = 4
	dst = binary.BigEndian.AppendUint32(slices.Grow(dst, head+event), uint32(event))
	dst = append(dst, f.event[:f.object.start]...)
	dst = appendHead(dst, objectNumber, extension)
	dst = append(dst, f.extension[:f.raw.start]...)
	dst = appendHead(dst, rawNumber, raw)
	dst = append(dst, magic...)
	dst = append(dst, f.unknown[:f.body.start]...)
	dst = appendBody(appendHead(dst, bodyNumber, body))
	dst = append(dst, f.unknown[f.body.end:]...)
	dst = append(dst, f.extension[f.raw.end:]...)
	return append(dst, f.event[f.object.end:]...)
}

// decode returns the object of the event. If known is set, decode copies the
// spec from state instead of decoding it. Each list of the object has room for
// as many elements as the same list of state has.
func (f *frame) decode(k Kind, state Object, known bool) (Object, error) {
	o, body := k.fresh(), f.body.content
	k.makeRoom(o, state)
	defer k.dropEmpty(o)
	if !known {
		return o, o.Unmarshal(body)
	}
	if err := o.Unmarshal(body[:f.spec.start]); err != nil { // keeps fields that are set
		return nil, err
	}
	k.copySpec(o, state)
	return o, o.Unmarshal(body[f.spec.end:])
}

// sizeOf returns the size of a field with content of n bytes.
func sizeOf(number protowire.Number, n int) int {
	return protowire.SizeTag(number) + protowire.SizeBytes(n)
}

// appendHead appends the tag and the length of a field.
func appendHead(dst []byte, number protowire.Number, n int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(dst, number, protowire.BytesType), uint64(n))
}

// part is a field of a message whose type is string, bytes or an embedded
// message.
type part struct {
	start, end int // the bounds of the field, including its tag
	content    []byte
}

// nextField returns the number, the content, and the size of the first field of
// data. The size includes the tag. The content is nil unless the type is
// string, bytes or an embedded message. The size is negative if data is
// malformed.
func nextField(data []byte) (number protowire.Number, content []byte, size int) {
	number, kind, size := protowire.ConsumeField(data)
	if size > 0 && kind == protowire.BytesType {
		_, _, tag := protowire.ConsumeTag(data)
		content, _ = protowire.ConsumeBytes(data[tag:])
	}
	return number, content, size
}

// uniqueField returns the field of data with this number. It returns false if
// data is malformed, or if the field is missing or not unique.
func uniqueField(data []byte, number protowire.Number) (p part, ok bool) {
	for offset := 0; offset < len(data); {
		found, content, size := nextField(data[offset:])
		switch {
		case size < 0, found == number && (ok || content == nil):
			return part{}, false
		case found == number:
			p, ok = part{start: offset, end: offset + size, content: content}, true
		}
		offset += size
	}
	return p, ok
}

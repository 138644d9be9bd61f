package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	kjson "sigs.k8s.io/json"
)

// A Cache is what a Decoder asks for the objects that the reader has.
type Cache interface {
	// Known returns the state that the reader has of the object that o, of which
	// only the metadata is there yet, is a new state of: nil if it has none.
	Known(o Object) (state Object, spec Fingerprint)
	// Decoded says what the spec of o was decoded from, and of which state it is
	// the very memory, which others may be reading: nil if it is new.
	Decoded(o Object, spec Fingerprint, of Object)
}

// A Fingerprint tells the bytes that a spec was decoded from from others: two
// have the same one in one case of 2⁶³. It is 0 if it is not known.
type Fingerprint uint64

// A Decoder reads the events of a watch, in protobuf or in JSON, whatever the
// server sends. It implements the Decoder of apimachinery's package watch.
type Decoder struct {
	kind  Kind
	cache Cache
	body  io.ReadCloser
	in    *bufio.Reader
	json  *json.Decoder
	frame []byte
}

// maxFrame is the size of the largest event that is read: a server stores no
// object that is nearly as large.
const maxFrame = 64 << 20

var seed = maphash.MakeSeed()

// NewDecoder returns a decoder of body, which it closes.
func NewDecoder(body io.ReadCloser, k Kind, c Cache) *Decoder {
	return &Decoder{kind: k, cache: c, body: body, in: bufio.NewReader(body)}
}

// Close ends Decode.
func (d *Decoder) Close() { _ = d.body.Close() }

// Decode returns the next event, and io.EOF when there is none.
func (d *Decoder) Decode() (watch.EventType, runtime.Object, error) {
	if d.json == nil {
		first, err := d.in.Peek(1)
		if err != nil {
			return "", nil, err
		}
		if first[0] != '{' { // or else an event of 2 GB
			return d.protobuf()
		}
		d.json = json.NewDecoder(d.in)
	}
	return d.text()
}

// text reads an event in JSON.
func (d *Decoder) text() (watch.EventType, runtime.Object, error) {
	var event struct {
		Type   watch.EventType `json:"type"`
		Object json.RawMessage `json:"object"`
	}
	if err := d.json.Decode(&event); err != nil {
		return "", nil, err
	}
	var meta metav1.TypeMeta
	if err := json.Unmarshal(event.Object, &meta); err != nil {
		return "", nil, fmt.Errorf("reading the kind of an object: %w", err)
	}
	o, err := d.blank(event.Type, meta)
	if err != nil {
		return "", nil, err
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(event.Object, o); err != nil {
		return "", nil, fmt.Errorf("reading a %s: %w", meta.Kind, err)
	}
	o.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{}) // as typed clients do
	return event.Type, o, nil
}

// blank returns what the object of an event is decoded into.
func (d *Decoder) blank(t watch.EventType, meta metav1.TypeMeta) (runtime.Object, error) {
	switch t {
	case watch.Added, watch.Modified, watch.Deleted, watch.Bookmark, watch.Error:
	default:
		return nil, fmt.Errorf("an event of an unknown type, %q", t)
	}
	switch meta.Kind {
	case "Status":
		return &metav1.Status{}, nil
	case d.kind.typ.Name():
		return d.kind.fresh(), nil
	default:
		return nil, fmt.Errorf("the server sent an object of kind %q, not %q", meta.Kind, d.kind.typ.Name())
	}
}

// protobuf reads an event: its length in four bytes, then that many.
func (d *Decoder) protobuf() (watch.EventType, runtime.Object, error) {
	var size [4]byte
	if _, err := io.ReadFull(d.in, size[:]); err != nil {
		return "", nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxFrame {
		return "", nil, fmt.Errorf("an event of %d bytes: at most %d are read", n, maxFrame)
	}
	if int(n) > cap(d.frame) {
		d.frame = make([]byte, n, n+n/4)
	}
	d.frame = d.frame[:n]
	if _, err := io.ReadFull(d.in, d.frame); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return "", nil, err
	}
	return d.event(d.frame)
}

// Numbers of the fields of messages.
const (
	typeNumber   = 1 // of metav1.WatchEvent
	objectNumber = 2
	rawNumber    = 1 // of runtime.RawExtension

	typeMetaNumber = 1 // of runtime.Unknown
	bodyNumber     = 2
	kindNumber     = 2 // of runtime.TypeMeta

	metadataNumber = 1 // of any object
)

// magic is what an object in protobuf begins with.
var magic = []byte("k8s\x00")

// event decodes a metav1.WatchEvent.
func (d *Decoder) event(frame []byte) (watch.EventType, runtime.Object, error) {
	var m message
	t := watch.EventType(m.of(frame, typeNumber))
	enveloped := m.of(m.of(frame, objectNumber), rawNumber)
	envelope, ok := bytes.CutPrefix(enveloped, magic)
	if !ok {
		m.malformed("the object does not begin with %q", magic)
	}
	meta := metav1.TypeMeta{Kind: string(m.of(m.of(envelope, typeMetaNumber), kindNumber))}
	body := m.of(envelope, bodyNumber)
	if m.err != nil {
		return "", nil, fmt.Errorf("reading an event in protobuf: %w", m.err)
	}
	o, err := d.blank(t, meta)
	if err != nil {
		return "", nil, err
	}
	switch o := o.(type) {
	case *metav1.Status:
		err = o.Unmarshal(body)
	case Object:
		err = d.object(o, body, t != watch.Bookmark)
	}
	if err != nil {
		return "", nil, fmt.Errorf("reading a %s in protobuf: %w", meta.Kind, err)
	}
	return t, o, nil
}

// object decodes an object: first the metadata, then its spec, unless the reader has that, then the rest.
func (d *Decoder) object(o Object, body []byte, kept bool) error {
	var m message
	start, spec, end := m.find(body, d.kind.spec)
	if m.err != nil || spec == nil || !kept || m.of(body[:start], d.kind.spec) != nil {
		return errors.Join(m.err, o.Unmarshal(body))
	}
	if err := o.Unmarshal(body[:start]); err != nil {
		return err
	}
	sum := Fingerprint(maphash.Bytes(seed, spec) | 1)
	state, known := d.cache.Known(o)
	if state != nil && known == sum && state.GetUID() == o.GetUID() {
		d.kind.reuse(o, state)
	} else {
		state = nil
		if err := o.Unmarshal(body[start:end]); err != nil {
			return err
		}
	}
	d.cache.Decoded(o, sum, state)
	return o.Unmarshal(body[end:])
}

// Package answer reads the metadata of an API object from the bytes of an
// answer, in any encoding that a client may request. It reads the whole object
// only on demand.
package answer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	kjson "sigs.k8s.io/json"
)

// MaxBytes is the longest body that is read. A longer body is not the encoding
// of an object, because API servers do not store objects of that size.
const MaxBytes = 16 << 20

var errPartial = errors.New("the answer has only a part of the object")

// Object is the type and the metadata of an object in an answer.
type Object struct {
	metav1.PartialObjectMetadata
	// Status is set instead of the metadata if the answer is a Status.
	Status *metav1.Status
	// Unlabelled is set if only the object's identity is known, for example
	// because the answer is about a subresource such as scale.
	Unlabelled bool

	part  bool // the rest of the object is not in the body
	media string
	body  []byte
}

// Readable reports whether [Read] can decode an answer with the given
// Content-Type.
func Readable(contentType string) bool {
	media, parameters, err := mime.ParseMediaType(contentType)
	if err != nil || parameters["stream"] != "" {
		return false
	}
	switch media {
	case runtime.ContentTypeJSON, runtime.ContentTypeCBOR, runtime.ContentTypeProtobuf:
		return true
	}
	return false
}

// Read decodes a body with the given Content-Type. The Object may retain body.
func Read(contentType string, body []byte) (*Object, error) {
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return nil, fmt.Errorf("reading Content-Type %q: %w", contentType, err)
	}
	o := &Object{media: media, body: body}
	switch media {
	case runtime.ContentTypeJSON:
		err = o.readJSON()
	case runtime.ContentTypeCBOR:
		if body, err = jsonOfCBOR(body); err == nil {
			o.media, o.body = runtime.ContentTypeJSON, body
			err = o.readJSON()
		}
	case runtime.ContentTypeProtobuf:
		err = o.readProtobuf()
	default:
		err = errors.New("there is no decoder for this type")
	}
	if err != nil {
		return nil, fmt.Errorf("reading a body of type %q: %w", media, err)
	}
	return o, nil
}

// message is a generated Kubernetes type that can be decoded from protobuf.
type message interface{ Unmarshal(data []byte) error }

var _ message = (*metav1.Status)(nil)

// Into decodes the answer. object is a pointer to the Go type of the object in
// the answer. Into returns an error if the answer does not have the whole
// object, for example because it is a Status.
func (o *Object) Into(object any) error {
	if o.part || o.Unlabelled || o.Status != nil || len(o.body) == 0 {
		return errPartial
	}
	switch o.media {
	case runtime.ContentTypeJSON:
		if u, ok := object.(json.Unmarshaler); ok {
			return u.UnmarshalJSON(o.body)
		}
		return kjson.UnmarshalCaseSensitivePreserveInts(o.body, object)
	default:
		m, ok := object.(message)
		if !ok {
			return fmt.Errorf("cannot decode a protobuf body into %T", object)
		}
		return m.Unmarshal(o.body)
	}
}

// jsonOfCBOR returns body as JSON. CBOR itself cannot be decoded into a Go type
// that lacks some of the object's fields.
func jsonOfCBOR(body []byte) ([]byte, error) {
	var object map[string]any
	if err := direct.Unmarshal(body, &object); err != nil {
		return nil, err
	}
	return json.Marshal(object)
}

func (o *Object) readJSON() error {
	if err := kjson.UnmarshalCaseSensitivePreserveInts(o.body, &o.PartialObjectMetadata); err != nil {
		return err
	}
	switch {
	case o.isStatus():
		o.Status = &metav1.Status{}
		return kjson.UnmarshalCaseSensitivePreserveInts(o.body, o.Status)
	case o.isMeta("Table"):
		return errPartial
	}
	o.part = o.isMeta("PartialObjectMetadata")
	return nil
}

func (o *Object) isMeta(kind string) bool {
	return o.Kind == kind && o.GroupVersionKind().Group == metav1.GroupName
}

func (o *Object) isStatus() bool { return o.Kind == "Status" && o.APIVersion == "v1" }

// envelope is the beginning of a protobuf object. A runtime.Unknown follows it.
var envelope = []byte{'k', '8', 's', 0}

var errNoEnvelope = errors.New("the body does not begin with the prefix of Kubernetes protobuf")

// readProtobuf reads the metadata, and keeps the encoded object in o.body. It
// reads the whole object if it is a Status.
func (o *Object) readProtobuf() error {
	body, ok := bytes.CutPrefix(o.body, envelope)
	if !ok {
		return errNoEnvelope
	}
	var unknown runtime.Unknown
	if err := unknown.Unmarshal(body); err != nil {
		return err
	}
	o.body, o.APIVersion, o.Kind = unknown.Raw, unknown.APIVersion, unknown.Kind
	if o.isStatus() {
		o.Status = &metav1.Status{}
		return o.Status.Unmarshal(o.body)
	}
	o.part = o.isMeta("PartialObjectMetadata")
	return o.Unmarshal(o.body) // in every kind of object, field 1 is its metadata
}

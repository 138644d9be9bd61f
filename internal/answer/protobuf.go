package answer

import (
	"bytes"
	"errors"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// The envelope of a protobuf object is k8s.io/apimachinery's runtime.Unknown
// behind four bytes. In every kind of object, field 1 is its ObjectMeta.
var envelope = []byte{'k', '8', 's', 0}

const (
	fieldTypeMeta = 1 // of runtime.Unknown
	fieldRaw      = 2 // of runtime.Unknown
	fieldMetadata = 1 // of an object
)

// fieldsRead are the fields of metav1.ObjectMeta that metadata has, in its order.
var fieldsRead = []protowire.Number{1, 3, 5, 6, 11, 9, 10, 14}

var errNoEnvelope = errors.New("the body does not begin as Kubernetes' protobuf does")

func (o *Object) readProtobuf() error {
	typeMeta, raw, err := splitProtobuf(o.body)
	if err != nil {
		return err
	}
	var meta runtime.TypeMeta
	if err := meta.Unmarshal(typeMeta); err != nil {
		return err
	}
	o.APIVersion, o.Kind = meta.APIVersion, meta.Kind
	if o.isStatus() {
		o.Status = &metav1.Status{}
		return o.Status.Unmarshal(raw)
	}
	o.part = o.is("PartialObjectMetadata")
	encoded, err := fieldOf(raw, fieldMetadata)
	if err != nil {
		return err
	}
	if encoded, err = only(encoded, fieldsRead); err != nil {
		return err
	}
	return o.ObjectMeta.Unmarshal(encoded)
}

// splitProtobuf returns the encoded TypeMeta and the encoded object.
func splitProtobuf(body []byte) (typeMeta, raw []byte, err error) {
	unknown, ok := bytes.CutPrefix(body, envelope)
	if !ok {
		return nil, nil, errNoEnvelope
	}
	if typeMeta, err = fieldOf(unknown, fieldTypeMeta); err != nil {
		return nil, nil, err
	}
	raw, err = fieldOf(unknown, fieldRaw)
	return typeMeta, raw, err
}

// fieldOf returns the bytes of a field of message, none if it has no such field.
// It reads no further than that.
func fieldOf(message []byte, wanted protowire.Number) ([]byte, error) {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		message = message[n:]
		if number == wanted && kind == protowire.BytesType {
			value, n := protowire.ConsumeBytes(message)
			return value, protowire.ParseError(min(n, 0))
		}
		if n = protowire.ConsumeFieldValue(number, kind, message); n < 0 {
			return nil, protowire.ParseError(n)
		}
		message = message[n:]
	}
	return nil, nil
}

// only returns a copy of message with the fields of these numbers alone: the others are
// most of what there is to decode.
func only(message []byte, wanted []protowire.Number) ([]byte, error) {
	rest := make([]byte, 0, len(message))
	for len(message) > 0 {
		number, _, n := protowire.ConsumeField(message)
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		if slices.Contains(wanted, number) {
			rest = append(rest, message[:n]...)
		}
		message = message[n:]
	}
	return rest, nil
}

package answer

import (
	"bytes"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// The envelope of a protobuf object is a runtime.Unknown behind four bytes.
var envelope = []byte{'k', '8', 's', 0}

var errNoEnvelope = errors.New("the body does not begin as Kubernetes' protobuf does")

// readProtobuf leaves the encoded object in body.
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
	o.part = o.is("PartialObjectMetadata")
	return o.Unmarshal(o.body) // in every kind of object, field 1 is its metadata
}

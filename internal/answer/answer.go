package answer

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"
)

// MaxBytes is the longest body that is read. An API server stores no object of
// that size.
const MaxBytes = 16 << 20

var (
	errPartial = errors.New("the answer has only a part of the object")
	errTooLong = fmt.Errorf("the body is longer than %d bytes", MaxBytes)
)

// Object is an object as a server answered with it: its type, name, namespace,
// UID, resourceVersion, labels, finalizers and state of deletion. All other
// metadata is missing.
type Object struct {
	metav1.PartialObjectMetadata
	// Status is set instead of the metadata if the answer is a Status.
	Status *metav1.Status
	// Unlabelled is set if the labels are not known, nor anything but the
	// identity: the answer is about a subresource such as scale.
	Unlabelled bool

	part  bool // the rest of the object is not in the body
	media string
	body  []byte
}

// Readable reports whether an answer of that Content-Type is an object, judging
// by the type alone.
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

// Read decodes body, of the given Content-Type and Content-Encoding.
// The Object retains body.
func Read(contentType, encoding string, body []byte) (*Object, error) {
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return nil, fmt.Errorf("reading Content-Type %q: %w", contentType, err)
	}
	if body, err = unpacked(encoding, body); err != nil {
		return nil, fmt.Errorf("unpacking a body: %w", err)
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
		err = errors.New("no decoder for it")
	}
	if err != nil {
		return nil, fmt.Errorf("reading a body of type %q: %w", media, err)
	}
	return o, nil
}

func unpacked(encoding string, body []byte) ([]byte, error) {
	switch encoding {
	case "", "identity":
		return body, nil
	case "gzip":
		r, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		body, err = io.ReadAll(io.LimitReader(r, MaxBytes+1))
		if err == nil && len(body) > MaxBytes {
			err = errTooLong
		}
		return body, err
	default:
		return nil, fmt.Errorf("unknown Content-Encoding %q", encoding)
	}
}

// Into decodes the whole object into object, a pointer to its Go type.
func (o *Object) Into(object any) error {
	if o.part || o.Unlabelled || o.Status != nil || len(o.body) == 0 {
		return errPartial
	}
	switch o.media {
	case runtime.ContentTypeJSON:
		if u, ok := object.(interface{ UnmarshalJSON(data []byte) error }); ok {
			return u.UnmarshalJSON(o.body)
		}
		return kjson.UnmarshalCaseSensitivePreserveInts(o.body, object)
	default:
		m, ok := object.(interface{ Unmarshal(data []byte) error })
		if !ok {
			return fmt.Errorf("%T is not encoded in protobuf", object)
		}
		_, raw, err := splitProtobuf(o.body)
		if err != nil {
			return err
		}
		return m.Unmarshal(raw)
	}
}

// jsonOfCBOR returns body as JSON: the decoder for Go types refuses fields that
// they do not have.
func jsonOfCBOR(body []byte) ([]byte, error) {
	var object map[string]any
	if err := direct.Unmarshal(body, &object); err != nil {
		return nil, err
	}
	return json.Marshal(object)
}

func (o *Object) readJSON() error {
	decode := func(into any) error { return kjson.UnmarshalCaseSensitivePreserveInts(o.body, into) }
	var object struct {
		metav1.TypeMeta `json:",inline"`

		Metadata metadata `json:"metadata"`
	}
	if err := decode(&object); err != nil {
		return err
	}
	o.TypeMeta, o.ObjectMeta = object.TypeMeta, object.Metadata.objectMeta()
	switch {
	case o.isStatus():
		o.Status = &metav1.Status{}
		return decode(o.Status)
	case o.is("Table"):
		return o.readTable(decode)
	}
	o.part = o.is("PartialObjectMetadata")
	return nil
}

// readTable takes the metadata of a table's only row.
func (o *Object) readTable(decode func(into any) error) error {
	var table struct {
		Rows []struct {
			Object struct {
				metav1.TypeMeta `json:",inline"`

				Metadata metadata `json:"metadata"`
			} `json:"object"`
		} `json:"rows"`
	}
	if err := decode(&table); err != nil {
		return err
	}
	if len(table.Rows) != 1 {
		return fmt.Errorf("a table with %d rows", len(table.Rows))
	}
	o.ObjectMeta, o.part = table.Rows[0].Object.Metadata.objectMeta(), true
	return nil
}

func (o *Object) is(kind string) bool {
	return o.Kind == kind && o.GroupVersionKind().Group == metav1.GroupName
}

func (o *Object) isStatus() bool { return o.Kind == "Status" && o.APIVersion == "v1" }

type metadata struct {
	Name                       string            `json:"name"`
	Namespace                  string            `json:"namespace"`
	UID                        types.UID         `json:"uid"`
	ResourceVersion            string            `json:"resourceVersion"`
	Labels                     map[string]string `json:"labels"`
	DeletionTimestamp          *metav1.Time      `json:"deletionTimestamp"`
	DeletionGracePeriodSeconds *int64            `json:"deletionGracePeriodSeconds"`
	Finalizers                 []string          `json:"finalizers"`
}

func (m metadata) objectMeta() metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: m.Name, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion, Labels: m.Labels,
		DeletionTimestamp: m.DeletionTimestamp, DeletionGracePeriodSeconds: m.DeletionGracePeriodSeconds,
		Finalizers: m.Finalizers,
	}
}

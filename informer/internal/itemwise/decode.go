package itemwise

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/homeostat/homeostat/internal/clients"
	"github.com/homeostat/homeostat/internal/suspect"
)

// objectDecoder is the decoder of a REST client that decodes the objects of
// lists and events one by one. An object that Go cannot decode becomes a stub.
// For example, if one of three Pods in a list has a text where a number
// belongs, the decoded list has two Pods and a stub.
type objectDecoder struct {
	runtime.ClientNegotiator

	decode func(raw []byte, kind metav1.TypeMeta) (runtime.Object, error)
	kind   metav1.TypeMeta // the type of the objects; the kind is empty if it is not known
}

func newObjectDecoder[T Object](version schema.GroupVersion, kind string) objectDecoder {
	return objectDecoder{negotiatorOf(version), decodeObject[T], metav1.TypeMeta{Kind: kind, APIVersion: version.String()}}
}

// negotiators contains a negotiator for each version that an informer reads.
// They are kept, because creating a negotiator takes longer than creating the
// rest of an informer. A negotiator does not change.
var negotiators sync.Map //nolint:gochecknoglobals // shared by all informers of a version

// negotiatorOf returns a negotiator for the types of metav1 in a version.
func negotiatorOf(version schema.GroupVersion) runtime.ClientNegotiator {
	if made, ok := negotiators.Load(version); ok {
		return made.(runtime.ClientNegotiator)
	}
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, version)
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	codecs := serializer.NewCodecFactory(scheme).WithoutConversion()
	made, _ := negotiators.LoadOrStore(version, runtime.NewClientNegotiator(codecs, version))
	return made.(runtime.ClientNegotiator)
}

// decodeObject decodes an object. It returns a stub if Go cannot decode the
// object, or if the object says that it is of another kind. It returns an error
// if the object's name cannot be decoded either, because it is then unknown
// which object the data is about. Untyped objects without a kind get the given
// kind.
func decodeObject[T Object](raw []byte, kind metav1.TypeMeta) (runtime.Object, error) {
	object := clients.Example[T]().(runtime.Object)
	dst := any(object)
	u, generic := dst.(*unstructured.Unstructured)
	if generic {
		dst = &u.Object
	}
	err := unmarshal(raw, dst)
	if generic && err == nil {
		err = MetadataFault(u)
	}
	if err == nil {
		if generic && u.GetKind() == "" {
			u.SetAPIVersion(kind.APIVersion)
			u.SetKind(kind.Kind)
		}
		if typed, ok := object.(T); ok && reflect.TypeFor[T]() != metadataType {
			if err := otherKind(object, kind); err != nil {
				stub, _ := Stub[T](Identity(typed), &Refusal{CauseKind, err})
				return stub, nil
			}
		}
		return object, nil
	}
	metadata, ok := metadataIn(raw)
	if !ok {
		return nil, fmt.Errorf("decoding an object whose name cannot be read: %w", err)
	}
	cause, known := errors.AsType[*fault](err)
	switch {
	case isNested(err):
		err = errNested
	case !known:
		err = cmp.Or(faultIn(reflect.TypeFor[T]().Elem(), raw, ""), &fault{reflect.TypeFor[T]().Elem(), raw, ""})
	default:
		err = cause
	}
	stub, _ := Stub[T](metadata, &Refusal{CauseDecode, err})
	return stub, nil
}

// Decoder implements [runtime.ClientNegotiator].
func (d objectDecoder) Decoder(contentType string, params map[string]string) (runtime.Decoder, error) {
	if _, err := d.ClientNegotiator.Decoder(contentType, params); err != nil {
		return nil, err
	}
	return decoderFunc(d.decodeList), nil
}

// StreamDecoder implements [runtime.ClientNegotiator].
func (d objectDecoder) StreamDecoder(
	contentType string, params map[string]string,
) (runtime.Decoder, runtime.Serializer, runtime.Framer, error) {
	_, stream, framer, err := d.ClientNegotiator.StreamDecoder(contentType, params)
	return decoderFunc(d.decodeEvent), nestedEvents{stream}, nestedFramer{framer}, err
}

// decoderFunc is a [runtime.Decoder].
type decoderFunc func(data []byte) (runtime.Object, error)

// Decode implements [runtime.Decoder].
func (f decoderFunc) Decode(
	data []byte, _ *schema.GroupVersionKind, _ runtime.Object,
) (runtime.Object, *schema.GroupVersionKind, error) {
	object, err := f(data)
	return object, &schema.GroupVersionKind{}, err
}

// List is a list whose objects were decoded one by one. It has the metadata of
// the server's list.
type List struct {
	metav1.TypeMeta
	metav1.ListMeta

	Items []runtime.Object
}

// DeepCopyObject implements [runtime.Object].
func (l *List) DeepCopyObject() runtime.Object {
	copied := *l
	copied.Items = make([]runtime.Object, len(l.Items))
	for n, item := range l.Items {
		copied.Items[n] = item.DeepCopyObject()
	}
	return &copied
}

// kindStatus is the kind of the server's errors.
const kindStatus = "Status"

// isStatus reports whether kind is the kind of the server's errors: Status in
// the core group. Another group may have a kind with the same name. For
// example, an object of kind Status in the group example.com is an object like
// any other.
func isStatus(kind metav1.TypeMeta) bool {
	return kind.Kind == kindStatus && (kind.APIVersion == "v1" || kind.APIVersion == "")
}

// decodeEvent decodes the object of an event. An error event has a Status as
// its object.
func (d objectDecoder) decodeEvent(data []byte) (runtime.Object, error) {
	var kind metav1.TypeMeta
	if bytes.Contains(data, []byte(kindStatus)) && unmarshal(data, &kind) == nil && isStatus(kind) {
		return decodeStatus(data)
	}
	return d.decode(data, d.kind)
}

func decodeStatus(data []byte) (runtime.Object, error) {
	status := &metav1.Status{}
	return status, unmarshal(data, status)
}

// rawList is a list whose objects are not decoded.
type rawList struct {
	metav1.TypeMeta `json:",inline"`

	Metadata metav1.ListMeta   `json:"metadata"`
	Items    []json.RawMessage `json:"items"`
}

func (l *rawList) decode(data []byte) error {
	if err := unmarshal(data, l); !isNested(err) {
		return err
	}
	*l = rawList{}
	members, err := rawMembers(data)
	return errors.Join(err,
		unmarshalMember(members, "kind", &l.Kind),
		unmarshalMember(members, "apiVersion", &l.APIVersion),
		unmarshalMember(members, "metadata", &l.Metadata),
		divide(members["items"], '[', func(_ string, item json.RawMessage) { l.Items = append(l.Items, item) }))
}

// kinds returns the kinds that the objects name.
func (l *rawList) kinds() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, item := range l.Items {
			var said metav1.TypeMeta
			if unmarshal(item, &said) == nil && !yield(said.Kind) {
				return
			}
		}
	}
}

// listedKind returns the kind of the objects of a list. list is the kind of the
// list itself, and said contains the kinds that the objects name. Most lists
// are named after the kind of their objects. For example, a PodList contains
// Pods. If an object names that kind, or names no kind, listedKind returns it.
// Otherwise it returns the kind that the first object names, because a
// CustomResourceDefinition may give its lists any name (spec.names.listKind).
func listedKind(list string, said iter.Seq[string]) string {
	expected, first := strings.TrimSuffix(list, "List"), ""
	for kind := range said {
		if kind == "" || kind == expected {
			return expected
		}
		first = cmp.Or(first, kind)
	}
	return cmp.Or(first, expected)
}

// decodeList decodes the answer to a request for a list: a list, or a Status if
// the request failed.
func (d objectDecoder) decodeList(data []byte) (runtime.Object, error) {
	var raw rawList
	switch err := raw.decode(data); {
	case isStatus(raw.TypeMeta):
		return decodeStatus(data)
	case err != nil:
		return nil, fmt.Errorf("decoding a list: %w", err)
	case raw.Items == nil && !strings.HasSuffix(raw.Kind, "List"):
		return nil, fmt.Errorf("the server sent a %q, not a list", raw.Kind)
	}
	list := &List{TypeMeta: raw.TypeMeta, ListMeta: raw.Metadata, Items: make([]runtime.Object, len(raw.Items))}
	kind := metav1.TypeMeta{Kind: d.kind.Kind, APIVersion: raw.APIVersion}
	if kind.Kind == "" {
		kind.Kind = listedKind(raw.Kind, raw.kinds())
	}
	for n, item := range raw.Items {
		object, err := d.decode(item, kind)
		if err != nil {
			return nil, fmt.Errorf("decoding a list: %w", err)
		}
		list.Items[n], raw.Items[n] = object, nil
	}
	return list, nil
}

// unmarshal decodes JSON as client-go does. It also returns an error if a
// method of the type panics.
func unmarshal(raw []byte, dst any) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return utiljson.Unmarshal(raw, dst)
}

// otherKind returns an error if an object says that it is of another kind, or
// of another version of the kind. Most objects of built-in kinds contain
// neither a kind nor a version.
func otherKind(object runtime.Object, want metav1.TypeMeta) error {
	got := object.GetObjectKind().GroupVersionKind()
	switch {
	case want.Kind != "" && got.Kind != "" && got.Kind != want.Kind:
		return suspect.Answerf("the object says that it is of kind %q, not %q",
			got.Kind, want.Kind)
	case want.APIVersion != "" && got.Version != "" && got.GroupVersion().String() != want.APIVersion:
		return suspect.Answerf("the object says that it is of version %q, not %q",
			got.GroupVersion(), want.APIVersion)
	}
	return nil
}

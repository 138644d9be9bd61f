package informer

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// stubMark begins the selfLink of a stub, and the reason follows it. No server can
// guess it, or sends a selfLink.
//
//nolint:gochecknoglobals // one for the process
var stubMark = "unreadable:" + rand.Text() + ":"

// refusal is why an object cannot be cached: a cause as in [Problem], and the
// details.
type refusal struct {
	cause string
	error
}

// Causes of refusals, and of events that handlers miss.
const (
	causeDecode    = "not decodable"
	causeTransform = "Transform panics"
	causeIndex     = "index panics"
	causeHandler   = "handler panics"
)

// panicked returns the refusal of a function that has panicked.
func panicked(cause, function string, value any) *refusal {
	return &refusal{cause, fmt.Errorf("%s: panic: %v\n%s", function, value, debug.Stack())}
}

// stubOf returns an object that stands for one that cannot be cached, on its way
// through client-go's reflector: it has the metadata, and why in its mark. It
// reports false for a T that has no ObjectMeta.
func stubOf[T Object](like metav1.ObjectMeta, why *refusal) (stub T, ok bool) {
	like.SelfLink = stubMark + why.cause + stubEnd + why.Error() //nolint:staticcheck // servers no longer use it
	object := example[T]()
	if object == nil { // of an interface
		object = &metav1.PartialObjectMetadata{}
	}
	if u, generic := object.(*unstructured.Unstructured); generic {
		u.Object = map[string]any{"metadata": map[string]any{
			"name": like.Name, "namespace": like.Namespace, "uid": string(like.UID),
			"resourceVersion": like.ResourceVersion, "selfLink": like.SelfLink, //nolint:staticcheck // as above
		}}
	} else if metadata := metadataOf(object); metadata != nil {
		*metadata = like
	} else {
		return stub, false
	}
	stub, ok = object.(T)
	return stub, ok
}

// metadataOf returns the ObjectMeta that object embeds, nil if it embeds none.
func metadataOf(object any) *metav1.ObjectMeta {
	v := reflect.ValueOf(object)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return nil
	}
	field := v.Elem().FieldByName("ObjectMeta")
	if !field.IsValid() || !field.CanAddr() {
		return nil
	}
	metadata, _ := reflect.TypeAssert[*metav1.ObjectMeta](field.Addr())
	return metadata
}

// stubEnd separates the cause in a mark from the details.
const stubEnd = ": "

// whyStub returns why an object cannot be cached if it is a stub, else nil.
func whyStub(object Object) *refusal {
	mark, isStub := strings.CutPrefix(object.GetSelfLink(), stubMark)
	if !isStub {
		return nil
	}
	cause, details, _ := strings.Cut(mark, stubEnd)
	return &refusal{cause, errors.New(details)}
}

// isStub reports whether an object is a stub.
func isStub(object runtime.Object) bool {
	o, ok := object.(Object)
	return ok && whyStub(o) != nil
}

// identityOf returns the metadata that a stub of an object needs.
func identityOf(object Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: object.GetName(), Namespace: object.GetNamespace(), UID: object.GetUID(),
		ResourceVersion: object.GetResourceVersion(),
	}
}

// objectDecoder is the decoder of a REST client that decodes lists, and those
// of events, object by object: one that Go cannot decode becomes a stub.
type objectDecoder struct {
	runtime.ClientNegotiator

	decode func(raw []byte, of metav1.TypeMeta) (runtime.Object, error)
}

func newObjectDecoder[T Object](version schema.GroupVersion) objectDecoder {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, version)
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	codecs := serializer.NewCodecFactory(scheme).WithoutConversion()
	return objectDecoder{runtime.NewClientNegotiator(codecs, version), decodeObject[T]}
}

// decodeObject returns an object, or a stub of it. Without the object's name,
// nobody knows which one cannot be decoded, and that is an error. An object of
// a list may lack its kind.
func decodeObject[T Object](raw []byte, of metav1.TypeMeta) (runtime.Object, error) {
	object := example[T]().(runtime.Object)
	into := any(object)
	u, generic := into.(*unstructured.Unstructured)
	if generic {
		into = &u.Object
	}
	err := unmarshal(raw, into)
	if err == nil {
		if generic && u.GetKind() == "" {
			u.SetAPIVersion(of.APIVersion)
			u.SetKind(of.Kind)
		}
		return object, nil
	}
	metadata, ok := metadataIn(raw)
	if !ok {
		return nil, fmt.Errorf("decoding an object whose name cannot be decoded either: %w", err)
	}
	why := errNested
	if !isNested(err) {
		why = cmp.Or(faultIn(reflect.TypeFor[T]().Elem(), raw, ""), &fault{reflect.TypeFor[T]().Elem(), raw, ""})
	}
	stub, _ := stubOf[T](metadata, &refusal{causeDecode, why})
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

// objectList is a list whose objects were decoded one by one.
type objectList struct {
	metav1.TypeMeta
	metav1.ListMeta

	Items []runtime.Object
}

// DeepCopyObject implements [runtime.Object].
func (l *objectList) DeepCopyObject() runtime.Object {
	to := *l
	to.Items = make([]runtime.Object, len(l.Items))
	for n, item := range l.Items {
		to.Items[n] = item.DeepCopyObject()
	}
	return &to
}

// kindStatus is the kind of the server's errors.
const kindStatus = "Status"

// isStatus reports whether an answer is one of the server's errors. A kind of
// another group may have the same name.
func isStatus(of metav1.TypeMeta) bool {
	return of.Kind == kindStatus && (of.APIVersion == "v1" || of.APIVersion == "")
}

// decodeEvent decodes the object of an event, which may be a Status.
func (d objectDecoder) decodeEvent(data []byte) (runtime.Object, error) {
	var of metav1.TypeMeta
	if bytes.Contains(data, []byte(kindStatus)) && unmarshal(data, &of) == nil && isStatus(of) {
		return decodeStatus(data)
	}
	return d.decode(data, of)
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

// decodeList decodes a list, or a Status.
func (d objectDecoder) decodeList(data []byte) (runtime.Object, error) {
	var raw rawList
	switch err := raw.decode(data); {
	case isStatus(raw.TypeMeta):
		return decodeStatus(data)
	case err != nil:
		return nil, fmt.Errorf("decoding a list: %w", err)
	case !strings.HasSuffix(raw.Kind, "List"):
		return nil, fmt.Errorf("the server sent a %q, not a list", raw.Kind)
	}
	list := &objectList{TypeMeta: raw.TypeMeta, ListMeta: raw.Metadata, Items: make([]runtime.Object, len(raw.Items))}
	of := metav1.TypeMeta{Kind: strings.TrimSuffix(raw.Kind, "List"), APIVersion: raw.APIVersion}
	for n, item := range raw.Items {
		object, err := d.decode(item, of)
		if err != nil {
			return nil, fmt.Errorf("decoding a list: %w", err)
		}
		list.Items[n], raw.Items[n] = object, nil
	}
	return list, nil
}

// unmarshal decodes JSON as client-go does. A panic of a type's own method is
// an error.
func unmarshal(raw []byte, into any) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return utiljson.Unmarshal(raw, into)
}

// metadataIn returns the metadata of an object as far as they can be decoded,
// and false if its name, or what else a stub needs, cannot be.
func metadataIn(raw []byte) (metadata metav1.ObjectMeta, ok bool) {
	object, _ := rawMembers(raw)
	if unmarshalMember(object, "metadata", &metadata) == nil {
		return metadata, metadata.Name != ""
	}
	each, _ := rawMembers(object["metadata"])
	metadata = metav1.ObjectMeta{}
	err := errors.Join(
		unmarshalMember(each, "name", &metadata.Name),
		unmarshalMember(each, "namespace", &metadata.Namespace),
		unmarshalMember(each, "uid", &metadata.UID),
		unmarshalMember(each, "resourceVersion", &metadata.ResourceVersion))
	return metadata, err == nil && metadata.Name != ""
}

// deepestFault is how deep faultIn looks.
const deepestFault = 24

// fault is a value that does not fit its type.
type fault struct {
	typ  reflect.Type
	raw  json.RawMessage
	path string // such as spec.rules[1].port
}

// Error names the field, and not its value, which may be a secret.
func (f *fault) Error() string {
	shape := map[byte]string{'{': "object", '[': "list", '"': "string", 't': "boolean", 'f': "boolean", 'n': "null"}
	is := "number"
	if len(f.raw) > 0 && shape[f.raw[0]] != "" {
		is = shape[f.raw[0]]
	}
	text := fmt.Sprintf("this %s cannot be decoded as %s", is, f.typ)
	if f.path == "" {
		return text
	}
	return f.path + ": " + text
}

// faultIn returns the first and deepest value in raw that does not fit its type
// in t; nil if all fit.
func faultIn(t reflect.Type, raw json.RawMessage, path string) *fault {
	if unmarshal(raw, reflect.New(t).Interface()) == nil {
		return nil
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	whole := &fault{t, raw, path}
	if strings.Count(path, ".") > deepestFault ||
		path != "" && reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return whole
	}
	return cmp.Or(faultInside(t, raw, path), whole)
}

// faultInside is faultIn for the members of a struct or a map and the elements
// of a list.
func faultInside(t reflect.Type, raw json.RawMessage, path string) *fault {
	var members map[string]json.RawMessage
	var elements []json.RawMessage
	switch t.Kind() {
	case reflect.Struct:
		if unmarshal(raw, &members) == nil {
			return faultInFields(t, raw, members, path)
		}
	case reflect.Map:
		_ = unmarshal(raw, &members)
		for _, name := range slices.Sorted(maps.Keys(members)) {
			if f := faultIn(t.Elem(), members[name], fmt.Sprintf("%s[%s]", path, name)); f != nil {
				return f
			}
		}
	case reflect.Slice, reflect.Array:
		_ = unmarshal(raw, &elements)
		for n, element := range elements {
			if f := faultIn(t.Elem(), element, fmt.Sprintf("%s[%d]", path, n)); f != nil {
				return f
			}
		}
	}
	return nil
}

// faultInFields is faultIn for the members of a struct.
func faultInFields(t reflect.Type, raw json.RawMessage, members map[string]json.RawMessage, path string) *fault {
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		var f *fault
		if member, ok := members[cmp.Or(name, field.Name)]; field.Anonymous && name == "" {
			f = faultIn(field.Type, raw, path)
		} else if ok && name != "-" && field.IsExported() {
			f = faultIn(field.Type, member, strings.TrimPrefix(path+"."+cmp.Or(name, field.Name), "."))
		}
		if f != nil {
			return f
		}
	}
	return nil
}

package wire

import (
	"reflect"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"google.golang.org/protobuf/encoding/protowire"
)

// An Object is an API object that decodes itself from protobuf, and keeps what it
// has had before.
type Object interface {
	metav1.Object
	runtime.Object
	Unmarshal(data []byte) error
}

// A Kind is a type of objects that have a spec.
type Kind struct {
	typ   reflect.Type
	field int              // Spec, in the struct
	spec  protowire.Number // and in the message
}

// KindOf returns the Kind of t. There is none unless t is a pointer to a struct
// with a field Spec, and an [Object].
func KindOf(t reflect.Type) (k Kind, ok bool) {
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct || !t.Implements(reflect.TypeFor[Object]()) {
		return Kind{}, false
	}
	f, ok := t.Elem().FieldByName("Spec")
	if !ok || len(f.Index) != 1 || f.Type.Kind() != reflect.Struct {
		return Kind{}, false
	}
	tag := strings.Split(f.Tag.Get("protobuf"), ",") // such as bytes,2,opt,name=spec
	if len(tag) < 2 || tag[0] != "bytes" {
		return Kind{}, false
	}
	number, err := strconv.ParseInt(tag[1], 10, 32)
	k = Kind{t.Elem(), f.Index[0], protowire.Number(number)}
	return k, err == nil && k.spec > metadataNumber
}

// name of the kind, such as "Pod".
func (k Kind) name() string { return k.typ.Name() }

func (k Kind) fresh() Object { return reflect.New(k.typ).Interface().(Object) }

// copySpec makes the spec of from that of to: a shallow copy.
func (k Kind) copySpec(to, from Object) {
	reflect.ValueOf(to).Elem().Field(k.field).Set(reflect.ValueOf(from).Elem().Field(k.field))
}

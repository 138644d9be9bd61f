package wire

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"google.golang.org/protobuf/encoding/protowire"
)

// Object is an API object that decodes itself from protobuf. Fields that are
// not in the data keep their values.
type Object interface {
	metav1.Object
	metav1.ObjectMetaAccessor
	runtime.Object
	Unmarshal(data []byte) error
}

// Kind is a type of objects that have a spec.
type Kind struct {
	typ   reflect.Type
	field int              // index of Spec in the struct
	spec  protowire.Number // number of Spec in the message
	lists [][]int          // the lists of structs in the metadata and the status, by their field indices
}

// KindOf returns the Kind of t. It returns false unless t is an [Object] and a
// pointer to a struct with a field Spec, which must be a struct that protobuf
// encodes after the metadata.
func KindOf(t reflect.Type) (k Kind, ok bool) {
	if t == nil || t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct ||
		!t.Implements(reflect.TypeFor[Object]()) {
		return Kind{}, false
	}
	f, ok := t.Elem().FieldByName("Spec")
	if !ok || len(f.Index) != 1 || f.Type.Kind() != reflect.Struct {
		return Kind{}, false
	}
	tag := strings.Split(f.Tag.Get("protobuf"), ",") // for example, bytes,2,opt,name=spec
	if len(tag) < 2 || tag[0] != "bytes" {
		return Kind{}, false
	}
	number, err := strconv.ParseInt(tag[1], 10, 32)
	k = Kind{t.Elem(), f.Index[0], protowire.Number(number), listsOf(t.Elem(), "ObjectMeta", "Status")}
	return k, err == nil && k.spec > metadataNumber
}

// listsOf returns the indices of all lists of structs that are members of the
// named fields of t.
func listsOf(t reflect.Type, names ...string) (lists [][]int) {
	for _, name := range names {
		f, ok := t.FieldByName(name)
		if !ok || f.Type.Kind() != reflect.Struct {
			continue
		}
		for inner := range f.Type.Fields() {
			if inner.Type.Kind() == reflect.Slice && inner.Type.Elem().Kind() == reflect.Struct {
				lists = append(lists, append(slices.Clone(f.Index), inner.Index...))
			}
		}
	}
	return lists
}

// name returns the name of the kind, such as "Pod".
func (k Kind) name() string { return k.typ.Name() }

// Has reports whether o is of kind k.
func (k Kind) Has(o any) bool { return reflect.TypeOf(o) == reflect.PointerTo(k.typ) }

func (k Kind) fresh() Object { return reflect.New(k.typ).Interface().(Object) }

// copySpec sets the spec of dst to a shallow copy of the spec of src.
func (k Kind) copySpec(dst, src Object) {
	reflect.ValueOf(dst).Elem().Field(k.field).Set(reflect.ValueOf(src).Elem().Field(k.field))
}

// makeRoom gives the empty lists of o the capacity of the lists of model.
// Decoding appends one element at a time, and would otherwise reallocate a list
// each time it grows.
func (k Kind) makeRoom(o, model Object) {
	dst, src := reflect.ValueOf(o).Elem(), reflect.ValueOf(model).Elem()
	for _, list := range k.lists {
		if n := src.FieldByIndex(list).Len(); n > 0 {
			dst.FieldByIndex(list).Grow(n)
		}
	}
}

// dropEmpty sets empty lists of o to nil, as they would be without makeRoom.
func (k Kind) dropEmpty(o Object) {
	value := reflect.ValueOf(o).Elem()
	for _, list := range k.lists {
		if f := value.FieldByIndex(list); f.Len() == 0 {
			f.SetZero()
		}
	}
}

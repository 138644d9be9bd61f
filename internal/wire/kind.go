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

// Object is an API object that decodes itself from protobuf and keeps fields that are
// not in the data.
type Object interface {
	metav1.Object
	metav1.ObjectMetaAccessor
	runtime.Object
	Unmarshal(data []byte) error
}

// Kind is a type of objects that have a spec.
type Kind struct {
	typ   reflect.Type
	field int              // Spec, in the struct
	spec  protowire.Number // and in the message
	lists [][]int          // in the metadata and the status
}

// KindOf returns the Kind of t, if t is an [Object] and a pointer to a struct with a
// field Spec.
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
	k = Kind{t.Elem(), f.Index[0], protowire.Number(number), listsOf(t.Elem(), "ObjectMeta", "Status")}
	return k, err == nil && k.spec > metadataNumber
}

// listsOf returns the lists of structs that are fields of these fields of t.
func listsOf(t reflect.Type, names ...string) (lists [][]int) {
	for _, name := range names {
		f, ok := t.FieldByName(name)
		if !ok || f.Type.Kind() != reflect.Struct {
			continue
		}
		for in := range f.Type.Fields() {
			if in.Type.Kind() == reflect.Slice && in.Type.Elem().Kind() == reflect.Struct {
				lists = append(lists, append(slices.Clone(f.Index), in.Index...))
			}
		}
	}
	return lists
}

// name of the kind, such as "Pod".
func (k Kind) name() string { return k.typ.Name() }

func (k Kind) fresh() Object { return reflect.New(k.typ).Interface().(Object) }

// copySpec makes the spec of from that of to: a shallow copy.
func (k Kind) copySpec(to, from Object) {
	reflect.ValueOf(to).Elem().Field(k.field).Set(reflect.ValueOf(from).Elem().Field(k.field))
}

// makeRoom gives the empty lists of o the capacity of those of like: decoding appends
// one by one, and would otherwise allocate a list each time one grows.
func (k Kind) makeRoom(o, like Object) {
	to, from := reflect.ValueOf(o).Elem(), reflect.ValueOf(like).Elem()
	for _, list := range k.lists {
		if n := from.FieldByIndex(list).Len(); n > 0 {
			to.FieldByIndex(list).Grow(n)
		}
	}
}

// dropEmpty makes empty lists of o nil, as they would be without makeRoom.
func (k Kind) dropEmpty(o Object) {
	of := reflect.ValueOf(o).Elem()
	for _, list := range k.lists {
		if f := of.FieldByIndex(list); f.Len() == 0 {
			f.SetZero()
		}
	}
}

package reconcile

import (
	"encoding/json"
	"hash/fnv"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/homeostat/homeostat/internal/answer"
	"github.com/homeostat/homeostat/internal/diff"
)

// asked contains the fields that a write asks to change. It maps the path of
// each field to a digest of the requested value. Values that the cached object
// already has are not included, and neither are changes that other clients make
// at the same time, such as changes of the status. A list counts as one field.
type asked map[string]uint64

// Paths that do not name a field.
const (
	wholeObject = ""           // stands for the whole object, which a write creates or deletes
	wholeBody   = "the object" // stands for all fields of a request whose fields are unknown, or more than maxFields
	maxFields   = 32
)

// paths returns the paths of the fields, sorted.
func (a asked) paths() []string { return slices.Sorted(maps.Keys(a)) }

// asks returns what w asks to change. It returns nil if w changes no field, or
// if the request cannot be read. newest is the object as it was last written,
// or nil. newest is used only if the request of the client is not known.
func (w *write) asks(newest metav1.Object) asked {
	switch {
	case w.deleted && w.cached != nil && w.cached.GetDeletionTimestamp() != nil:
		return nil // it is being deleted already
	case w.deleted:
		return asked{wholeObject: 0}
	case w.content.Method == "":
		return w.reported(newest)
	case w.content.Body == nil:
		return nil
	}
	body, err := w.content.Body()
	if err != nil {
		return nil
	}
	defer body.Close() // a copy
	data, err := io.ReadAll(io.LimitReader(body, answer.MaxBytes))
	if err != nil {
		return nil
	}
	whole := w.content.Subresource == "" || w.content.Subresource == "status"
	switch {
	case !whole:
		return asked{w.content.Subresource: digest(data)}
	case w.content.Method == http.MethodPost:
		return asked{wholeObject: digest(data)}
	case w.content.Method == http.MethodPut:
		return w.replaced(data)
	case w.content.Type == string(types.JSONPatchType):
		return operations(data)
	default:
		return w.merged(data)
	}
}

// reported returns the fields that a write has changed. It compares the answer
// with the object that was cached before the write or, if there was none, with
// newest. It returns nil if there is neither. If the answer is about another
// object, the write has created that one, and reported returns wholeObject.
func (w *write) reported(newest metav1.Object) asked {
	base := w.cached
	if base == nil {
		base = newest
	}
	switch {
	case base == nil:
		return nil
	case base.GetUID() == w.object.GetUID():
		return changes(base, w.object).exclude("status")
	}
	empty := reflect.New(reflect.TypeOf(w.object).Elem()).Interface().(metav1.Object)
	whole, err := json.Marshal(changes(empty, w.object).exclude("status"))
	if err != nil {
		return nil
	}
	return asked{wholeObject: digest(whole)} // created
}

// replaced returns what an update asks to change. data is the body of its
// request.
func (w *write) replaced(data []byte) asked {
	body, err := answer.Read(w.content.Type, data)
	if err != nil {
		return asked{wholeBody: digest(data)}
	}
	base := w.cached
	if base == nil {
		base = &unstructured.Unstructured{}
	}
	object := decoded(body, base)
	if object == nil {
		return asked{wholeBody: digest(data)}
	}
	fields := changes(base, object)
	if w.content.Subresource == "status" {
		maps.DeleteFunc(fields, func(path string, _ uint64) bool { return !isWithin(path, "status") })
		return fields
	}
	return fields.exclude("status")
}

// exclude returns a copy of a without field and without the fields in it. If no
// fields would be left, it returns a itself.
func (a asked) exclude(field string) asked {
	rest := maps.Clone(a)
	maps.DeleteFunc(rest, func(path string, _ uint64) bool { return isWithin(path, field) })
	if len(rest) == 0 {
		return a
	}
	return rest
}

// isWithin reports whether path leads to field or into it.
func isWithin(path, field string) bool {
	rest, ok := strings.CutPrefix(path, field)
	return ok && (rest == "" || rest[0] == '.')
}

// merged returns what a merge patch, or the configuration of an apply, asks to
// change. data is the body of its request. Values that the cached object
// already has are not included.
func (w *write) merged(data []byte) asked {
	var changed map[string]any
	if json.Unmarshal(data, &changed) != nil && yaml.Unmarshal(data, &changed) != nil {
		return asked{wholeBody: digest(data)}
	}
	changed = clientFields(changed)
	current := fieldsOf(w.cached, changed)
	fields := asked{}
	fields.add("", changed, current, current != nil)
	return fields.bounded()
}

// fieldsOf returns the fields of an object that a patch changes, as decoded
// JSON. It encodes only these fields, because encoding a large object for one
// field would be expensive. An unstructured object is returned whole, because
// it is decoded already. fieldsOf returns nil if the object is not known.
func fieldsOf(object metav1.Object, changed map[string]any) map[string]any {
	if u, ok := object.(*unstructured.Unstructured); ok {
		return u.Object
	}
	if object == nil {
		return nil
	}
	parts := map[string]any{}
	for name := range changed {
		if name == "metadata" {
			parts[name] = metav1.ObjectMeta{
				Labels: object.GetLabels(), Annotations: object.GetAnnotations(),
				Finalizers: object.GetFinalizers(), OwnerReferences: object.GetOwnerReferences(),
			}
			continue
		}
		value, ok := taggedField(object, name)
		if !ok {
			return asJSON(object) // the type has its own MarshalJSON, or no field with this tag
		}
		parts[name] = value
	}
	return asJSON(parts)
}

// taggedField returns a field of a struct by its name in JSON. The value is nil
// if the field is empty. ok is false if the struct has no such field, or
// encodes itself (json.Marshaler).
func taggedField(object metav1.Object, name string) (value any, ok bool) {
	v := reflect.Indirect(reflect.ValueOf(object))
	if _, ok := object.(json.Marshaler); ok || v.Kind() != reflect.Struct {
		return nil, false
	}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag != name || !f.IsExported() {
			continue
		}
		if v.Field(i).IsZero() {
			return nil, true
		}
		return v.Field(i).Interface(), true
	}
	return nil, false
}

// asJSON encodes value as JSON and decodes it again. Its parts then have the
// same types as in an object that a client has read. It returns nil if value is
// not a JSON object.
func asJSON(value any) (object map[string]any) {
	encoded, err := json.Marshal(value)
	if err == nil {
		_ = json.Unmarshal(encoded, &object) // it is JSON
	}
	return object
}

// operations returns what a JSON patch asks to change. data is the body of its
// request.
func operations(data []byte) asked {
	var list []struct {
		Op, Path, From string
		Value          json.RawMessage
	}
	if json.Unmarshal(data, &list) != nil {
		return asked{wholeBody: digest(data)}
	}
	fields := asked{}
	for _, o := range list {
		names := strings.Split(strings.TrimPrefix(o.Path, "/"), "/")
		if i := slices.IndexFunc(names, isIndex); i > 0 {
			names = names[:i]
		}
		metadata := names[0] == "metadata" && len(names) > 1
		if o.Op == "test" || metadata && !slices.Contains(clientMetadata, names[1]) {
			continue
		}
		path := strings.Join(names, ".")
		fields[path] = 31*fields[path] + digest(slices.Concat([]byte(o.Op+o.Path+o.From), o.Value))
	}
	return fields.bounded()
}

func isIndex(name string) bool {
	_, err := strconv.Atoi(name)
	return err == nil || name == "-"
}

// clientMetadata lists the metadata fields that clients write.
var clientMetadata = []string{"labels", "annotations", "finalizers", "ownerReferences"}

// changes returns the fields that differ between two states of an object,
// except for the ones that the server sets at every write.
func changes(oldObject, newObject metav1.Object) asked {
	oldObject, newObject = decoded(oldObject, newObject), decoded(newObject, oldObject)
	if oldObject == nil || newObject == nil {
		return nil
	}
	p, err := diff.Compare(oldObject, newObject)
	if err != nil || p.Data == nil {
		return nil
	}
	var changed map[string]any
	_ = json.Unmarshal(p.Data, &changed) // it is JSON
	fields := asked{}
	fields.add("", clientFields(changed), nil, false)
	return fields.bounded()
}

// clientFields removes the fields that only the server writes, and
// preconditions, from the merge patch changed. It returns changed.
func clientFields(changed map[string]any) map[string]any {
	delete(changed, "apiVersion")
	delete(changed, "kind")
	if metadata, ok := changed["metadata"].(map[string]any); ok {
		maps.DeleteFunc(metadata, func(name string, _ any) bool { return !slices.Contains(clientMetadata, name) })
	}
	return changed
}

// add adds to a each field that changed sets or removes. changed is a merge
// patch for the value at path, and object is the present value at path. If
// known is true, add leaves out the fields that object already has with the
// same value.
func (a asked) add(path string, changed map[string]any, object any, known bool) {
	current, _ := object.(map[string]any)
	for name, value := range changed {
		fieldPath := strings.TrimPrefix(path+"."+name, ".")
		if deeper, ok := value.(map[string]any); ok && (len(deeper) > 0 || fieldPath == "metadata") {
			a.add(fieldPath, deeper, current[name], known)
			continue
		}
		if known && isPart(value, current[name]) {
			continue
		}
		encoded, _ := json.Marshal(value) // sorts its keys
		a[fieldPath] = digest(encoded)
	}
}

// isPart reports whether actual, a value of an object, contains the requested
// value. actual may contain more, because the server adds defaults.
func isPart(value, actual any) bool {
	switch value := value.(type) {
	case map[string]any:
		fields, ok := actual.(map[string]any)
		for name, v := range value {
			ok = ok && isPart(v, fields[name])
		}
		return ok
	case []any:
		elements, ok := actual.([]any)
		if !ok || len(elements) != len(value) {
			return false
		}
		for i := range value {
			ok = ok && isPart(value[i], elements[i])
		}
		return ok
	case int64: // of an unstructured object
		return isPart(float64(value), actual)
	}
	if n, ok := actual.(int64); ok {
		actual = float64(n)
	}
	return value == actual
}

// bounded returns a, or nil if a is empty. If a has more than maxFields
// entries, it returns a single entry for the whole body instead.
func (a asked) bounded() asked {
	if len(a) == 0 {
		return nil
	}
	if len(a) <= maxFields {
		return a
	}
	encoded, _ := json.Marshal(a) // sorts its keys
	return asked{wholeBody: digest(encoded)}
}

func digest(data []byte) uint64 {
	hash := fnv.New64a()
	_, _ = hash.Write(data)
	return hash.Sum64()
}

// decoded returns object with the Go type of model. If object is an
// [answer.Object], the object in the answer to a write, it is decoded. The
// result is nil if it cannot be decoded, because it is not a whole object. If
// model is an answer.Object, too, the result is unstructured. Any other object
// is returned unchanged.
func decoded(object, model metav1.Object) metav1.Object {
	got, ok := object.(*answer.Object)
	if !ok {
		return object
	}
	dst := metav1.Object(&unstructured.Unstructured{})
	if _, isAnswer := model.(*answer.Object); !isAnswer {
		dst = reflect.New(reflect.TypeOf(model).Elem()).Interface().(metav1.Object)
	}
	if got.Into(dst) != nil {
		return nil
	}
	return dst
}

// isWhole reports whether the write creates or deletes the object.
func (a asked) isWhole() bool {
	_, ok := a[wholeObject]
	return ok
}

package diff

import (
	"encoding/json"
	"errors"
	"reflect"
)

// samples are JSON values of every shape but null, with which [reshapes] calls
// UnmarshalJSON.
var samples = []string{`{}`, `{"a":{}}`, `[]`, `["a"]`, `[{}]`, `"a"`, `1`, `true`}

// probe is the name of a member that no object has. testShape uses it in
// operations that have no effect.
const probe = "homeostat.dev/shape"

// reshapes reports whether the UnmarshalJSON of t may read a value of one shape
// that the type then writes in another. For example, such a type reads the
// string "nginx:1" as a struct with a name and a tag. The server then has a
// string where the Go value is a struct, and a merge patch of the tag would
// replace the string, together with the name.
//
// To find out, reshapes calls UnmarshalJSON with a sample of each shape of JSON
// value, such as {} and "a". A method that only sets defaults returns a
// [json.UnmarshalTypeError] for a sample of another shape. If the method
// returns a different error, it may have refused this sample only, so reshapes
// assumes that it reads other values of that shape.
func reshapes(t reflect.Type, k kind) bool {
	if !reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return false
	}
	var own shape
	switch k {
	case kindStruct, kindMap:
		own = shapeObject
	case kindSlice:
		own = shapeList
	case kindOpaque:
		own, _ = reread(t, "")
	default:
		return false
	}
	for _, sample := range samples {
		read := shapeOf([]byte(sample))
		written, err := reread(t, sample)
		if written == shapeNull && k != kindOpaque {
			written = own
		}
		var refusal *json.UnmarshalTypeError
		switch {
		case err == nil && written != shapeNull && written != read:
			return true
		case err != nil && own != shapeNull && read != own && !errors.As(err, &refusal):
			return true
		}
	}
	return false
}

// reread returns the shape that a value of type t has in JSON after it was read
// from sample, or the shape of a new value if sample is empty.
func reread(t reflect.Type, sample string) (written shape, err error) {
	defer func() {
		if recover() != nil {
			written, err = shapeNull, errors.New("the type cannot decode the sample")
		}
	}()
	value := reflect.New(t).Interface()
	if sample != "" {
		if err := value.(json.Unmarshaler).UnmarshalJSON([]byte(sample)); err != nil {
			return shapeNull, err
		}
	}
	data, err := json.Marshal(value)
	if err != nil {
		return shapeNull, err
	}
	return shapeOf(data), nil
}

// shapeOf returns the shape of data. data must be JSON.
func shapeOf(data []byte) shape {
	switch data[0] {
	case '{':
		return shapeObject
	case '[':
		return shapeList
	case 'n':
		return shapeNull
	default:
		return shapeFlat
	}
}

// testShape writes operations that change no value, and that a server refuses
// if its value at the current path does not have the shape of t. It writes none
// if the server's value has the shape of t anyway.
func (o *operations) testShape(t *tree) {
	if !t.reshaped {
		return
	}
	o.addDependency()
	if t.shape == shapeObject {
		o.atMember(probe, func() {
			o.op("add", []byte(`""`))
			o.op("remove", nil)
		})
		return
	}
	name := AppendString(nil, probe)
	for range 2 { // the second element moves the first one, and would replace a member
		o.atMember("0", func() { o.op("add", name) })
		name = []byte(`""`)
	}
	o.atMember("1", func() { o.op("test", AppendString(nil, probe)) })
	for range 2 {
		o.atMember("0", func() { o.op("remove", nil) })
	}
}

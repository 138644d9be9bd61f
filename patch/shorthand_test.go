package patch_test

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// image is read from "name:tag", too.
type image struct {
	Name string `json:"name,omitempty"`
	Tag  string `json:"tag,omitempty"`
}

func (i *image) UnmarshalJSON(data []byte) error {
	var short string
	if json.Unmarshal(data, &short) == nil {
		i.Name, i.Tag, _ = strings.Cut(short, ":")
		return nil
	}
	type plain image
	return json.Unmarshal(data, (*plain)(i))
}

// env is read from a list of "name=value", too.
type env map[string]string

func (e *env) UnmarshalJSON(data []byte) error {
	var short []string
	if json.Unmarshal(data, &short) == nil {
		*e = env{}
		for _, entry := range short {
			name, value, _ := strings.Cut(entry, "=")
			(*e)[name] = value
		}
		return nil
	}
	type plain env
	return json.Unmarshal(data, (*plain)(e))
}

// steps are read from a map by their names, too.
type steps []part

func (s *steps) UnmarshalJSON(data []byte) error {
	var short map[string]part
	if json.Unmarshal(data, &short) == nil {
		*s = nil
		for name, step := range short {
			step.Name = name
			*s = append(*s, step)
		}
		slices.SortFunc(*s, func(a, b part) int { return cmp.Compare(a.Name, b.Name) })
		return nil
	}
	type plain steps
	return json.Unmarshal(data, (*plain)(s))
}

// listener writes an object, and is read from a number, too.
type listener struct{ number int }

func (p *listener) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &p.number) == nil {
		return nil
	}
	var long struct{ Number int }
	err := json.Unmarshal(data, &long)
	p.number = long.Number
	return err
}

func (p listener) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]int{"number": p.number})
}

// shorthandCases are edits of values that the type reads from two forms.
var shorthandCases = []hiddenCase{
	{
		name: "a struct that was read from a string", is: `{"image":"nginx:1"}`, refused: "spec.image",
		edit: func(w *widget) { w.Spec.Image.Tag = "2" },
	},
	{
		name: "such a struct without one of its fields", is: `{"image":"nginx:1"}`, refused: "spec.image",
		edit: func(w *widget) { w.Spec.Image.Tag = "" },
	},
	{
		name: "such a struct without all of its fields", is: `{"image":"nginx:1"}`, refused: "spec.image",
		edit: func(w *widget) { w.Spec.Image = image{} },
	},
	{
		name: "such a struct in a map", is: `{"images":{"a":"nginx:1"}}`, refused: "spec.images.a",
		edit: func(w *widget) { w.Spec.Images["a"].Tag = "2" },
	},
	{
		name: "a map that was read from a list", is: `{"env":["A=b"]}`, refused: "spec.env",
		edit: func(w *widget) { w.Spec.Env["C"] = "d" },
	},
	{
		name: "such a map whose key reads like an index", is: `{"env":["0=b","A=b"]}`, refused: "spec.env",
		edit: func(w *widget) { w.Spec.Env["0"], w.Spec.Env["-"] = "c", "d" },
	},
	{
		name: "such a map with an entry less", is: `{"env":["0=b","A=b"]}`, refused: "spec.env",
		edit: func(w *widget) { delete(w.Spec.Env, "0") },
	},
	{
		name: "a list that was read from a map", is: `{"steps":{"0":{"kind":"x","new":"x"}}}`, refused: "spec.steps",
		edit: func(w *widget) { w.Spec.Steps = append(w.Spec.Steps, part{Name: "b"}) },
	},
	{
		name: "a value that is written by a method", is: `{"port":1}`, refused: "spec.port",
		edit: func(w *widget) { w.Spec.Port.number = 2 },
	},
	{
		name:   "the form that the type writes",
		is:     `{"image":{"name":"a","tag":"1","new":"x"},"images":{"a":{"new":"x"}},"env":{"A":"b","0":"c"},"steps":[{"name":"a","new":"x"}],"port":{"number":1,"new":"x"}}`,
		wanted: `{"image":{"name":"a","tag":"2","new":"x"},"images":{"a":{"tag":"2","new":"x"}},"env":{"A":"b","-":"d"},"steps":[{"name":"a","size":1,"new":"x"},{"name":"b"}],"port":{"number":2,"new":"x"}}`,
		edit: func(w *widget) {
			w.Spec.Image.Tag, w.Spec.Images["a"].Tag, w.Spec.Port.number = "2", "2", 2
			delete(w.Spec.Env, "0")
			w.Spec.Env["-"] = "d"
			w.Spec.Steps[0].Size = 1
			w.Spec.Steps = append(w.Spec.Steps, part{Name: "b"})
		},
	},
	{
		name: "values that are not there yet", is: `{"env":{},"steps":[]}`,
		wanted: `{"image":{"name":"a"},"images":{"a":{"tag":"1"}},"env":{"A":"b"},"steps":[{"name":"a"}],"port":{"number":1}}`,
		edit: func(w *widget) {
			w.Spec.Image.Name, w.Spec.Images = "a", map[string]*image{"a": {Tag: "1"}}
			w.Spec.Env = env{"A": "b"}
			w.Spec.Steps, w.Spec.Port = steps{{Name: "a"}}, &listener{1}
		},
	},
	{
		name: "a member beside them", is: `{"image":"nginx:1","env":["A=b"],"steps":{"a":{}},"port":1,"size":1}`,
		wanted: `{"image":"nginx:1","env":["A=b"],"steps":{"a":{}},"port":1,"size":2}`,
		edit:   func(w *widget) { w.Spec.Size = 2 },
	},
}

// roundedCases are edits of lists of values that the type cannot hold: a
// float32 reads 16777217 as 16777216.
var roundedCases = []hiddenCase{
	{
		name: "an element more", is: `{"weights":[16777217,2]}`, wanted: `{"weights":[16777217,2,3]}`,
		edit: func(w *widget) { w.Spec.Weights = append(w.Spec.Weights, 3) },
	},
	{
		name: "an element replaced", is: `{"weights":[2,16777217]}`, wanted: `{"weights":[3,16777217]}`,
		edit: func(w *widget) { w.Spec.Weights[0] = 3 },
	},
	{
		name: "an element less", is: `{"weights":[2,16777217]}`, wanted: `{"weights":[16777217]}`,
		edit: func(w *widget) { w.Spec.Weights = w.Spec.Weights[1:] },
	},
	{
		name: "another order", is: `{"weights":[16777217,2]}`, wanted: `{"weights":[2,16777217]}`,
		edit: func(w *widget) { slices.Reverse(w.Spec.Weights) },
	},
	{
		name: "all elements replaced", is: `{"weights":[16777217,2]}`, wanted: `{"weights":[3]}`,
		edit: func(w *widget) { w.Spec.Weights = []float32{3} },
	},
	{
		name: "one of two that look alike", is: `{"weights":[16777217,16777216]}`, refused: "spec.weights",
		edit: func(w *widget) { w.Spec.Weights = w.Spec.Weights[1:] },
	},
	{
		name: "behind those that a Transform has kept", is: `{"weights":[1,2]}`, refused: "spec.weights",
		cut:  func(w *widget) { w.Spec.Weights = w.Spec.Weights[:1] },
		edit: func(w *widget) { w.Spec.Weights = append(w.Spec.Weights, 3) },
	},
	{
		name: "all that a Transform has kept", is: `{"weights":[1,2]}`, refused: "spec.weights",
		cut:  func(w *widget) { w.Spec.Weights = w.Spec.Weights[:1] },
		edit: func(w *widget) { w.Spec.Weights = nil },
	},
}

func TestAnElementThatTheTypeCannotHoldSurvives(t *testing.T) {
	simulatedWidgets(t).survives(roundedCases)
}

// A merge patch of spec.image.tag would replace the string that the server has.
func TestAValueThatWasReadFromAnotherFormSurvives(t *testing.T) {
	simulatedWidgets(t).survives(shorthandCases)
}

package patch_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/homeostat/homeostat/patch"
)

func raw(text string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(text)} }

// values returns an edit that sets the values of a widget.
func values(text string) func(*widget) {
	return func(w *widget) { w.Spec.Values = raw(text) }
}

// nullCases are edits of raw JSON. In the values of Helm, for example, a null
// removes a default of the chart.
var nullCases = []hiddenCase{
	{
		name: "a value becomes null", is: `{"values":{"cpu":"1","memory":"2"},"new":1}`,
		wanted: `{"values":{"cpu":null,"memory":"2"},"new":1}`, edit: values(`{"cpu":null,"memory":"2"}`),
	},
	{
		name: "a new null", is: `{"values":{"memory":"2"}}`, wanted: `{"values":{"cpu":null,"memory":"2"}}`,
		edit: values(`{"cpu":null,"memory":"2"}`),
	},
	{
		name: "an object becomes null", is: `{"values":{"a":{"b":{"c":1},"d":2}}}`,
		wanted: `{"values":{"a":{"b":null,"d":3}}}`, edit: values(`{"a":{"b":null,"d":3}}`),
	},
	{
		name: "a new object with a null", is: `{"values":{"a":1}}`, wanted: `{"values":{"a":1,"b":{"c":null}}}`,
		edit: values(`{"a":1,"b":{"c":null}}`),
	},
	{
		name: "new values with a null", is: `{"size":1}`, wanted: `{"size":1,"values":{"b":{"c":null}}}`,
		edit: values(`{"b":{"c":null}}`),
	},
	{
		name: "beside a null", is: `{"values":{"x":{"a":null,"b":1}}}`,
		wanted: `{"values":{"x":{"a":null,"b":2,"c":{"d":1}}}}`, edit: values(`{"x":{"a":null,"b":2,"c":{"d":1}}}`),
	},
	{
		name: "a null less", is: `{"values":{"a":null,"b":1}}`, wanted: `{"values":{"b":1}}`, edit: values(`{"b":1}`),
	},
	{
		name: "a null becomes a value", is: `{"values":{"a":null,"b":null}}`, wanted: `{"values":{"a":5,"b":null}}`,
		edit: values(`{"a":5,"b":null}`),
	},
	{
		name: "nulls in a list", is: `{"values":{"a":[1,2]}}`, wanted: `{"values":{"a":[1,null,{"b":null}]}}`,
		edit: values(`{"a":[1,null,{"b":null}]}`),
	},
	{
		name: "in a new list of lists", is: `{"values":{"x":1}}`, wanted: `{"values":{"x":1,"a":[[{"b":null}]]}}`,
		edit: values(`{"x":1,"a":[[{"b":null}]]}`),
	},
	{
		name: "new values with a list of lists", is: `{"size":1}`, wanted: `{"size":1,"values":{"a":[[{"b":null}],[null]]}}`,
		edit: values(`{"a":[[{"b":null}],[null]]}`),
	},
	{
		name: "in an element", is: `{"charts":[{"name":"a","values":{"x":{"z":1},"y":2},"new":1},{"name":"b","new":1}]}`,
		wanted: `{"charts":[{"name":"a","values":{"x":{"z":null},"y":2},"new":1},{"name":"b","new":1}]}`,
		edit:   func(w *widget) { w.Spec.Charts[0].Values = raw(`{"x":{"z":null},"y":2}`) },
	},
	{
		name: "in a new element", is: `{"charts":[{"name":"b","new":1}]}`,
		wanted: `{"charts":[{"name":"b","new":1},{"name":"a","values":{"x":null,"y":2}}]}`,
		edit: func(w *widget) {
			w.Spec.Charts = append(w.Spec.Charts, chart{Name: "a", Values: raw(`{"x":null,"y":2}`)})
		},
	},
	{
		name: "in a map", is: `{"named":{"a":{"x":1}}}`, wanted: `{"named":{"a":{"x":null},"b":{"y":null}}}`,
		edit: func(w *widget) { w.Spec.Named["a"], w.Spec.Named["b"] = raw(`{"x":null}`), raw(`{"y":null}`) },
	},
	{
		// A nil pointer is no value: the JSON of the object has nulls for nothing.
		name: "a Go object with a nil member", is: `{"values":{"a":1}}`,
		wanted: `{"values":{"metadata":{},"spec":{"size":0},"status":{}}}`,
		edit:   func(w *widget) { w.Spec.Values = &runtime.RawExtension{Object: &widget{}} },
	},
}

func TestANullInRawJSONIsStored(t *testing.T) {
	simulatedWidgets(t).survives(nullCases)
}

func TestANullThatIsStoredIsNotSentAgain(t *testing.T) {
	w := simulatedWidgets(t)
	w.store("w", "spec", `{"values":{"memory":"2"}}`)
	edit := values(`{"cpu":null,"memory":"2"}`)
	_, err := patch.Ensure(t.Context(), w.widgets.typed, w.cached("w", nil), nil, edit)
	w.Expect(err).NotTo(HaveOccurred())
	cached := w.cached("w", nil)
	got, err := patch.Ensure(t.Context(), w.widgets.typed, cached, nil, edit)
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(got).To(BeIdenticalTo(cached), "no request was sent")
}

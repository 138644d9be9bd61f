package diff_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat/homeostat/internal/diff"
)

func TestLongListsAreMergedByKey(t *testing.T) {
	for _, n := range []int{15, 16, 17, 200} {
		var before, after kitchen
		for i := range n {
			before.Items = append(before.Items, item{Name: fmt.Sprint("n", i), Value: "x"})
			before.Scalars = append(before.Scalars, fmt.Sprint("s", i))
		}
		after.Items = append([]item{{Name: "new"}}, before.Items[1:]...)
		after.Items[n/2].Value = "y"
		after.Items[n-1], after.Items[n-2] = after.Items[n-2], after.Items[n-1]
		after.Scalars = append([]string{"new"}, before.Scalars[1:]...)
		a, b := roundTrip(&before), roundTrip(&after)
		p, err := diff.Make(a, b, diff.Strategic)
		if err != nil {
			t.Fatal(err)
		}
		if p.Style != diff.Strategic {
			t.Errorf("%d elements: not merged by key: %s", n, p.Data)
		}
		if _, err := judge(a, b, diff.Strategic); err != nil {
			t.Errorf("%d elements: %v", n, err)
		}
		after.Items = append(after.Items, after.Items[0])
		if p, err := diff.Make(a, roundTrip(&after), diff.Strategic); err != nil || p.Style != diff.Operations {
			t.Errorf("%d elements, one twice: %v, %s", n, err, p.Data)
		}
	}
}

// These types have an IsZero method.
type (
	never   struct{ N int }
	pointed struct{ N int }
	zeros   struct {
		Never   never    `json:"never,omitzero"`
		Pointer *never   `json:"pointer,omitzero"`
		Pointed *pointed `json:"pointed,omitzero"`
		Plain   pointed  `json:"plain,omitzero"`
		Any     any      `json:"any,omitzero"`
		List    []int    `json:"list,omitzero"`
		Float   float64  `json:"float,omitempty"`
		Small   int16    `json:"small,omitempty"`
		Flag    uint64   `json:"flag,omitempty"`
	}
)

func (v never) IsZero() bool { return v.N == 7 }

func (v *pointed) IsZero() bool { return v.N == 8 }

func TestOmitzero(t *testing.T) {
	values := []zeros{
		{},
		{Never: never{7}, Pointer: &never{7}, Pointed: &pointed{8}, Plain: pointed{8}, Any: never{7}, List: []int{}},
		{Never: never{1}, Pointer: &never{1}, Pointed: &pointed{1}, Plain: pointed{1}, Any: "x", List: []int{1}},
		{Pointer: &never{}, Pointed: &pointed{}, Any: 0, Float: 1.5, Small: 3, Flag: 1 << 63},
		{Any: map[string]any{"a": 1}, Float: -1, Small: -3},
	}
	for i := range values {
		for j := range values {
			p, err := diff.Compare(&values[i], &values[j])
			if err != nil {
				t.Fatal(err)
			}
			theirs, err := apimachinery(&values[i], &values[j], diff.JSON)
			if err != nil {
				t.Fatal(err)
			}
			if !sameText(p.Data, string(theirs)) {
				t.Errorf("from %s to %s: %s, apimachinery %s", text(values[i]), text(values[j]), p.Data, theirs)
			}
		}
	}
}

func TestElementsThatLeaveOutAnEmptyMemberAreEqual(t *testing.T) {
	type element struct {
		Tags []string `json:"tags,omitempty"`
	}
	type holder struct {
		List []element `json:"list"`
	}
	p, err := diff.Make(&holder{[]element{{}}}, &holder{[]element{{Tags: []string{}}}}, diff.JSON)
	if err != nil || p.Data != nil {
		t.Errorf("got %s, %v", p.Data, err)
	}
}

// broken cannot be encoded as JSON.
type broken struct{ N int }

func (broken) MarshalJSON() ([]byte, error) { return nil, errors.New("no JSON") }

// shy has a MarshalJSON method only for its pointer, which encoding/json does
// not call for values in maps.
type shy struct{ N int }

func (*shy) MarshalJSON() ([]byte, error) { return []byte(`"shy"`), nil }

func TestErrorsOfEncodingAreReturned(t *testing.T) {
	type holder struct {
		Broken broken `json:"broken"`
	}
	if _, err := diff.Make(&holder{broken{1}}, &holder{broken{2}}, diff.JSON); err == nil {
		t.Error("an object without JSON was compared")
	}
	if p, err := diff.Make(&holder{broken{1}}, &holder{broken{1}}, diff.JSON); err != nil || p.Data != nil {
		t.Error("equal memory needs no JSON", err)
	}
	bad := func(v any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"a": v}}
	}
	if _, err := diff.Compare(bad(broken{1}), bad(broken{2})); err == nil {
		t.Error("a tree without JSON was compared")
	}
	if _, err := diff.Compare(bad("x"), bad(broken{2})); err == nil {
		t.Error("a tree without JSON was written")
	}
}

func TestValuesOfMapsHaveTheJSONThatMapsGiveThem(t *testing.T) {
	type holder struct {
		Map  map[string]shy            `json:"map,omitempty"`
		Maps map[string]map[string]int `json:"maps,omitempty"`
	}
	a := &holder{Map: map[string]shy{"a": {1}}}
	b := &holder{Map: map[string]shy{"a": {2}}, Maps: map[string]map[string]int{"x": {"y": 1}}}
	p, err := diff.Make(a, b, diff.JSON)
	if err != nil || !sameText(p.Data, `{"map":{"a":{"N":2}},"maps":{"x":{"y":1}}}`) {
		t.Errorf("got %s, %v", p.Data, err)
	}
	type nested struct {
		Maps map[string]map[string]int `json:"maps,omitempty"`
	}
	p, err = diff.Make(&nested{}, &nested{map[string]map[string]int{"x": nil, "y": {"z": 1}}}, diff.JSON)
	if err != nil || !sameText(p.Data, `{"maps":{"x":{},"y":{"z":1}}}`) {
		t.Errorf("got %s, %v", p.Data, err)
	}
}

func TestTypedValuesInTrees(t *testing.T) {
	tree := func(v any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"a": v}}
	}
	for _, c := range []struct {
		before, after any
		want          string
	}{
		{map[string]string{"x": "1"}, map[string]string{"y": "1"}, `{"a":{"x":null,"y":"1"}}`},
		{map[string]string{"x": "1"}, map[string]any{"x": "1"}, ``},
		{json.Number("1"), int64(1), ``},
		{[]string{"x"}, []any{"y"}, `{"a":["y"]}`},
		{map[string]any(nil), map[string]any{}, `{"a":{}}`},
	} {
		p, err := diff.Compare(tree(c.before), tree(c.after))
		if err != nil || !sameText(p.Data, c.want) {
			t.Errorf("from %v to %v: got %s, %v", c.before, c.after, p.Data, err)
		}
	}
}

// encoding/json writes "" as 0, and omitempty leaves it out.
func TestANumberThatIsNowLeftOutIsRemoved(t *testing.T) {
	type numbers struct {
		N json.Number `json:"n,omitempty"`
	}
	type lists struct {
		List []numbers `json:"list"`
	}
	for _, row := range []struct {
		before, after any
		want          string
	}{
		{&numbers{"0"}, &numbers{}, `{"n":null}`},
		{&numbers{}, &numbers{"0"}, `{"n":0}`},
		{&lists{[]numbers{{"0"}}}, &lists{[]numbers{{}}}, `{"list":[{}]}`},
	} {
		p, err := diff.Compare(row.before, row.after)
		if err != nil || string(p.Data) != row.want {
			t.Errorf("%v to %v: %v, %s, want %s", row.before, row.after, err, p.Data, row.want)
		}
	}
}

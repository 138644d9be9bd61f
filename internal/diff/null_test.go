package diff_test

import (
	"encoding/json"
	"math/rand"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/homeostat/homeostat/internal/diff"
)

// setNulls sets each pointer whose zero value is null in JSON, at random, to a
// pointer to that zero value or to nil. It returns how many it has set.
func setNulls(v reflect.Value, toNil bool) (n int) {
	switch v.Kind() {
	case reflect.Struct:
		if leaf(v.Type()) {
			return 0
		}
		for _, f := range v.Fields() {
			if f.CanSet() {
				n += setNulls(f, toNil)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			n += setNulls(v.Index(i), toNil)
		}
	case reflect.Pointer:
		zero := reflect.New(v.Type().Elem())
		if data, err := json.Marshal(zero.Interface()); err != nil || string(data) != "null" {
			return setNulls(v.Elem(), toNil)
		}
		if v.Set(zero); toNil {
			v.SetZero()
		}
		return 1
	}
	return n
}

// A pointer to a zero time is written as null, and a nil pointer is omitted. A
// patch from one to the other would be sent again and again.
func TestNullEqualsAnAbsentField(t *testing.T) {
	nulls := 0
	for _, kind := range builtIn() {
		for seed := range int64(3) {
			before, _ := pair(kind, rand.NewSource(seed), 0)
			after := roundTrip(before)
			nulls += setNulls(reflect.ValueOf(after).Elem(), false)
			setNulls(reflect.ValueOf(before).Elem(), true)
			for _, s := range []diff.Style{diff.Strategic, diff.JSON} {
				for _, o := range [][2]any{{before, after}, {after, before}} {
					if p, err := diff.Make(o[0], o[1], s); err != nil || p.Data != nil {
						t.Errorf("%v, style %d: %s, %v", kind, s, p.Data, err)
					}
				}
			}
		}
	}
	if nulls < 500 {
		t.Errorf("only %d nulls", nulls)
	}
}

func TestNullOfACustomTypeEqualsAnAbsentField(t *testing.T) {
	type custom struct {
		Time   *metav1.Time          `json:"time,omitempty"`
		Micro  *metav1.MicroTime     `json:"micro,omitempty"`
		Fields *metav1.FieldsV1      `json:"fields,omitempty"`
		Object *runtime.RawExtension `json:"object,omitempty"`
		Raw    json.RawMessage       `json:"raw,omitempty"`
		List   *[]string             `json:"list,omitempty"`
		Zero   metav1.Time           `json:"zero,omitzero"`
		Taints []corev1.Taint        `json:"taints,omitempty"`
	}
	none := &custom{Taints: []corev1.Taint{{Key: "a"}}}
	null := &custom{
		Time: &metav1.Time{}, Micro: &metav1.MicroTime{}, Fields: &metav1.FieldsV1{}, Object: &runtime.RawExtension{},
		Raw: json.RawMessage("null"), List: new([]string), Taints: []corev1.Taint{{Key: "a", TimeAdded: &metav1.Time{}}},
	}
	for _, o := range [][2]any{{none, null}, {null, none}} {
		if p, err := diff.Make(o[0], o[1], diff.JSON); err != nil || p.Data != nil {
			t.Errorf("%s, %v", p.Data, err)
		}
	}
}

// odd is null below zero, and omitted at zero, though its JSON is not null
// then.
type odd int

func (o odd) MarshalJSON() ([]byte, error) {
	if o < 0 {
		return []byte("null"), nil
	}
	return json.Marshal(int(o))
}

func (o *odd) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, (*int)(o)) }

// unset is null unless it is set, and omitted only if it is zero.
type unset struct {
	Set  bool
	Note string
}

func (h unset) MarshalJSON() ([]byte, error) {
	if !h.Set {
		return []byte("null"), nil
	}
	return json.Marshal(h.Note)
}

func (h *unset) UnmarshalJSON([]byte) error { return nil }

// Each of these pairs is equal only because of a different rule in the
// comparison.
func TestNullsInOtherFormsEqualAnAbsentField(t *testing.T) {
	type custom struct {
		Odd   odd                     `json:"odd,omitzero"`
		Unset unset                   `json:"unset,omitzero"`
		Times []*metav1.Time          `json:"times,omitempty"`
		Named map[string]*metav1.Time `json:"named,omitempty"`
	}
	for name, o := range map[string][2]*custom{
		"omitted, though not null":     {{Odd: 0}, {Odd: -1}},
		"null, though not zero":        {{}, {Unset: unset{Note: "a"}}},
		"an element that is nil":       {{Times: []*metav1.Time{nil}}, {Times: []*metav1.Time{{}}}},
		"a value of a map that is nil": {{Named: map[string]*metav1.Time{"a": nil}}, {Named: map[string]*metav1.Time{"a": {}}}},
	} {
		for _, o := range [][2]*custom{o, {o[1], o[0]}} {
			if p, err := diff.Make(o[0], o[1], diff.JSON); err != nil || p.Data != nil {
				t.Errorf("%s: %s, %v", name, p.Data, err)
			}
		}
	}
}

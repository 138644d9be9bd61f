package diff_test

import (
	"encoding/json"
	"math/rand"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat/homeostat/internal/diff"
)

// randomTree is a random tree as a JSON decoder makes it.
func randomTree(r *rand.Rand, depth int) any {
	switch n := r.Intn(9); {
	case n < 3 && depth > 0:
		m := map[string]any{}
		for range r.Intn(4) {
			m[word(r)] = randomTree(r, depth-1)
		}
		return m
	case n == 3 && depth > 0:
		list := []any{}
		for range r.Intn(3) {
			list = append(list, randomTree(r, depth-1))
		}
		return list
	case n == 4:
		return r.Intn(2) == 0
	case n == 5:
		return int64(r.Intn(3))
	case n == 6:
		return float64(r.Intn(6)) / 2
	default:
		return word(r)
	}
}

// grow changes a few nodes of the tree.
func grow(r *rand.Rand, v any) any {
	m, ok := v.(map[string]any)
	if !ok || r.Intn(8) == 0 {
		return randomTree(r, 2)
	}
	out := map[string]any{}
	for k, v := range m {
		if n := r.Intn(8); n == 0 {
			v = grow(r, v)
		} else if n == 1 {
			continue
		}
		out[k] = v
	}
	return out
}

func TestUntypedTrees(t *testing.T) {
	changed := 0
	for seed := range int64(3000) {
		r := rand.New(rand.NewSource(seed))
		a := map[string]any{"spec": randomTree(r, 4), "metadata": map[string]any{"labels": map[string]any{"a": "b", "c": "d"}}}
		b := map[string]any{"spec": grow(r, a["spec"]), "metadata": map[string]any{"labels": map[string]any{"a": word(r)}}}
		p, err := diff.Make(&unstructured.Unstructured{Object: a}, &unstructured.Unstructured{Object: b}, diff.JSON)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if p.Data == nil {
			continue
		}
		changed++
		got, err := onServer([]byte(text(a)), p.Data, p.Style, nil)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if !sameText(got, text(b)) {
			t.Fatalf("seed %d: %s\nof %s\ngives %s\nwanted %s", seed, p.Data, text(a), got, text(b))
		}
	}
	if changed < 1000 {
		t.Errorf("only %d trees differ", changed)
	}
}

func TestUntypedBehaviours(t *testing.T) {
	for _, c := range []struct{ name, before, after, want string }{
		{"nothing", `{"a":1,"b":[{"c":null}]}`, `{"a":1,"b":[{"c":null}]}`, ``},
		{"a whole number written as a fraction", `{"a":1}`, `{"a":1.0}`, ``},
		{"a large number", `{"a":9007199254740993}`, `{"a":9007199254740992}`, `{"a":9007199254740992}`},
		{"null for nothing, which no patch can ask for", `{}`, `{"a":null}`, ``},
		{"nothing for null", `{"a":null}`, `{}`, `{"a":null}`},
		{"a list for an object", `{"a":{"b":1}}`, `{"a":[1]}`, `{"a":[1]}`},
		{"an object for a list", `{"a":[1]}`, `{"a":{"b":1}}`, `{"a":{"b":1}}`},
		{"an empty object", `{"a":{"b":1}}`, `{"a":{}}`, `{"a":{"b":null}}`},
		{"no more labels", `{"metadata":{"labels":{"a":"b"}}}`, `{"metadata":{}}`, `{"metadata":{"labels":{"a":null}}}`},
		{
			"no more annotations", `{"metadata":{"annotations":{"a":"b"}}}`, `{"metadata":{"annotations":null}}`,
			`{"metadata":{"annotations":{"a":null}}}`,
		},
	} {
		a, b := &unstructured.Unstructured{}, &unstructured.Unstructured{}
		if err := json.Unmarshal([]byte(c.before), &a.Object); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(c.after), &b.Object); err != nil {
			t.Fatal(err)
		}
		large(a.Object, c.before)
		large(b.Object, c.after)
		p, err := diff.Compare(a, b)
		if err != nil || !sameText(p.Data, c.want) {
			t.Errorf("%s: got %s, %v, want %s", c.name, p.Data, err, c.want)
		}
	}
}

// large gives a number the type that a decoder of objects gives it.
func large(m map[string]any, from string) {
	var exact map[string]json.Number
	if json.Unmarshal([]byte(from), &exact) == nil && exact["a"] != "" {
		if n, err := exact["a"].Int64(); err == nil {
			m["a"] = n
		}
	}
}

// No plan can be made for these types.
type (
	quoted struct {
		metav1.ObjectMeta `json:"metadata"`
		Count             int `json:"count,string"`
	}
	pointing struct {
		*inline
		Text string `json:"text,omitempty"`
	}
	promoted struct {
		metav1.Time
		Text string `json:"text,omitempty"`
	}
	arrays struct {
		Pair   [2]string         `json:"pair"`
		Any    any               `json:"any,omitempty"`
		Num    map[int]string    `json:"num,omitempty"`
		Rows   [][]string        `json:"rows,omitempty"`
		Number json.Number       `json:"number,omitempty"`
		Late   map[string]*int   `json:"late,omitempty"`
		Lists  map[string][]byte `json:"lists,omitempty"`
		Raw    json.RawMessage   `json:"raw,omitempty"`
	}
	hidden struct {
		inline        // the field count below hides its count
		Count  string `json:"count"`
		_      int
		secret int
		Skip   int `json:"-"`
	}
)

// twice has two members of one name, so that its JSON has neither.
func twice(n int64) any {
	v := reflect.New(reflect.StructOf([]reflect.StructField{
		{Name: "A", Type: reflect.TypeFor[int64](), Tag: `json:"same"`},
		{Name: "B", Type: reflect.TypeFor[int64](), Tag: `json:"same"`},
	}))
	v.Elem().Field(0).SetInt(n)
	return v.Interface()
}

func TestTypesWithoutAPlanAreComparedByTheirJSON(t *testing.T) {
	one, two := 1, 2
	for _, c := range []struct {
		before, after any
		want          string
	}{
		{&quoted{Count: 1}, &quoted{Count: 2}, `{"count":"2"}`},
		{&pointing{inline: &inline{Count: 1}}, &pointing{inline: &inline{Count: 2}}, `{"count":2}`},
		{&arrays{Pair: [2]string{"a", "b"}}, &arrays{Pair: [2]string{"a", "c"}}, `{"pair":["a","c"]}`},
		{&arrays{Any: map[string]any{"a": 1}}, &arrays{Any: map[string]any{"b": 1}}, `{"any":{"a":null,"b":1}}`},
		{&arrays{Any: inline{Kind: "a"}}, &arrays{Any: inline{Count: 1}}, `{"any":{"kind":null,"count":1}}`},
		{&arrays{Num: map[int]string{1: "a"}}, &arrays{Num: map[int]string{2: "a"}}, `{"num":{"1":null,"2":"a"}}`},
		{&arrays{Rows: [][]string{{"a"}}}, &arrays{Rows: [][]string{{"b"}}}, `{"rows":[["b"]]}`},
		{&arrays{Number: "1"}, &arrays{Number: "2"}, `{"number":2}`},
		{&arrays{Late: map[string]*int{"a": &one}}, &arrays{Late: map[string]*int{"a": &two}}, `{"late":{"a":2}}`},
		{&arrays{Late: map[string]*int{"a": &one}}, &arrays{Late: map[string]*int{"a": nil}}, `{"late":{"a":null}}`},
		{&arrays{Lists: map[string][]byte{"a": []byte("a")}}, &arrays{Lists: map[string][]byte{"b": nil}}, `{"lists":{"a":null,"b":""}}`},
		{&arrays{}, &arrays{Lists: map[string][]byte{"b": nil}}, `{"lists":{"b":""}}`},
		{&arrays{Lists: map[string][]byte{"b": {}}}, &arrays{Lists: map[string][]byte{"b": nil}}, ``},
		{&arrays{Raw: []byte(`{"a":1}`)}, &arrays{Raw: []byte(`{"b":1}`)}, `{"raw":{"a":null,"b":1}}`},
		{&hidden{Count: "a", Skip: 1, secret: 1}, &hidden{Count: "b", Skip: 2, secret: 2}, `{"count":"b"}`},
		{twice(1), twice(2), ``},
	} {
		for _, s := range []diff.Style{diff.JSON, diff.Strategic} {
			p, err := diff.Make(c.before, c.after, s)
			if p.Style == diff.Operations {
				p, err = diff.Compare(c.before, c.after)
			}
			if err != nil || !sameText(p.Data, c.want) {
				t.Errorf("%T, style %d: got %s, %v, want %s", c.before, s, p.Data, err, c.want)
			}
		}
	}
	p, err := diff.Make(&promoted{}, &promoted{Time: metav1.Unix(1, 0)}, diff.JSON)
	if err == nil {
		t.Errorf("an object whose JSON is no object was compared: %s", p.Data)
	}
	if _, err := diff.Make(&arrays{Raw: []byte(`{`)}, &arrays{Raw: []byte(`}`)}, diff.JSON); err == nil {
		t.Error("JSON that is none was compared")
	}
}

func TestMetadataIsAddedWhereverItIs(t *testing.T) {
	for patch, want := range map[string]string{
		`{"metadata":{"labels":{"a":"b"}}}`:   `{"metadata":{"uid":"x","labels":{"a":"b"}}}`,
		`{"spec":{"a":1}}`:                    `{"metadata":{"uid":"x"},"spec":{"a":1}}`,
		`{"a":{"metadata":{}},"metadata":{}}`: `{"a":{"metadata":{}},"metadata":{"uid":"x"}}`,
		`{"data":{"k":"\"metadata\":{"}}`:     `{"metadata":{"uid":"x"},"data":{"k":"\"metadata\":{"}}`,
	} {
		if got := diff.WithMetadata([]byte(patch), []byte(`"uid":"x"`)); !sameText(got, want) {
			t.Errorf("%s became %s", patch, got)
		}
	}
}

func TestStyleOf(t *testing.T) {
	for _, kind := range builtIn() {
		if diff.StyleOf(reflect.New(kind).Interface()) != diff.Strategic {
			t.Errorf("%v is built in", kind)
		}
	}
	for _, o := range []any{&kitchen{}, &unstructured.Unstructured{}, &metav1.PartialObjectMetadata{}} {
		if diff.StyleOf(o) != diff.JSON {
			t.Errorf("%T is not built in", o)
		}
	}
}

func TestEveryBuiltInKindHasAPlan(t *testing.T) {
	for _, kind := range builtIn() {
		before, after := reflect.New(kind), reflect.New(kind)
		after.MethodByName("SetName").Call([]reflect.Value{reflect.ValueOf("n")})
		p, err := diff.Make(before.Interface(), after.Interface(), diff.Strategic)
		if err != nil || p.Style != diff.Strategic || string(p.Data) != `{"metadata":{"name":"n"}}` {
			t.Errorf("%v: %s, %v", kind, p.Data, err)
		}
	}
}

func TestObjectsOfDifferentTypes(t *testing.T) {
	typed := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"a": "b"}}}
	untyped := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "n"}, "spec": map[string]any{},
		"status": map[string]any{"daemonEndpoints": map[string]any{"kubeletEndpoint": map[string]any{"Port": 0}}, "nodeInfo": nil},
	}}
	p, err := diff.Make(untyped, typed, diff.JSON)
	if err != nil || !strings.Contains(string(p.Data), `"labels":{"a":"b"}`) {
		t.Errorf("got %s, %v", p.Data, err)
	}
	p, err = diff.Make(typed, untyped, diff.JSON)
	if err != nil || !strings.Contains(string(p.Data), `"labels":`) {
		t.Errorf("got %s, %v", p.Data, err)
	}
}

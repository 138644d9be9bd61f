package diff_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/homeostat/homeostat/internal/diff"
)

// behaviours are the cases of apimachinery's own tables. Each has the JSON of a
// kitchen before and after, the strategic patch, and the JSON merge patch
// between them. "" means no patch, and "=" means the same patch as the
// strategic one.
var behaviours = []struct{ name, before, after, strategic, merge string }{
	{"nothing changed", `{"text":"a"}`, `{"text":"a"}`, ``, `=`},
	{"a field added", `{}`, `{"text":"a"}`, `{"text":"a"}`, `=`},
	{"a field changed", `{"text":"a"}`, `{"text":"b"}`, `{"text":"b"}`, `=`},
	{"a field removed", `{"text":"a"}`, `{}`, `{"text":null}`, `=`},
	{"a flag taken back", `{"flag":true}`, `{}`, `{"flag":null}`, `=`},
	{
		"a plain list beside one that is merged", `{"plain":["a"],"items":[{"name":"a"}]}`, `{"plain":["b"],"items":[{"name":"b"},{"name":"a"}]}`,
		`{"plain":["b"],"items":[{"name":"b"}]}`,
		`{"plain":["b"],"items":[{"name":"b"},{"name":"a"}]}`,
	},
	{"a required field emptied", `{"must":"a"}`, `{"must":""}`, `{"must":""}`, `=`},
	{"a pointer to zero added", `{}`, `{"number":0}`, `{"number":0}`, `=`},
	{"an inline field changed", `{"count":1}`, `{"count":2}`, `{"count":2}`, `=`},
	{
		"a nested field changed", `{"named":{"kind":"a","count":1}}`, `{"named":{"kind":"b","count":1}}`,
		`{"named":{"kind":"b"}}`, `=`,
	},
	{"characters that JSON escapes", `{}`, `{"text":"<\"\\\n\u2028é>"}`, `{"text":"<\"\\\n\u2028é>"}`, `=`},
	{"bytes", `{"bytes":"YQ=="}`, `{"bytes":"Yg=="}`, `{"bytes":"Yg=="}`, `=`},

	{
		"a map key added, changed and removed", `{"labels":{"a":"1","b":"1","c":"1"}}`, `{"labels":{"a":"1","b":"2","d":"1"}}`,
		`{"labels":{"b":"2","c":null,"d":"1"}}`, `=`,
	},
	{"the last map key removed", `{"labels":{"a":"1"}}`, `{}`, `{"labels":{"a":null}}`, `{"labels":null}`},
	{"a map emptied", `{"labels":{"a":"1"}}`, `{"labels":{}}`, `{"labels":{"a":null}}`, `{"labels":null}`},
	{"an empty map for none", `{}`, `{"labels":{}}`, ``, `=`},
	{
		"a key like a directive", `{"labels":{"a":"1"}}`, `{"labels":{"a":"1","$patch":"replace"}}`,
		`{"labels":{"$patch":"replace"}}`, `=`,
	},
	{
		"a new map with a key like a directive", `{}`, `{"labels":{"$patch":"replace"}}`,
		`{"labels":{"$patch":"replace"}}`, `=`,
	},
	{
		"a new map with a key like a list's order", `{}`, `{"labels":{"$setElementOrder/a":"b"}}`,
		`{"labels":{"$setElementOrder/a":"b"}}`, `=`,
	},
	{
		"a key like a directive deep in what is new", `{}`, `{"items":[{"name":"a","union":{"extra":{"$patch":"delete"}}}]}`,
		`{"items":[{"name":"a","union":{"extra":{"$patch":"delete"}}}]}`, `=`,
	},
	{
		"a key like a directive in a new raw object", `{"raw":null}`, `{"raw":{"a":{"$patch":"delete"}}}`,
		`{"raw":{"a":{"$patch":"delete"}}}`, `=`,
	},
	{
		"a value like a directive, which is none", `{"scalars":["a"]}`, `{"scalars":["a","$patch"],"atomic":{"type":"$patch"}}`,
		`{"scalars":["$patch"],"$setElementOrder/scalars":["a","$patch"],"atomic":{"type":"$patch"}}`,
		`{"scalars":["a","$patch"],"atomic":{"type":"$patch"}}`,
	},
	{
		"a map emptied directly below a union", `{"union":{"type":"1","extra":{"a":"b"}}}`, `{"union":{"type":"1"}}`,
		`{"union":{"extra":null,"$retainKeys":["type"]}}`, `{"union":{"extra":null}}`,
	},
	{"a struct in a map added", `{}`, `{"structs":{"a":{"type":"x"}}}`, `{"structs":{"a":{"type":"x"}}}`, `=`},
	{
		"a struct in a map changed", `{"structs":{"a":{"type":"x"}}}`, `{"structs":{"a":{"type":"y"}}}`,
		`{"structs":{"a":{"type":"y"}}}`, `=`,
	},

	{"a quantity written otherwise", `{"quantity":"1"}`, `{"quantity":"1000m"}`, ``, `=`},
	{"a quantity in another format", `{"quantity":"1Ki"}`, `{"quantity":"1024"}`, `{"quantity":"1024"}`, `=`},
	{"a quantity in a map", `{"amounts":{"cpu":"1"}}`, `{"amounts":{"cpu":"2"}}`, `{"amounts":{"cpu":"2"}}`, `=`},
	{"a port's number for its name", `{"port":"http"}`, `{"port":80}`, `{"port":80}`, `=`},
	{"a time removed", `{"when":"2026-01-01T00:00:00Z"}`, `{}`, `{"when":null}`, `=`},
	{
		"a time changed", `{"micro":"2026-01-01T00:00:00.000001Z"}`, `{"micro":"2026-01-01T00:00:00.000002Z"}`,
		`{"micro":"2026-01-01T00:00:00.000002Z"}`, `=`,
	},
	{
		"a raw object changed, which servers cannot merge by type", `{"raw":{"a":1,"b":2}}`, `{"raw":{"a":1,"c":{"d":2}}}`,
		`{"raw":{"b":null,"c":{"d":2}}}`, `=`,
	},
	{"a raw object added", `{"raw":null}`, `{"raw":{"a":1}}`, `{"raw":{"a":1}}`, `=`},

	{
		"a union's member exchanged", `{"union":{"type":"1","one":{"count":1}}}`, `{"union":{"type":"2","two":{"count":1}}}`,
		`{"union":{"type":"2","one":null,"two":{"count":1},"$retainKeys":["two","type"]}}`,
		`{"union":{"type":"2","one":null,"two":{"count":1}}}`,
	},
	{
		"a union's member changed", `{"union":{"one":{"count":1}}}`, `{"union":{"one":{"count":2}}}`,
		`{"union":{"one":{"count":2}}}`, `=`,
	},
	{"a union emptied", `{"union":{"type":"1"}}`, `{"union":{}}`, `{"union":{"type":null}}`, `=`},
	{
		"an atomic struct", `{"atomic":{"type":"1","one":{"count":1}}}`, `{"atomic":{"type":"2","one":{"count":1}}}`,
		`{"atomic":{"type":"2","one":{"count":1}}}`, `{"atomic":{"type":"2"}}`,
	},

	{"a plain list changed", `{"plain":["a","b"]}`, `{"plain":["a","c"]}`, `{"plain":["a","c"]}`, `=`},
	{"a plain list emptied", `{"plain":["a"]}`, `{}`, `{"plain":null}`, `=`},
	{
		"a scalar added", `{"scalars":["a","b"]}`, `{"scalars":["a","b","c"]}`,
		`{"scalars":["c"],"$setElementOrder/scalars":["a","b","c"]}`, `{"scalars":["a","b","c"]}`,
	},
	{
		"a scalar added in front", `{"scalars":["a","b"]}`, `{"scalars":["c","a","b"]}`, `{"scalars":["c"]}`,
		`{"scalars":["c","a","b"]}`,
	},
	{
		"a scalar removed", `{"scalars":["a","b"]}`, `{"scalars":["a"]}`, `{"$deleteFromPrimitiveList/scalars":["b"]}`,
		`{"scalars":["a"]}`,
	},
	{
		"all scalars removed", `{"scalars":["a","b"]}`, `{}`, `{"$deleteFromPrimitiveList/scalars":["a","b"]}`,
		`{"scalars":null}`,
	},
	{
		"scalars reordered", `{"scalars":["a","b"]}`, `{"scalars":["b","a"]}`, `{"$setElementOrder/scalars":["b","a"]}`,
		`{"scalars":["b","a"]}`,
	},
	{"a scalar twice", `{"scalars":["a","b"]}`, `{"scalars":["a","b","a"]}`, `{"scalars":["a","b","a"]}`, `=`},

	{
		"an item added", `{"items":[{"name":"a"}]}`, `{"items":[{"name":"a"},{"name":"b","value":"x"}]}`,
		`{"items":[{"name":"b","value":"x"}],"$setElementOrder/items":[{"name":"a"},{"name":"b"}]}`,
		`{"items":[{"name":"a"},{"name":"b","value":"x"}]}`,
	},
	{"items where there were none", `{}`, `{"items":[{"name":"a"},{"name":"b"}]}`, `{"items":[{"name":"a"},{"name":"b"}]}`, `=`},
	{
		"an item changed", `{"items":[{"name":"a","value":"x"},{"name":"b"}]}`, `{"items":[{"name":"a","value":"y"},{"name":"b"}]}`,
		`{"items":[{"name":"a","value":"y"}]}`, `{"items":[{"name":"a","value":"y"},{"name":"b"}]}`,
	},
	{
		"an item removed", `{"items":[{"name":"a"},{"name":"b"}]}`, `{"items":[{"name":"b"}]}`,
		`{"items":[{"$patch":"delete","name":"a"}]}`, `{"items":[{"name":"b"}]}`,
	},
	{"all items removed", `{"items":[{"name":"a"}]}`, `{}`, `{"items":[{"$patch":"delete","name":"a"}]}`, `{"items":null}`},
	{
		"items reordered", `{"items":[{"name":"a"},{"name":"b"}]}`, `{"items":[{"name":"b"},{"name":"a"}]}`,
		`{"$setElementOrder/items":[{"name":"b"},{"name":"a"}]}`, `{"items":[{"name":"b"},{"name":"a"}]}`,
	},
	{
		"an item renamed", `{"items":[{"name":"a","value":"x"}]}`, `{"items":[{"name":"b","value":"x"}]}`,
		`{"items":[{"name":"b","value":"x"},{"$patch":"delete","name":"a"}]}`, `{"items":[{"name":"b","value":"x"}]}`,
	},
	{
		"an item of an item", `{"items":[{"name":"a","nested":[{"number":1,"text":"x"},{"number":2}]}]}`,
		`{"items":[{"name":"a","nested":[{"number":1,"text":"y"},{"number":2}]}]}`,
		`{"items":[{"name":"a","nested":[{"number":1,"text":"y"}]}]}`,
		`{"items":[{"name":"a","nested":[{"number":1,"text":"y"},{"number":2}]}]}`,
	},
	{
		"an item that drops others' members", `{"ports":[{"number":1,"one":{"count":1}}]}`, `{"ports":[{"number":1,"two":{"count":1}}]}`,
		`{"ports":[{"number":1,"one":null,"two":{"count":1},"$retainKeys":["number","two"]}]}`,
		`{"ports":[{"number":1,"two":{"count":1}}]}`,
	},
	{
		"two items of one key", `{"items":[{"name":"a"},{"name":"a","value":"x"}]}`, `{"items":[{"name":"a"},{"name":"a","value":"y"}]}`,
		`{"items":[{"name":"a"},{"name":"a","value":"y"}]}`, `=`,
	},
	{"an item without a key", `{"items":[{"value":"x"}]}`, `{"items":[{"value":"y"}]}`, `{"items":[{"value":"y"}]}`, `=`},
}

func TestBehaviours(t *testing.T) {
	for _, b := range behaviours {
		if b.merge == "=" {
			b.merge = b.strategic
		}
		for s, want := range map[diff.Style]string{diff.Strategic: b.strategic, diff.JSON: b.merge} {
			before := roundTrip(decode([]byte(b.before), &kitchen{}))
			after := roundTrip(decode([]byte(b.after), &kitchen{}))
			p, err := diff.Make(before, after, s)
			if err == nil && (s == diff.JSON || p.Style == diff.Operations) {
				p, err = diff.Compare(before, after)
				want = b.merge
			}
			if err != nil {
				t.Errorf("%s: %v", b.name, err)
				continue
			}
			if !sameText(p.Data, want) {
				t.Errorf("%s, style %d: got %s, want %s", b.name, s, p.Data, want)
			}
			if _, err := judge(before, after, s); err != nil {
				t.Errorf("%s, style %d: %v", b.name, s, err)
			}
		}
	}
}

// sameText compares JSON texts; no text and "" are the same.
func sameText(got []byte, want string) bool {
	if got == nil || want == "" {
		return len(got) == len(want)
	}
	var a, b any
	return json.Unmarshal(got, &a) == nil && json.Unmarshal([]byte(want), &b) == nil && reflect.DeepEqual(a, b)
}

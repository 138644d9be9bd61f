package apisim

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/onsi/gomega"
)

func TestAnObjectIsEncodedAsJSONMarshalDoes(t *testing.T) {
	for name, obj := range map[string]object{
		"nothing":      nil,
		"empty":        {},
		"order":        {"b": "1", "a": "2", "B": "3", "": "4"},
		"values":       {"a": int64(-3), "b": true, "c": nil, "d": 1.5, "e": 1e21, "f": 3, "g": []string{"x"}},
		"lists":        {"a": []any{}, "b": []any(nil), "c": []any{int64(1), "2", object{"x": nil}, []any{false}}},
		"objects":      {"a": object{}, "b": object(nil), "c": object{"y": object{"x": "z"}}},
		"escapes":      {"a\"<b>&\\": "\"<&>\\\n\t\x00\x1f\x7f", "é": "ü \u2028 \u2029 \U0001f600", "bad": "a\xffb"},
		"one escape":   {"a": "<", "b": ">", "c": "&", "d": "\"", "e": "\\", "f": "\x7f", "g": "\x1f", "h": "é"},
		"many fields":  {"a": "", "b": "", "c": "", "d": "", "e": "", "f": "", "g": "", "h": "", "i": "", "j": "", "k": "", "l": "", "m": "", "n": "", "o": "", "p": "", "q": ""},
		"managed":      {"f:metadata": object{"f:labels": object{".": object{}, `k:{"port":80,"protocol":"TCP"}`: object{}}}},
		"large number": {"a": int64(math.MaxInt64), "b": float64(math.MaxInt64)},
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			want, err := json.Marshal(obj)
			g.Expect(err).NotTo(gomega.HaveOccurred())
			have, err := encode(obj)
			g.Expect(err).NotTo(gomega.HaveOccurred())
			g.Expect(string(have)).To(gomega.Equal(string(want)))
		})
	}
	g := gomega.NewWithT(t)
	for _, bad := range []object{{"a": math.NaN()}, {"a": []any{math.Inf(1)}}, {"a": object{"b": make(chan int)}}} {
		_, err := encode(bad)
		g.Expect(err).To(gomega.HaveOccurred())
	}
}

func FuzzEncode(f *testing.F) {
	f.Add(`{"a":[1,"<",{"b":null,"c":1.5e300}]}`)
	f.Add(`{"metadata":{"name":"x","labels":{"\u2028":"é"}},"n":-1}`)
	f.Fuzz(func(t *testing.T, text string) {
		obj, err := decode([]byte(text))
		if err != nil {
			t.Skip()
		}
		want, err := json.Marshal(obj)
		have, err2 := encode(obj)
		if string(have) != string(want) || (err == nil) != (err2 == nil) {
			t.Errorf("%q, %v: want %q, %v", have, err2, want, err)
		}
	})
}

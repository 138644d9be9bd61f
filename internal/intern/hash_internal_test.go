package intern

import (
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// sample is a value with fields of all kinds that are shared.
type sample struct {
	Number  int64
	Time    time.Time
	Text    string
	Numbers []int64
	Texts   []string
	Pointer *int64
	Empty   *struct{}
	Empties []struct{}
	Labels  map[string]string
	Data    map[string][]byte
	Amounts corev1.ResourceList
	Any     any
	Content map[string]any
}

// samples returns values that all differ from each other.
func samples() []sample {
	data := func(key, value string) map[string][]byte { return map[string][]byte{key: []byte(value)} }
	amounts := func(key corev1.ResourceName, value string) corev1.ResourceList {
		return corev1.ResourceList{key: resource.MustParse(value)}
	}
	all := []sample{
		{},
		{Number: 1},
		{Number: 2},
		{Time: time.Unix(1, 0)},
		{Time: time.Unix(2, 0)},
		{Text: "a"},
		{Text: "b"},
		{Numbers: []int64{}},
		{Numbers: []int64{1}},
		{Numbers: []int64{1, 2}},
		{Numbers: []int64{2, 1}},
		{Texts: []string{}},
		{Texts: []string{""}},
		{Texts: []string{"", ""}},
		{Texts: []string{"", "a"}},
		{Texts: []string{"a", ""}},
		{Empty: &struct{}{}},
		{Empties: make([]struct{}, 2)},
		{Pointer: new(int64(0))},
		{Pointer: new(int64(1))},
		{Pointer: new(int64(2))},
		{Labels: map[string]string{}},
		{Labels: map[string]string{"a": "b"}},
		{Labels: map[string]string{"b": "a"}},
		{Labels: map[string]string{"a": "b", "b": "a"}},
		{Labels: map[string]string{"a": "a", "b": "b"}},
		{Data: map[string][]byte{"a": nil}},
		{Data: data("a", "b")},
		{Data: data("b", "b")},
		{Data: data("a", "c")},
		{Amounts: amounts("a", "1")},
		{Amounts: amounts("b", "1")},
		{Amounts: amounts("a", "2")},
	}
	for _, v := range []any{
		"", "a", "b", int64(0), int64(1), 0.0, 0.5, true, false,
		[]any{},
		[]any{nil},
		[]any{nil, nil},
		[]any{"a", "b"},
		[]any{"b", "a"},
		[]any{[]any{"a", "b"}},
		map[string]any{},
		map[string]any{"a": nil},
		map[string]any{"b": nil},
		map[string]any{"a": "b"},
		map[string]any{"a": "b", "b": "a"},
		map[string]any{"a": "a", "b": "b"},
	} {
		all = append(all, sample{Any: v})
		if m, ok := v.(map[string]any); ok {
			all = append(all, sample{Content: m})
		}
	}
	return all
}

// A weak hash only makes sharing fail, which no other test would notice.
func TestDifferentPartsHaveDifferentHashes(t *testing.T) {
	g, s := gomega.NewWithT(t), New()
	found := map[uint64]sample{}
	for _, p := range samples() {
		hash, ok := s.hash(pointee(&p))
		g.Expect(ok).To(gomega.BeTrue(), "%v", p)
		g.Expect(found).NotTo(gomega.HaveKey(hash), "%v", p)
		found[hash] = p
	}
}

func TestDifferentPartsAreNotEqual(t *testing.T) {
	g := gomega.NewWithT(t)
	all, again := samples(), samples()
	for i := range all {
		for j := range again {
			x, p := pointee(&all[i])
			y, _ := pointee(&again[j])
			for _, m := range []mode{exact, ignoreLazy} {
				g.Expect(equal(x, y, p, m)).To(gomega.Equal(i == j), "%v and %v", all[i], again[j])
			}
		}
	}
}

// Parts that are different and have the same hash stay what they are.
func TestEqualHashesOfDifferentPartsDoNoHarm(t *testing.T) {
	long, other := strings.Repeat("a", 100), strings.Repeat("b", 100)
	labels := func(value string) map[string]string { return map[string]string{"app": value} }
	values := func(value string) []string { return []string{value, "2", "3", "4"} }
	options := func(value string) *corev1.SELinuxOptions { return &corev1.SELinuxOptions{Level: value} }
	spec := func(value string) any { return map[string]any{"a": []any{value}} }
	for name, c := range map[string]struct {
		object    func(value string) any
		hash      func(s *Pool) (uint64, bool)
		what      shape
		different place
	}{
		"text": {
			func(value string) any { return &corev1.PodSpec{NodeName: value} },
			func(s *Pool) (uint64, bool) { return s.textHash(long), true },
			shapeOf(text, nil, 100), placeOfText(other),
		},
		"map": {
			func(value string) any { return &corev1.PodSpec{NodeSelector: labels(value)} },
			func(s *Pool) (uint64, bool) { return s.hashMap(placeOf(labels(long)), stringMap) },
			shapeOf(stringMap, nil, 1), placeOf(labels(other)),
		},
		"list": {
			func(value string) any { return &corev1.Container{Command: values(value)} },
			func(s *Pool) (uint64, bool) {
				l := values(long)
				return s.hashList(listAt(placeOfValue(&l)), planOf(reflect.TypeFor[string]()))
			},
			shapeOf(list, planOf(reflect.TypeFor[string]()), 4), placeOfList(values(other)),
		},
		"pointer": {
			func(value string) any { return &corev1.SecurityContext{SELinuxOptions: options(value)} },
			func(s *Pool) (uint64, bool) { return s.hash(pointee(options(long))) },
			shapeOf(pointer, planOf(reflect.TypeFor[corev1.SELinuxOptions]()), 1), placeOfValue(options(other)),
		},
		"data": {
			func(value string) any { return &corev1.Secret{Data: map[string][]byte{"k": []byte(value)}} },
			func(s *Pool) (uint64, bool) {
				return s.mix(uint64(list), uint64(bytesPlan.number), s.dataHash([]byte(long))), true
			},
			shapeOf(list, bytesPlan, 100), placeOfText(other),
		},
		"content": {
			func(value string) any { return &struct{ Spec any }{spec(value)} },
			func(s *Pool) (uint64, bool) { return s.hashAny(spec(long)) },
			shapeOf(dynamicMap, nil, 1), dataOf(spec(other)),
		},
	} {
		t.Run(name, func(t *testing.T) {
			g, s := gomega.NewWithT(t), New()
			hash, ok := c.hash(s)
			g.Expect(ok).To(gomega.BeTrue())
			s.learn(hash, c.what, c.different)
			g.Expect(s.lookup(hash, c.what, 0, false)).To(gomega.Equal(c.different))
			for range 3 {
				object := c.object(long)
				s.Object(object)
				g.Expect(object).To(gomega.Equal(c.object(long)))
			}
			runtime.KeepAlive(c.different)
		})
	}
}

func TestHashesAreKeyed(t *testing.T) {
	g := gomega.NewWithT(t)
	type numbers struct {
		A int64
		B *int32
		C float64
	}
	b := int32(3)
	value := &numbers{1, &b, 2}
	for name, hash := range map[string]func(s *Pool) (uint64, bool){
		"structs": func(s *Pool) (uint64, bool) { return s.hash(pointee(value)) },
		"content": func(s *Pool) (uint64, bool) {
			return s.hashAny(map[string]any{"a": int64(1), "b": []any{2.5, true, "c"}})
		},
	} {
		s := New()
		x, ok := hash(s)
		g.Expect(ok).To(gomega.BeTrue())
		again, _ := hash(s)
		g.Expect(again).To(gomega.Equal(x), name)
		other, _ := hash(New())
		g.Expect(other).NotTo(gomega.Equal(x), name)
	}
}

package diff_test

import (
	"fmt"
	"math/rand"
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"
)

// A mutator changes a few things of an object, at random but repeatably.
type mutator struct {
	r      *rand.Rand
	fill   *randfill.Filler
	chance float64
}

func newMutator(source rand.Source, chance float64) *mutator {
	return &mutator{r: rand.New(source), fill: filler().RandSource(source), chance: chance}
}

// filler is made once: making one takes longer than filling a small object. Its
// source is reset for each.
var filler = sync.OnceValue(func() *randfill.Filler {
	return randfill.New().NilChance(.4).NumElements(0, 3).MaxDepth(12).Funcs(
		func(s *string, c randfill.Continue) { *s = word(c.Rand) },
		func(t *metav1.Time, c randfill.Continue) { *t = metav1.Unix(c.Int63n(1<<32), 0) },
		func(t *metav1.MicroTime, c randfill.Continue) {
			*t = metav1.NewMicroTime(time.UnixMicro(c.Int63n(1 << 50)))
		},
		func(q *resource.Quantity, c randfill.Continue) { *q = quantity(c.Rand) },
		func(s *intstr.IntOrString, c randfill.Continue) {
			*s = intstr.FromInt32(c.Int31n(9))
			if c.Bool() {
				*s = intstr.FromString(word(c.Rand))
			}
		},
		func(e *runtime.RawExtension, c randfill.Continue) { e.Raw = document(c.Rand) },
		func(f *metav1.FieldsV1, c randfill.Continue) { *f = *metav1.NewFieldsV1(string(document(c.Rand))) },
		func(o *runtime.Object, _ randfill.Continue) { *o = nil },
	)
})

// word returns one of a few strings, so that keys are often equal.
func word(r *rand.Rand) string {
	return [...]string{"", "a", "b", "c", "d", "e/f", "é<\"&>", "x\u2028y", "longer than the others", "$patch", "$retainKeys"}[r.Intn(11)]
}

func quantity(r *rand.Rand) resource.Quantity {
	return resource.MustParse([...]string{"0", "1", "1000m", "1Ki", "1024", "1e3", "0.1", "12345678901234567890"}[r.Intn(8)])
}

// document has no null: no merge patch can ask for one.
func document(r *rand.Rand) []byte {
	switch r.Intn(5) {
	case 0:
		return []byte(`{"a":{"$patch":"delete"}}`)
	case 4:
		return []byte(`{"a":1,"b":{"c":[1,2]}}`)
	case 1:
		return []byte(`{"a":1,"b":{"d":0}}`)
	case 2:
		return fmt.Appendf(nil, `{"n":%d}`, r.Intn(3))
	default:
		return []byte(`{}`)
	}
}

// leaf reports whether a value of type t is changed as a whole.
func leaf(t reflect.Type) bool {
	switch t {
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime](), reflect.TypeFor[resource.Quantity](),
		reflect.TypeFor[intstr.IntOrString](), reflect.TypeFor[runtime.RawExtension](), reflect.TypeFor[metav1.FieldsV1]():
		return true
	}
	return t.Kind() != reflect.Struct && t.Kind() != reflect.Map && t.Kind() != reflect.Slice && t.Kind() != reflect.Pointer
}

func (m *mutator) hit() bool { return m.r.Float64() < m.chance }

func (m *mutator) mutate(v reflect.Value) {
	switch {
	case !v.CanSet() || v.Kind() == reflect.Interface:
	case leaf(v.Type()):
		if m.hit() {
			m.refill(v)
		}
	case v.Kind() == reflect.Struct:
		for _, f := range v.Fields() {
			m.mutate(f)
		}
	case v.Kind() == reflect.Pointer:
		m.pointer(v)
	case v.Kind() == reflect.Slice:
		m.slice(v)
	case v.Kind() == reflect.Map:
		m.mapping(v)
	}
}

func (m *mutator) refill(v reflect.Value) {
	if m.r.Intn(3) == 0 {
		v.SetZero()
		return
	}
	m.fill.Fill(v.Addr().Interface())
}

func (m *mutator) pointer(v reflect.Value) {
	switch {
	case v.IsNil() && m.hit():
		v.Set(reflect.New(v.Type().Elem()))
		m.fill.Fill(v.Interface())
	case !v.IsNil() && m.hit() && m.hit():
		v.SetZero()
	case !v.IsNil():
		m.mutate(v.Elem())
	}
}

func (m *mutator) slice(v reflect.Value) {
	for i := range v.Len() {
		m.mutate(v.Index(i))
	}
	if !m.hit() {
		return
	}
	n := v.Len()
	switch what := m.r.Intn(7); {
	case what == 0:
		v.SetZero()
	case what == 1:
		v.Set(reflect.MakeSlice(v.Type(), 0, 0))
	case what == 2 && n > 0: // remove one
		i := m.r.Intn(n)
		v.Set(reflect.AppendSlice(v.Slice3(0, i, i), v.Slice(i+1, n)))
	case what == 3 && n > 1: // change the order
		reflect.Swapper(v.Interface())(m.r.Intn(n), m.r.Intn(n))
	case what == 4 && n > 0: // the same twice
		v.Set(reflect.Append(v, v.Index(m.r.Intn(n))))
	default:
		e := reflect.New(v.Type().Elem())
		m.fill.Fill(e.Interface())
		v.Set(reflect.Append(v, e.Elem()))
	}
}

func (m *mutator) mapping(v reflect.Value) {
	for _, k := range v.MapKeys() {
		e := reflect.New(v.Type().Elem()).Elem()
		e.Set(v.MapIndex(k))
		m.mutate(e)
		if text(e.Interface()) != "null" { // no merge patch can ask for it
			v.SetMapIndex(k, e)
		}
		if m.hit() {
			v.SetMapIndex(k, reflect.Value{})
		}
	}
	if !m.hit() {
		return
	}
	switch m.r.Intn(4) {
	case 0:
		v.SetZero()
	case 1:
		v.Set(reflect.MakeMap(v.Type()))
	default:
		other := reflect.New(v.Type())
		m.fill.Fill(other.Interface())
		v.Set(other.Elem())
	}
}

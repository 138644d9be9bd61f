package intern

import (
	"math/rand/v2"
	"reflect"
	"testing"
)

// padded has fields that share a word, and words with bytes of no field.
type padded struct {
	A bool
	B int32
	C string
	D uint8
	E uint8
	F uint16
	G *int64
	H [3]uint16
	I map[string]string
	J bool
}

func randomPadded(random *rand.Rand) *padded {
	few := func() int64 { return int64(random.IntN(3)) }
	p := &padded{
		A: few() == 0, B: int32(few()), D: uint8(few()), E: uint8(few()), F: uint16(few()),
		H: [3]uint16{uint16(few()), 0, uint16(few())}, J: few() == 0,
	}
	if few() > 0 {
		p.C = string([]byte{byte(few())})
	}
	if few() > 0 {
		p.G = new(few())
	}
	if few() > 0 {
		p.I = map[string]string{"a": "b"}
	}
	return p
}

// Values are compared and hashed word by word. The bytes between fields do not
// count, and all bytes of fields do.
func TestWordsOfSeveralFields(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	plan := planOf(reflect.TypeFor[padded]())
	if plan.cover == nil {
		t.Fatal("the values are not read word by word")
	}
	s, differ := New(), 0
	for range 20_000 {
		a, b := randomPadded(random), randomPadded(random)
		if random.IntN(3) == 0 {
			*b = *a
		}
		bytesAt(place(a), plan.size)[1] = byte(random.IntN(2)) // between A and B
		want := reflect.DeepEqual(a, b)
		if equal(place(a), place(b), plan, exact) != want {
			t.Fatalf("%+v and %+v are equal: want %v", a, b, want)
		}
		x, _ := s.hash(place(a), plan)
		y, _ := s.hash(place(b), plan)
		if want && x != y || !want && x == y {
			t.Fatalf("%+v and %+v have the hashes %x and %x", a, b, x, y)
		}
		if !want {
			differ++
		}
	}
	if differ < 1000 || differ > 19_000 {
		t.Fatalf("%d values differ", differ)
	}
}

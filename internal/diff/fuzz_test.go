package diff_test

import (
	"encoding/binary"
	"math/rand"
	"reflect"
	"testing"

	"github.com/homeostat/homeostat/internal/diff"
)

// entropy is a source of numbers. It returns the numbers of data, and then
// numbers derived from the last one.
type entropy struct {
	data  []byte
	state uint64
}

func (e *entropy) Uint64() uint64 {
	if len(e.data) >= 8 {
		e.state = binary.LittleEndian.Uint64(e.data)
		e.data = e.data[8:]
		return e.state
	}
	e.state += 0x9e3779b97f4a7c15 + uint64(len(e.data))
	z := e.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func (e *entropy) Int63() int64 { return int64(e.Uint64() >> 1) }

func (e *entropy) Seed(int64) {}

var _ rand.Source64 = (*entropy)(nil)

func style(strategic bool) diff.Style {
	if strategic {
		return diff.Strategic
	}
	return diff.JSON
}

// FuzzEveryFeature edits a small object that has every feature of a plan:
// applying the patch must give the edited object.
func FuzzEveryFeature(f *testing.F) {
	for i := range 32 {
		f.Add([]byte{byte(i), 1, 2, 3, 4, 5, 6, 7}, byte(i), i%2 == 0)
	}
	f.Fuzz(func(t *testing.T, data []byte, chance byte, strategic bool) {
		before, after := pair(reflect.TypeFor[kitchen](), &entropy{data: data}, float64(chance)/256)
		p, err := diff.Make(before, after, style(strategic))
		if err != nil {
			t.Fatal(err)
		}
		if err := gives(before, roundTrip(after), p); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzOneFeature does the same with objects of a single feature, many times as
// fast.
func FuzzOneFeature(f *testing.F) {
	for i := range 64 {
		f.Add([]byte{byte(i), 1, 2, 3, 4, 5, 6, 7}, byte(i), byte(4*i), i%2 == 0)
	}
	f.Fuzz(func(t *testing.T, data []byte, feature, chance byte, strategic bool) {
		if err := oneFeature(&entropy{data: data}, feature, chance, strategic); err != nil {
			t.Fatal(err)
		}
	})
}

func oneFeature(e *entropy, feature, chance byte, strategic bool) error {
	before, after := pair(features[int(feature)%len(features)], e, float64(chance)/256)
	p, err := diff.Make(before, after, style(strategic))
	if err != nil {
		return err
	}
	return gives(before, roundTrip(after), p)
}

// BenchmarkRandomPairs does what FuzzOneFeature does, without the cost of being
// guided by coverage: for very many pairs, run it with -benchtime 10000000x.
func BenchmarkRandomPairs(b *testing.B) {
	for n := rand.Uint64(); b.Loop(); n++ {
		e := &entropy{state: n}
		kind := e.Uint64()
		if err := oneFeature(e, byte(kind), byte(kind>>8), kind>>16&1 == 0); err != nil {
			b.Fatalf("state %d: %v", n, err)
		}
	}
}

// FuzzBuiltIn edits an object of any built-in kind and asks apimachinery as
// well.
func FuzzBuiltIn(f *testing.F) {
	kinds := builtIn()
	for i := range 32 {
		f.Add([]byte{byte(i), 1, 2, 3, 4, 5, 6, 7}, uint16(i*7), byte(i), i%2 == 0)
	}
	f.Fuzz(func(t *testing.T, data []byte, kind uint16, chance byte, strategic bool) {
		before, after := pair(kinds[int(kind)%len(kinds)], &entropy{data: data}, float64(chance)/256)
		if _, err := judge(before, after, style(strategic)); err != nil {
			t.Fatal(err)
		}
	})
}

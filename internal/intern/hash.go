package intern

import (
	"hash/maphash"
	"math"
	"math/bits"

	"k8s.io/apimachinery/pkg/api/resource"
)

// All hashes are keyed with a seed that is different in each Pool. So no tenant
// can make objects whose parts have hashes of the tenant's choice. The
// functions return false for values that must not be shared, because they are
// lazy or of a type that this package does not understand.

// mix returns a hash of three numbers. It combines them with secret numbers in
// two multiplications, which take a fraction of the time of a hash of their
// bytes.
func (s *Pool) mix(a, b, c uint64) uint64 {
	return folded(folded(a^s.secret[0], b^s.secret[1])^s.secret[2], c^s.secret[3])
}

// folded returns the exclusive or of the upper and the lower half of the
// product of two numbers.
func folded(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	return high ^ low
}

func (s *Pool) textHash(t string) uint64 { return maphash.String(s.seed, t) }

func (s *Pool) dataHash(data []byte) uint64 { return maphash.Bytes(s.seed, data) }

// hash returns the hash of the value at p. Only fields that are not zero count.
// It returns false if the value contains a lazy value or a type that this
// package does not understand.
func (s *Pool) hash(p place, typ *plan) (sum uint64, ok bool) {
	sum = uint64(typ.number)
	if typ.cover != nil {
		return s.hashWords(sum, p, typ)
	}
	for i := range typ.fields {
		f := &typ.fields[i]
		place := offsetBy(p, f.offset)
		if f.kind != lazy && zero(place, f.size) {
			continue
		}
		h, ok := s.hashField(place, f)
		if !ok {
			return 0, false
		}
		sum = s.mix(sum, uint64(f.offset), h)
	}
	return sum, true
}

// hashWords adds to sum the hash of the value at p, whose plan has a cover.
// Only fields that are not zero count.
func (s *Pool) hashWords(sum uint64, p place, typ *plan) (uint64, bool) {
	next := 0 // the first field that was not hashed
	for n, word := range wordsAt(p, len(typ.cover)) {
		if word == 0 {
			continue
		}
		next = max(next, int(typ.cover[n]))
		for ; next < len(typ.fields) && typ.fields[next].offset < uintptr(n+1)*wordSize; next++ {
			f := &typ.fields[next]
			place := offsetBy(p, f.offset)
			if f.kind == raw && zero(place, f.size) { // another field in the word is not zero
				continue
			}
			h, ok := s.hashField(place, f)
			if !ok {
				return 0, false
			}
			sum = s.mix(sum, uint64(f.offset), h)
		}
	}
	return sum, true
}

// hashField returns the hash of the field at p. The field must not be zero.
func (s *Pool) hashField(p place, f *field) (sum uint64, ok bool) {
	switch f.kind {
	case raw, instant:
		return s.dataHash(bytesAt(p, f.size)), true
	case text:
		return s.textHash(*textAt(p)), true
	case list:
		return s.hashList(listAt(p), f.elem)
	case pointer:
		return s.hash(*pointerAt(p), f.elem)
	case opaque, lazy:
		return 0, false
	case dynamic:
		return s.hashAny(*anyAt(p))
	case dynamicMap:
		return s.hashAny(*mapAt[any](p))
	default:
		return s.hashMap(*pointerAt(p), f.kind)
	}
}

func (s *Pool) hashList(h *header, elem *plan) (sum uint64, ok bool) {
	if elem.plain {
		return s.mix(uint64(list), uint64(elem.number), s.dataHash(bytesAt(h.data, uintptr(h.len)*elem.size))), true
	}
	sum = uint64(h.len)
	for n := range uintptr(h.len) {
		elemHash, ok := s.hash(offsetBy(h.data, n*elem.size), elem)
		if !ok {
			return 0, false
		}
		sum = s.mix(uint64(list), sum, elemHash)
	}
	return sum, true
}

func (s *Pool) hashMap(m place, k kind) (sum uint64, ok bool) {
	switch k {
	case stringMap:
		return hashEntries(s, m, k, func(value string) (uint64, bool) { return s.textHash(value), true })
	case bytesMap:
		return hashEntries(s, m, k, func(value []byte) (uint64, bool) { return s.dataHash(value), true })
	default:
		return hashEntries(s, m, k, func(value resource.Quantity) (uint64, bool) {
			// A quantity in a map is not lazy, because each reader has a copy.
			// But the copies of a big number share its digits.
			return s.hash(placeOfValue(&value), quantityPlan)
		})
	}
}

// hashEntries adds up the hashes of the entries, because the order of a map is
// random.
func hashEntries[V any](s *Pool, m place, k kind, hash func(V) (uint64, bool)) (sum uint64, ok bool) {
	for key, value := range mapOf[V](m) {
		h, ok := hash(value)
		if !ok {
			return 0, false
		}
		sum += s.mix(uint64(k), s.textHash(key), h)
	}
	return s.mix(uint64(k), sum, uint64(length(m))), true
}

// hashAny returns the hash of unstructured content: strings, int64, float64,
// bool, nil, and maps and lists of these.
func (s *Pool) hashAny(v any) (sum uint64, ok bool) {
	const boolean, whole, float = 101, 102, 103 // differ from all kinds
	switch v := v.(type) {
	case nil:
		return 0, true
	case string:
		return s.textHash(v), true
	case int64:
		return s.mix(whole, uint64(v), 0), true
	case float64:
		return s.mix(float, math.Float64bits(v), 0), true
	case bool:
		if v {
			return s.mix(boolean, 1, 0), true
		}
		return s.mix(boolean, 0, 0), true
	case map[string]any:
		return hashEntries(s, placeOf(v), dynamicMap, s.hashAny)
	case []any:
		sum = uint64(len(v))
		for _, elem := range v {
			h, ok := s.hashAny(elem)
			if !ok {
				return 0, false
			}
			sum = s.mix(uint64(dynamicList), sum, h)
		}
		return s.mix(uint64(dynamicList), sum, uint64(len(v))), true
	default:
		return 0, false
	}
}

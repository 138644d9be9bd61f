package share

import (
	"maps"
	"math"
	"slices"
	"strings"
	"unsafe"
)

// Unstructured content is made of strings, int64, float64, bool, nil, and maps
// and lists of such. What else there is stays as it is.

// hashAny hashes v, and remembers the hashes of maps and lists within.
func (s *Sharer) hashAny(v any) uint64 {
	switch v := v.(type) {
	case nil:
		return 3
	case string:
		return mix(4, s.textHash(v))
	case int64:
		return mix(5, uint64(v))
	case float64:
		return mix(6, math.Float64bits(v))
	case bool:
		if v {
			return 7
		}
		return 8
	case map[string]any:
		return s.hashAnyMap(v)
	case []any:
		sum := uint64(len(v))
		for _, elem := range v {
			sum = mix(sum, s.hashAny(elem))
		}
		if len(v) > 0 {
			s.memo[unsafe.Pointer(unsafe.SliceData(v))] = sum
		}
		return mix(sum, 9)
	default: // equal to nothing
		s.opaques++
		return s.opaques
	}
}

func (s *Sharer) hashAnyMap(m map[string]any) uint64 {
	var sum uint64
	for key, value := range m {
		sum += mix(s.textHash(key), s.hashAny(value))
	}
	sum = mix(sum, 10)
	if len(m) > 0 {
		s.memo[*(*unsafe.Pointer)(unsafe.Pointer(&m))] = sum
	}
	return sum
}

// shareAny returns v or what is known that equals it. An interface holds the
// place of its value: that of a map, or that of a string's or list's header.
func (s *Sharer) shareAny(v any) any {
	switch t := v.(type) {
	case string:
		return s.shareAnyText(v, t)
	case map[string]any:
		return s.shareAnyInner(v, t)
	case []any:
		return s.shareAnyList(v, t)
	default:
		return v
	}
}

func (s *Sharer) shareAnyText(v any, t string) any {
	if t == "" {
		return v
	}
	hash := mix(s.textHash(t), 11)
	at, add := s.find(hash, dynamicText, nil, len(t))
	if at != nil && *(*string)(at) == t {
		return withData(v, at)
	}
	if add {
		boxed := new(string)
		*boxed = s.sharedText(strings.Clone(t))
		s.add(hash, dynamicText, nil, len(t), unsafe.Pointer(boxed))
		return withData(v, unsafe.Pointer(boxed))
	}
	return v
}

func (s *Sharer) shareAnyInner(v any, m map[string]any) any {
	if len(m) == 0 {
		return v
	}
	hash := s.memo[*(*unsafe.Pointer)(unsafe.Pointer(&m))]
	at, add := s.find(hash, dynamicMap, nil, len(m))
	if at != nil && equalAnyMaps(*(*map[string]any)(unsafe.Pointer(&at)), m) {
		return withData(v, at)
	}
	if add {
		m = maps.Clone(m)
		s.add(hash, dynamicMap, nil, len(m), *(*unsafe.Pointer)(unsafe.Pointer(&m)))
	}
	s.shareAnyMap(m)
	return m
}

func (s *Sharer) shareAnyMap(m map[string]any) {
	for key, value := range m {
		m[s.sharedText(key)] = s.shareAny(value)
	}
}

func (s *Sharer) shareAnyList(v any, l []any) any {
	if len(l) == 0 {
		return v
	}
	hash := mix(s.memo[unsafe.Pointer(unsafe.SliceData(l))], 12)
	at, add := s.find(hash, dynamicList, nil, len(l))
	if at != nil {
		if known := *(*[]any)(at); equalAny(known, l) {
			return withData(v, at)
		}
	}
	if add {
		boxed := new([]any)
		*boxed = slices.Clone(l)
		s.add(hash, dynamicList, nil, len(l), unsafe.Pointer(boxed))
		v, l = withData(v, unsafe.Pointer(boxed)), *boxed
	}
	for n := range l {
		l[n] = s.shareAny(l[n])
	}
	return v
}

// withData returns an interface of v's type with another value.
func withData(v any, data unsafe.Pointer) any {
	(*eface)(unsafe.Pointer(&v)).data = data
	return v
}

func equalAny(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && (a == nil) == (b == nil) && equalAnyMaps(a, b)
	case []any:
		b, ok := b.([]any)
		return ok && (a == nil) == (b == nil) && slices.EqualFunc(a, b, equalAny)
	case nil, string, int64, bool:
		return a == b
	case float64:
		b, ok := b.(float64)
		return ok && math.Float64bits(a) == math.Float64bits(b)
	default:
		return false
	}
}

func equalAnyMaps(a, b map[string]any) bool {
	if len(a) != len(b) {
		return false
	}
	for key, value := range a {
		if other, ok := b[key]; !ok || !equalAny(value, other) {
			return false
		}
	}
	return true
}

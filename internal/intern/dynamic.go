package intern

import (
	"maps"
	"math"
	"slices"
)

// Unstructured content is made of strings, int64, float64, bool, nil, and maps
// and lists of such. Other values stay as they are.

// anyOr returns the content at p: nil if p is nil.
func anyOr(p place) any {
	if p == nil {
		return nil
	}
	return *anyAt(p)
}

// contentOr is anyOr for a map.
func contentOr(p place) any {
	if p == nil {
		return nil
	}
	return *mapAt[any](p)
}

// any returns v, or an equal value of old, of twin or of the table. An interface
// holds the place of its value: that of a map, or of a string's or list's header.
func (w walk) any(v, old, twin any) any {
	if w.depth == deepest {
		return v
	}
	for _, other := range [...]any{old, twin} {
		if other != nil && equalAny(v, other) {
			return other
		}
	}
	switch t := v.(type) {
	case string:
		if len(t) < worthKnowingText {
			return v
		}
		v, again, hash, what := w.shareAny(v, dynamicText, len(t))
		if again {
			w.learn(hash, what, dataOf(v))
		}
		return v
	case map[string]any:
		return w.content(v, t, old, twin)
	case []any:
		return w.items(v, t, old, twin)
	default:
		return v
	}
}

// shareAny returns v or what is known that equals it. If it is not known but
// should become so, again is true.
func (w walk) shareAny(v any, k kind, length int) (shared any, again bool, hash uint64, what shape) {
	hash, ok := w.hashAny(v)
	if !ok {
		return v, false, 0, shape{}
	}
	what = shapeOf(k, nil, length)
	known, again := w.look(hash, what, w.object, w.learns)
	if known != nil {
		if other := withData(v, known); equalAny(v, other) {
			return other, false, 0, shape{}
		}
	}
	return v, again, hash, what
}

func (w walk) content(v any, m map[string]any, old, twin any) any {
	if len(m) == 0 {
		return v
	}
	shared, again, hash, what := w.shareAny(v, dynamicMap, len(m))
	if dataOf(shared) != dataOf(v) {
		return shared
	}
	inner := w.inside(again)
	before, _ := old.(map[string]any)
	other, _ := twin.(map[string]any)
	for key, value := range before {
		if own, ok := m[key]; ok {
			m[key] = inner.any(own, value, other[key]) // and the key, which may be in another place
		}
	}
	for key, value := range m {
		if _, ok := before[key]; !ok {
			m[key] = inner.any(value, nil, other[key])
		}
	}
	if again {
		w.learn(hash, what, placeOf(m))
	}
	return v
}

func (w walk) items(v any, l []any, old, twin any) any {
	if len(l) == 0 {
		return v
	}
	shared, again, hash, what := w.shareAny(v, dynamicList, len(l))
	if dataOf(shared) != dataOf(v) {
		return shared
	}
	if (cap(l)-len(l))*int(anySize) >= worthClipping {
		l = slices.Clone(l)
		v = l
	}
	inner := w.inside(again)
	before, _ := old.([]any)
	other, _ := twin.([]any)
	for n := range l {
		var old, twin any
		if n < len(before) {
			old = before[n]
		}
		if n > 0 {
			twin = l[n-1]
		} else if len(other) > 0 {
			twin = other[0]
		}
		l[n] = inner.any(l[n], old, twin)
	}
	if again {
		w.learn(hash, what, dataOf(v))
	}
	return v
}

func equalAny(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && equalContent(a, b)
	case []any:
		b, ok := b.([]any)
		return ok && (a == nil) == (b == nil) && len(a) == len(b) &&
			(placeOfList(a) == placeOfList(b) || slices.EqualFunc(a, b, equalAny))
	case nil, string, int64, bool:
		return a == b
	case float64:
		b, ok := b.(float64)
		return ok && math.Float64bits(a) == math.Float64bits(b)
	default:
		return false
	}
}

func equalContent(a, b map[string]any) bool {
	return (a == nil) == (b == nil) && (len(a) > 0 && placeOf(a) == placeOf(b) || maps.EqualFunc(a, b, equalAny))
}

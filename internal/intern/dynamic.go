package intern

import (
	"maps"
	"math"
	"slices"
)

// Unstructured content consists of strings, int64, float64, bool, nil, and maps
// and lists of these. Other values stay unchanged.

// anyOr returns the content at p, or nil if p is nil.
func anyOr(p place) any {
	if p == nil {
		return nil
	}
	return *anyAt(p)
}

// contentOr returns the map at p as an interface, or nil if p is nil.
func contentOr(p place) any {
	if p == nil {
		return nil
	}
	return *mapAt[any](p)
}

// shareContent returns v, or an equal value from old, from twin or from the
// table. The data word of an interface is the place of its value: a map itself,
// or the header of a string or list.
func (w walk) shareContent(v, old, twin any) any {
	if w.depth == maxDepth {
		return v
	}
	for _, candidate := range [...]any{old, twin} {
		if candidate != nil && equalAny(v, candidate) {
			return candidate
		}
	}
	switch t := v.(type) {
	case string:
		if len(t) < worthKnowingText {
			return v
		}
		v, repeated, hash, key := w.shareAny(v, dynamicText, len(t))
		if repeated {
			w.learn(hash, key, dataOf(v))
		}
		return v
	case map[string]any:
		return w.shareMap(v, t, old, twin)
	case []any:
		return w.shareList(v, t, old, twin)
	default:
		return v
	}
}

// shareAny returns a known value that equals v, or v itself if no such value is
// known. If v should enter the table, repeated is true, and hash and key
// identify it.
func (w walk) shareAny(v any, k kind, length int) (shared any, repeated bool, hash uint64, key shape) {
	hash, ok := w.hashAny(v)
	if !ok {
		return v, false, 0, shape{}
	}
	key = shapeOf(k, nil, length)
	known, repeated := w.lookup(hash, key, w.object, w.learning)
	if known != nil {
		if candidate := withData(v, known); equalAny(v, candidate) {
			return candidate, false, 0, shape{}
		}
	}
	return v, repeated, hash, key
}

// shareMap returns a known map that equals m. If no such map is known, it
// shares the entries of m and returns v, which is m in an interface.
func (w walk) shareMap(v any, m map[string]any, old, twin any) any {
	if len(m) == 0 {
		return v
	}
	shared, repeated, hash, shape := w.shareAny(v, dynamicMap, len(m))
	if dataOf(shared) != dataOf(v) {
		return shared
	}
	inner := w.descend(repeated)
	oldContent, _ := old.(map[string]any)
	twinContent, _ := twin.(map[string]any)
	for key, value := range oldContent {
		if own, ok := m[key]; ok {
			m[key] = inner.shareContent(own, value, twinContent[key]) // replaces the key's memory, too
		}
	}
	for key, value := range m {
		if _, ok := oldContent[key]; !ok {
			m[key] = inner.shareContent(value, nil, twinContent[key])
		}
	}
	if repeated {
		w.learn(hash, shape, placeOf(m))
	}
	return v
}

// shareList returns a known list that equals l. If no such list is known, it
// shares the elements of l and returns v, which is l in an interface, or a copy
// without spare capacity.
func (w walk) shareList(v any, l []any, old, twin any) any {
	if len(l) == 0 {
		return v
	}
	shared, repeated, hash, key := w.shareAny(v, dynamicList, len(l))
	if dataOf(shared) != dataOf(v) {
		return shared
	}
	if (cap(l)-len(l))*int(anySize) >= worthClipping {
		l = slices.Clone(l)
		v = l
	}
	inner := w.descend(repeated)
	oldItems, _ := old.([]any)
	twinItems, _ := twin.([]any)
	for n := range l {
		var old, twin any
		if n < len(oldItems) {
			old = oldItems[n]
		}
		if n > 0 {
			twin = l[n-1]
		} else if len(twinItems) > 0 {
			twin = twinItems[0]
		}
		l[n] = inner.shareContent(l[n], old, twin)
	}
	if repeated {
		w.learn(hash, key, dataOf(v))
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

// equalContent reports whether two maps of unstructured content are deeply
// equal.
func equalContent(a, b map[string]any) bool {
	return (a == nil) == (b == nil) && (len(a) > 0 && placeOf(a) == placeOf(b) || maps.EqualFunc(a, b, equalAny))
}

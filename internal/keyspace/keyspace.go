// Package keyspace has sets of namespaces by their 64-bit FNV-1a hash. The
// shard selectors of the API server use the same hash (KEP-5866): a shard is a
// range of hashes.
package keyspace

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// Field is the path of the field that is hashed, as a shard selector names it.
const Field = "object.metadata.namespace"

// pastLast is the bound after the last hash: 2^64.
const pastLast = "0x10000000000000000"

// Range contains the hashes from First to Last, both included.
type Range struct{ First, Last uint64 }

// Set is a set of hashes, as sorted ranges that neither overlap nor touch. Nil
// is the empty set. Its methods do not modify it.
type Set []Range

// Whole returns the set of all hashes.
func Whole() Set { return Set{{0, math.MaxUint64}} }

// Of returns the hash of a namespace. It is the hash of package
// k8s.io/apimachinery/pkg/sharding. Of does not allocate.
func Of[S string | []byte](namespace S) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(namespace) {
		h = (h ^ uint64(namespace[i])) * 1099511628211
	}
	return h
}

// Requirement has the fields of ShardRangeRequirement in package
// k8s.io/apimachinery/pkg/sharding. Older versions of that module do not have
// the type, and the test kit must compile with them, too.
type Requirement struct{ Key, Start, End string }

// Parse returns the range of a requirement. It reports false for an empty
// range. It returns an error for a requirement on a field other than the
// namespace, and for bounds that are not hashes.
func Parse(r Requirement) (parsed Range, ok bool, err error) {
	if r.Key != Field {
		return Range{}, false, fmt.Errorf("the range has the field %q: must be %q", r.Key, Field)
	}
	if parsed.First, err = parse(r.Start); err != nil {
		return Range{}, false, err
	}
	var end uint64 // 2^64 is 0
	if r.End != pastLast {
		if end, err = parse(r.End); err != nil || end <= parsed.First {
			return Range{}, false, err
		}
	}
	parsed.Last = end - 1
	return parsed, true, nil
}

func parse(bound string) (uint64, error) {
	digits, found := strings.CutPrefix(bound, "0x")
	if !found {
		return 0, fmt.Errorf("the bound of a range is %q: must begin with 0x", bound)
	}
	n, err := strconv.ParseUint(digits, 16, 64)
	if err != nil {
		return 0, fmt.Errorf("the bound of a range is %q: %w", bound, err)
	}
	return n, nil
}

// Requirement returns the range in the form of shard selectors.
func (r Range) Requirement() Requirement {
	end := pastLast
	if r.Last < math.MaxUint64 {
		end = bound(r.Last + 1)
	}
	return Requirement{Key: Field, Start: bound(r.First), End: end}
}

func bound(hash uint64) string { return fmt.Sprintf("0x%016x", hash) }

// Contains reports whether hash is in the range.
func (r Range) Contains(hash uint64) bool { return r.First <= hash && hash <= r.Last }

// Overlaps reports whether the ranges have a hash in common.
func (r Range) Overlaps(o Range) bool { return r.First <= o.Last && o.First <= r.Last }

// Contains reports whether hash is in the set. It does not allocate.
func (s Set) Contains(hash uint64) bool {
	n := sort.Search(len(s), func(n int) bool { return s[n].Last >= hash })
	return n < len(s) && s[n].First <= hash
}

// Has reports whether the objects of a namespace are in the set. Objects
// without a namespace belong to no shard, and are in every set.
func Has[S string | []byte](s Set, namespace S) bool {
	return len(namespace) == 0 || s.Contains(Of(namespace))
}

// IsWhole reports whether every hash is in the set.
func (s Set) IsWhole() bool { return len(s) == 1 && s[0] == Range{0, math.MaxUint64} }

// Includes reports whether every hash of t is in the set.
func (s Set) Includes(t Set) bool { return len(t.Minus(s)) == 0 }

// Union returns the hashes that are in at least one of the sets.
func Union(sets ...Set) Set {
	ranges := slices.Concat(sets...)
	slices.SortFunc(ranges, func(a, b Range) int { return cmp.Compare(a.First, b.First) })
	var union Set
	for _, r := range ranges {
		if n := len(union) - 1; n >= 0 && (union[n].Last == math.MaxUint64 || r.First <= union[n].Last+1) {
			union[n].Last = max(union[n].Last, r.Last)
		} else {
			union = append(union, r)
		}
	}
	return union
}

// Minus returns the hashes that are in s and not in t.
func (s Set) Minus(t Set) Set {
	var left Set
	for _, r := range s {
		whole := true // the rest of r, from r.First, is not in t
		for _, o := range t {
			if !r.Overlaps(o) {
				continue
			}
			if r.First < o.First {
				left = append(left, Range{r.First, o.First - 1})
			}
			if whole = o.Last < r.Last; !whole {
				break
			}
			r.First = o.Last + 1
		}
		if whole {
			left = append(left, r)
		}
	}
	return left
}

// Selector returns the set as the shardSelector of a list or a watch. The
// selector of the whole set is "", which selects all objects. The selector of
// the empty set selects no object.
func (s Set) Selector() string {
	switch {
	case s.IsWhole():
		return ""
	case len(s) == 0:
		return Requirement{Key: Field, Start: bound(0), End: bound(0)}.String()
	}
	terms := make([]string, len(s))
	for n, r := range s {
		terms[n] = r.Requirement().String()
	}
	return strings.Join(terms, " || ")
}

// String returns the requirement as a term of a shardSelector.
func (r Requirement) String() string {
	return fmt.Sprintf("shardRange(%s, '%s', '%s')", r.Key, r.Start, r.End)
}

// FromSelector returns the set of a shardSelector that [Set.Selector] has made.
// It returns an error for a selector that it cannot parse.
func FromSelector(selector string) (Set, error) {
	if selector == "" {
		return Whole(), nil
	}
	var set Set
	for term := range strings.SplitSeq(selector, " || ") {
		inner, ok1 := strings.CutPrefix(term, "shardRange(")
		inner, ok2 := strings.CutSuffix(inner, ")")
		parts := strings.Split(inner, ", ")
		if !ok1 || !ok2 || len(parts) != 3 {
			return nil, fmt.Errorf("the shard selector is %q: must have the form shardRange(field, 'start', 'end')", term)
		}
		r, ok, err := Parse(Requirement{
			Key: parts[0], Start: strings.Trim(parts[1], "'"), End: strings.Trim(parts[2], "'"),
		})
		if err != nil {
			return nil, err
		}
		if ok {
			set = Union(set, Set{r})
		}
	}
	return set, nil
}

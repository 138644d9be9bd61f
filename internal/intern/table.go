package intern

import (
	"sync"
	"weak"
)

// table holds known parts by their hash and shape, and remembers which others were seen once.
type table struct {
	mu    sync.Mutex // guards the fields below; held for a search, or to sweep one table of many
	known map[part]weak.Pointer[byte]
	// The object in which a part was seen, by a half of the part's hash. When seen is full, it becomes older, and what
	// was in older is forgotten.
	seen, older map[uint32]uint32
}

// part identifies a part. Two parts of one shape may be compared.
type part struct {
	hash uint64
	shape
}

// shape is the kind of a part, the number of its plan (0 if its type is clear
// from the kind), and its length.
type shape struct {
	length int
	plan   uint32
	kind   kind
}

func shapeOf(k kind, p *plan, length int) shape {
	s := shape{length: length, kind: k}
	if p != nil {
		s.plan = p.number
	}
	return s
}

// sightings is how many parts seen has room for.
const sightings = 448

// get returns the known part of that hash and shape: nil if there is none.
func (t *table) get(hash uint64, what shape) *byte { return t.known[part{hash, what}].Value() }

// put makes the part at at that of hash, in place of the one before.
func (t *table) put(hash uint64, what shape, at *byte) {
	if t.known == nil {
		t.known = map[part]weak.Pointer[byte]{}
	}
	t.known[part{hash, what}] = weak.Make(at)
}

// sweep drops the parts that are dead, once a quarter is, and gives the memory of their entries back.
func (t *table) sweep() {
	t.mu.Lock()
	defer t.mu.Unlock()
	living := 0
	for _, at := range t.known {
		if at.Value() != nil {
			living++
		}
	}
	if 4*living >= 3*len(t.known) {
		return
	}
	old := t.known
	t.known = make(map[part]weak.Pointer[byte], living)
	for key, at := range old {
		if at.Value() != nil {
			t.known[key] = at
		}
	}
	if living == 0 {
		t.seen, t.older = nil, nil
	}
}

// sighted notes a part that is not known, and reports whether another object
// has it, too.
func (t *table) sighted(hash uint64, object uint32) bool {
	half := uint32(hash >> 32)
	for _, seen := range [...]map[uint32]uint32{t.seen, t.older} {
		if by, ok := seen[half]; ok {
			return by != object
		}
	}
	if len(t.seen) == sightings {
		t.seen, t.older = t.older, t.seen
		clear(t.seen)
	}
	if t.seen == nil {
		t.seen = map[uint32]uint32{}
	}
	t.seen[half] = object
	return false
}

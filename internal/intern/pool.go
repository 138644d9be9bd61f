package intern

import (
	"hash/maphash"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"weak"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// A Pool makes equal parts of the objects that it is given one.
//
// It is safe for concurrent use: objects are walked side by side, and a lock is
// held for one look at the table.
type Pool struct {
	seed    maphash.Seed
	objects atomic.Uint32 // that have been walked
	known   [1 << tableBits]table
}

// tableBits are the bits of a hash that say which of the tables a part is in.
const tableBits = 6

// New returns a Pool that knows nothing yet.
func New() *Pool {
	s := &Pool{seed: maphash.MakeSeed()}
	s.sweepAfterCollection()
	return s
}

// Object shares the parts of the object to which obj points. Do not write to
// it afterwards.
func (s *Pool) Object(obj any) { s.Update(obj, nil) }

// Update shares what obj, a pointer, points to with old, an earlier state of the
// same object: nearly all of it has stayed as it was, and only the rest is looked
// for in the table. Do not write to obj afterwards; old is only read. If old is
// nil or of another type, a relative takes its place.
func (s *Pool) Update(obj, old any) {
	to, p := pointee(obj)
	if p == nil || p.plain {
		return
	}
	recent := spare.Get().(*texts)
	w := walk{Pool: s, object: s.objects.Add(1), learns: true, recent: recent}
	families := s.familiesOf(obj, p)
	if reflect.TypeOf(old) == reflect.TypeOf(obj) && dataOf(old) != nil {
		w.fields(to, likes{dataOf(old), nil}, p)
	} else {
		w.fields(to, likes{s.relative(families, p), nil}, p)
	}
	for _, family := range families {
		s.represent(family, shapeOf(object, p, 1), to)
	}
	*recent = texts{}
	spare.Put(recent)
	runtime.KeepAlive(obj)
	runtime.KeepAlive(old)
}

// familiesOf returns the hashes of the families of an object, of each of which
// one living member is known: what its controller owns, and its type. They are the
// same if it has no controller.
func (s *Pool) familiesOf(obj any, p *plan) (families [2]uint64) {
	ofType := s.mix(uint64(object), uint64(p.number), 0)
	families = [...]uint64{ofType, ofType}
	o, ok := obj.(metav1.Object)
	if _, generic := obj.(*unstructured.Unstructured); !ok || generic { // which would allocate to tell its owner
		return families
	}
	if owner := metav1.GetControllerOfNoCopy(o); owner != nil {
		families[0] = s.mix(uint64(object), uint64(p.number), s.textHash(string(owner.UID)))
	}
	return families
}

// relative returns the member that is known of the closest family.
func (s *Pool) relative(families [2]uint64, p *plan) place {
	for _, family := range families {
		if at, _ := s.look(family, shapeOf(object, p, 1), 0, false); at != nil {
			return at
		}
	}
	return nil
}

// represent makes the object at obj known for its family, if no other is.
func (s *Pool) represent(family uint64, what shape, obj place) {
	t := s.tableOf(family)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.get(family, what) == nil {
		t.put(family, what, byteAt(obj))
	}
}

func (s *Pool) tableOf(hash uint64) *table { return &s.known[hash%(1<<tableBits)] }

// look returns the known part of that hash and shape, which the caller has yet
// to compare: nil if there is none. If it notes such a part, it reports whether that
// has been seen in another object, too, and so should become known.
func (s *Pool) look(hash uint64, what shape, object uint32, notes bool) (at place, again bool) {
	t := s.tableOf(hash)
	t.mu.Lock()
	defer t.mu.Unlock()
	if at := t.get(hash, what); at != nil {
		return place(at), false
	}
	return nil, notes && t.sighted(hash, object)
}

// learn makes the part at at known. Nothing may write to it afterwards.
func (s *Pool) learn(hash uint64, what shape, at place) {
	t := s.tableOf(hash)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.put(hash, what, byteAt(at))
}

// Len returns the number of known parts, some of which may be dead.
func (s *Pool) Len() (n int) {
	for i := range s.known {
		t := &s.known[i]
		t.mu.Lock()
		n += len(t.known)
		t.mu.Unlock()
	}
	return n
}

// sweepAfterCollection makes the tables drop what the next garbage collection,
// and each one after it, finds dead.
func (s *Pool) sweepAfterCollection() {
	type sentinel struct{ _ *byte } // with a pointer, it is an allocation of its own
	runtime.AddCleanup(&sentinel{}, func(of weak.Pointer[Pool]) {
		if s := of.Value(); s != nil {
			for i := range s.known {
				s.known[i].sweep()
			}
			s.sweepAfterCollection()
		}
	}, weak.Make(s))
}

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

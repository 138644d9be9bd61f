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

// A Pool saves memory by letting objects share their equal parts. It replaces
// equal parts of the objects that it gets with one copy.
//
// It is safe for concurrent use. Objects are walked in parallel, and a lock is
// held only for one lookup in a table.
type Pool struct {
	seed    maphash.Seed
	secret  [4]uint64     // odd random numbers, for mix
	objects atomic.Uint32 // number of objects walked
	chances chances
	known   [1 << tableBits]table
}

// tableBits is the number of bits of a hash that select the table of a part.
const tableBits = 6

// New returns an empty Pool.
func New() *Pool {
	s := &Pool{seed: maphash.MakeSeed()}
	for n := range s.secret {
		s.secret[n] = maphash.Comparable(s.seed, n) | 1
	}
	s.sweepAfterCollection()
	return s
}

// Object shares the parts of the object that obj points to. The object must not
// be modified afterwards.
func (s *Pool) Object(obj any) { s.Update(obj, nil) }

// Update shares the parts of the object that obj points to. It takes unchanged
// parts from old, an earlier state of the same object, and looks up only the
// rest in the table. If old is nil or of another type, it takes parts from a
// relative instead, such as another object with the same controller. The object
// must not be modified afterwards; old is only read.
func (s *Pool) Update(obj, old any) {
	target, p := pointee(obj)
	if p == nil || p.plain {
		return
	}
	recent := spare.Get().(*texts)
	w := walk{Pool: s, object: s.objects.Add(1), learning: true, recent: recent}
	w.updating = reflect.TypeOf(old) == reflect.TypeOf(obj) && dataOf(old) != nil
	if w.updating {
		w.fields(target, hints{dataOf(old), nil}, p)
	}
	if !w.updating || w.object%sparse == 0 { // members that updates have replaced are garbage
		families := s.familiesOf(obj, p)
		if !w.updating {
			w.fields(target, hints{s.relative(families, p), nil}, p)
		}
		for _, family := range families {
			s.addMember(family, shapeOf(object, p, 1), target)
		}
	}
	*recent = texts{}
	spare.Put(recent)
	runtime.KeepAlive(obj)
	runtime.KeepAlive(old)
}

// familiesOf returns the hashes of an object's two families: the objects with
// the same controller, and the objects of the same type. The table has at most
// one living member of each family. Both hashes are the same if the object has
// no controller, and for unstructured objects, whose controller is not read.
func (s *Pool) familiesOf(obj any, p *plan) (families [2]uint64) {
	typeFamily := s.mix(uint64(object), uint64(p.number), 0)
	families = [...]uint64{typeFamily, typeFamily}
	o, ok := obj.(metav1.Object)
	if _, generic := obj.(*unstructured.Unstructured); !ok || generic { // GetOwnerReferences would allocate
		return families
	}
	if owner := metav1.GetControllerOfNoCopy(o); owner != nil {
		families[0] = s.mix(uint64(object), uint64(p.number), s.textHash(string(owner.UID)))
	}
	return families
}

// relative returns the known member of the closest family, or nil if neither
// family has one.
func (s *Pool) relative(families [2]uint64, p *plan) place {
	for _, family := range families {
		if member, _ := s.lookup(family, shapeOf(object, p, 1), 0, false); member != nil {
			return member
		}
	}
	return nil
}

// addMember makes the object at obj the known member of its family, unless the
// family has one.
func (s *Pool) addMember(family uint64, key shape, obj place) {
	t := s.tableOf(family)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.get(family, key) == nil {
		t.put(family, key, byteAt(obj))
	}
}

func (s *Pool) tableOf(hash uint64) *table { return &s.known[hash%(1<<tableBits)] }

// lookup returns the known part with this hash and shape, or nil. The caller
// must compare it, because hashes can collide. If no part is known and record
// is set, lookup records the part, and repeated reports whether another object
// had it before. If so, the caller should add the part with learn.
func (s *Pool) lookup(hash uint64, key shape, object uint32, record bool) (found place, repeated bool) {
	t := s.tableOf(hash)
	t.mu.Lock()
	defer t.mu.Unlock()
	if found := t.get(hash, key); found != nil {
		return place(found), false
	}
	return nil, record && t.seenElsewhere(hash, object)
}

// learn adds the part at data to the table. The part must not be modified
// afterwards.
func (s *Pool) learn(hash uint64, key shape, data place) {
	t := s.tableOf(hash)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.put(hash, key, byteAt(data))
}

// Len returns the number of parts that the Pool remembers. The count includes
// parts that were garbage collected after the tables were last swept.
func (s *Pool) Len() (n int) {
	for i := range s.known {
		t := &s.known[i]
		t.mu.Lock()
		n += len(t.known)
		t.mu.Unlock()
	}
	return n
}

// sweepAfterCollection sweeps the tables after the next garbage collection and
// each one after it.
func (s *Pool) sweepAfterCollection() {
	type sentinel struct{ _ *byte } // the pointer makes it an allocation of its own
	runtime.AddCleanup(&sentinel{}, func(pool weak.Pointer[Pool]) {
		if s := pool.Value(); s != nil {
			for i := range s.known {
				s.known[i].sweep()
			}
			s.sweepAfterCollection()
		}
	}, weak.Make(s))
}

// table holds known parts by their hash and shape, and remembers which other
// parts were seen once.
type table struct {
	mu    sync.Mutex // guards the fields below; held for a search or a sweep of this table
	known map[part]weak.Pointer[byte]
	// seen and previous map half of a part's hash to the number of the object
	// in which the part was first seen. There are two generations: a full seen
	// replaces previous.
	seen, previous map[uint32]uint32
}

// part identifies a part. Only parts of one shape may be compared.
type part struct {
	hash uint64
	shape
}

// shape is the kind of a part, its length, and the number of its plan. The
// number is 0 if the kind determines the type.
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

// sightings is the largest length of table.seen.
const sightings = 448

// get returns the known part with this hash and shape, or nil.
func (t *table) get(hash uint64, key shape) *byte { return t.known[part{hash, key}].Value() }

// put adds the part at data. It replaces a part with the same hash and shape.
func (t *table) put(hash uint64, key shape, data *byte) {
	if t.known == nil {
		t.known = map[part]weak.Pointer[byte]{}
	}
	t.known[part{hash, key}] = weak.Make(data)
}

// sweep drops dead parts if they are more than a quarter of the table, and
// frees the memory of their entries.
func (t *table) sweep() {
	t.mu.Lock()
	defer t.mu.Unlock()
	living := 0
	for _, data := range t.known {
		if data.Value() != nil {
			living++
		}
	}
	if 4*living >= 3*len(t.known) {
		return
	}
	old := t.known
	t.known = make(map[part]weak.Pointer[byte], living)
	for key, data := range old {
		if data.Value() != nil {
			t.known[key] = data
		}
	}
	if living == 0 {
		t.seen, t.previous = nil, nil
	}
}

// seenElsewhere reports whether another object has had a part with this hash
// before. If the part is new, seenElsewhere records that object has it.
func (t *table) seenElsewhere(hash uint64, object uint32) bool {
	half := uint32(hash >> 32)
	for _, seen := range [...]map[uint32]uint32{t.seen, t.previous} {
		if owner, ok := seen[half]; ok {
			return owner != object
		}
	}
	if len(t.seen) == sightings {
		t.seen, t.previous = t.previous, t.seen
		clear(t.seen)
	}
	if t.seen == nil {
		t.seen = map[uint32]uint32{}
	}
	t.seen[half] = object
	return false
}

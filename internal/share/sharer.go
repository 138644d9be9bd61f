package share

import (
	"hash/maphash"
	"reflect"
	"runtime"
	"sync"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
)

// A Sharer makes equal parts of the objects that it is given one.
//
// It is safe for concurrent use; one object is walked at a time.
type Sharer struct {
	mu              sync.Mutex // guards what follows
	seed            maphash.Seed
	bytes, quantity *plan
	marks           []mark                    // of the object that is walked
	last            unsafe.Pointer            // the object before
	lastPlan        *plan                     // its
	before          []mark                    // its
	memo            map[unsafe.Pointer]uint64 // hashes of its unstructured content
	value           resource.Quantity         // of the map that is walked
	opaques         uint64

	known table
	hit   bool       // the last part that was found is a known one
	seen  []sighting // by a part of their hashes; later ones overwrite others
	news  int        // sightings since seen has this size

	objects uint32 // that have been walked
}

// A sighting is a part that has been seen once.
type sighting struct {
	hash   uint32 // another part of it
	object uint32 // in which it was seen
}

const (
	ways           = 4 // places for a sighting
	smallestFilter = 1 << 12
	largestFilter  = 1 << 18
)

// New returns a Sharer that knows nothing yet.
func New() *Sharer {
	s := &Sharer{
		seed: maphash.MakeSeed(), memo: map[unsafe.Pointer]uint64{},
		seen: make([]sighting, smallestFilter),
	}
	s.bytes, s.quantity = planOf(reflect.TypeFor[byte]()), planOf(quantityType)
	return s
}

// eface is how an interface lies in memory.
type eface struct{ typ, data unsafe.Pointer }

// Object shares the parts of what obj, a pointer, points to. From now on nobody
// may write to it.
func (s *Sharer) Object(obj any) {
	at, p := pointee(obj)
	if p == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.memo)
	s.objects++
	m := model{}
	if s.last != nil && s.lastPlan == p {
		m.at = s.last
	}
	s.hash(at, p, m)
	s.share(at, p, 0)
	for n := range s.marks {
		s.marks[n].at = nil // what has been shared is garbage
	}
	s.last, s.lastPlan = at, p
	s.before, s.marks = s.marks, s.before[:0]
	runtime.KeepAlive(obj)
}

// Len returns the number of known parts, some of which may be gone.
func (s *Sharer) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known.used
}

// Sweep drops the entries of parts that are gone. It happens by itself when the
// table has doubled.
func (s *Sharer) Sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known.sweep()
}

// find returns the part of that hash and shape, which the caller has yet to
// compare: a known one, or an earlier one of this object. Otherwise it tells
// whether the part should become known.
func (s *Sharer) find(hash uint64, k kind, p *plan, length int) (at unsafe.Pointer, add bool) {
	s.hit = false
	if length > longest || p != nil && p.number >= 1<<planBits {
		return nil, false
	}
	if len(s.known.all) > 0 {
		if e := s.known.place(hash); e.hash != 0 {
			if at := e.at.Value(); at == nil {
				return nil, true
			} else if s.hit = e.what == shapeOf(k, p, length); s.hit {
				return unsafe.Pointer(at), false
			}
			return nil, false // two parts of one hash: the first one stays
		}
	}
	return s.sighted(hash, k, p, length)
}

// sighted notes a part that is not known, and tells whether another object has
// it, too. If the same object has it twice, it returns the first of them.
func (s *Sharer) sighted(hash uint64, k kind, p *plan, length int) (at unsafe.Pointer, add bool) {
	bucket := s.seen[hash&uint64(len(s.seen)-1)&^(ways-1):][:ways]
	oldest := &bucket[0]
	for n := range bucket {
		switch slot := &bucket[n]; {
		case slot.hash == uint32(hash>>32) && slot.object == s.objects:
			return s.earlier(hash, k, p, length), false
		case slot.hash == uint32(hash>>32) && slot.object != 0:
			return nil, true
		case slot.object < oldest.object:
			oldest = slot
		}
	}
	*oldest = sighting{uint32(hash >> 32), s.objects}
	if s.news++; s.news > len(s.seen) && len(s.seen) < largestFilter {
		s.seen, s.news = make([]sighting, 2*len(s.seen)), 0
	}
	return nil, false
}

// earlier returns the first part of the object that is walked with that hash
// and shape.
func (s *Sharer) earlier(hash uint64, k kind, p *plan, length int) unsafe.Pointer {
	for n := range s.marks {
		if m := &s.marks[n]; m.hash == hash && m.kind == k && m.plan == p && m.length == length {
			return m.at
		}
	}
	return nil
}

// add makes the part at at, which must be on the heap, known.
func (s *Sharer) add(hash uint64, k kind, p *plan, length int, at unsafe.Pointer) {
	s.known.put(hash, shapeOf(k, p, length), at)
}

package share

import (
	"hash/maphash"
	"reflect"
	"runtime"
	"sync"
	"unsafe"
	"weak"

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
	memo            map[unsafe.Pointer]uint64 // hashes of its unstructured content
	value           resource.Quantity         // of the map that is walked
	opaques         uint64

	known  map[uint64]entry
	living int        // entries that were alive after the last sweep
	seen   []sighting // by a part of their hashes; later ones overwrite others
	news   int        // sightings since seen has this size

	objects uint32 // that have been walked
}

// An entry is one known part.
type entry struct {
	at     weak.Pointer[byte]
	plan   *plan // of what is there, if its type is not clear from kind
	length int   // of a string, slice or map
	kind   kind
}

// A sighting is a part that has been seen once.
type sighting struct {
	hash   uint32 // another part of it
	object uint32 // in which it was seen
}

const (
	ways           = 4 // places for a sighting
	smallestFilter = 1 << 12
	largestFilter  = 1 << 20
	fewEntries     = 1 << 10
)

// New returns a Sharer that knows nothing yet.
func New() *Sharer {
	s := &Sharer{
		seed: maphash.MakeSeed(), memo: map[unsafe.Pointer]uint64{},
		known: map[uint64]entry{}, seen: make([]sighting, smallestFilter),
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
	s.marks = s.marks[:0]
	clear(s.memo)
	s.objects++
	s.hash(at, p)
	s.share(at, p, 0)
	clear(s.marks)
	runtime.KeepAlive(obj)
}

// Len returns the number of known parts, some of which may be gone.
func (s *Sharer) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.known)
}

// Sweep drops the entries of parts that are gone. It happens by itself when the
// table has doubled.
func (s *Sharer) Sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
}

func (s *Sharer) sweep() {
	for hash, e := range s.known {
		if e.at.Value() == nil {
			delete(s.known, hash)
		}
	}
	s.living = len(s.known)
}

// find returns the known part of that hash and shape, which the caller has yet
// to compare. Otherwise it tells whether the part should become known.
func (s *Sharer) find(hash uint64, k kind, p *plan, length int) (at unsafe.Pointer, add bool) {
	if e, ok := s.known[hash]; ok {
		if at := e.at.Value(); at != nil {
			if e.kind == k && e.plan == p && e.length == length {
				return unsafe.Pointer(at), false
			}
			return nil, false // two parts of one hash: the first one stays
		}
		delete(s.known, hash)
		return nil, true
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
	if len(s.known) > 2*s.living+fewEntries {
		s.sweep()
	}
	s.known[hash] = entry{at: weak.Make((*byte)(at)), plan: p, length: length, kind: k}
}

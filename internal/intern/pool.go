package intern

import (
	"hash/maphash"
	"reflect"
	"runtime"
	"sync/atomic"
	"weak"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
// it any more.
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
		if at := s.find(family, shapeOf(object, p, 1)); at != nil {
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

// find returns the known part of that hash and shape, which the caller has yet
// to compare: nil if there is none.
func (s *Pool) find(hash uint64, what shape) place {
	t := s.tableOf(hash)
	t.mu.Lock()
	defer t.mu.Unlock()
	return place(t.get(hash, what))
}

// look is find, and reports whether a part that is not known has been seen in
// another object, too, and so should become known.
func (s *Pool) look(hash uint64, what shape, object uint32, notes bool) (at place, again bool) {
	t := s.tableOf(hash)
	t.mu.Lock()
	defer t.mu.Unlock()
	if at := t.get(hash, what); at != nil {
		return place(at), false
	}
	return nil, notes && t.sighted(hash, object)
}

// learn makes the part at at known. Nothing writes to it any more.
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

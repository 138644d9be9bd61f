package share

import (
	"hash/maphash"
	"math/bits"
	"unsafe"
)

// A mark is the hash of one part of the object that is walked. Marks stand in
// the order of the walk: a part, then the parts within it.
type mark struct {
	hash   uint64
	next   int            // the mark after the parts within
	at     unsafe.Pointer // where the part is
	plan   *plan          // see entry
	length int
	kind   kind
	known  bool // the object holds the known part
	bare   bool // and has no marks of what is within
}

// A model is the part of the object before that stands where a part of the
// object that is walked stands: replicas come one after the other, and equal
// parts of them need no look into the table.
type model struct {
	at   unsafe.Pointer // nil if there is none
	next int            // the first mark of what has not been passed yet
}

// header is how a slice lies in memory.
type header struct {
	data     unsafe.Pointer
	len, cap int
}

func mix(sum, next uint64) uint64 {
	return bits.RotateLeft64(sum, 23)*0x9e3779b97f4a7c15 ^ next
}

// hash returns the hash of the value at at, and marks its parts. Those that
// equal known ones of the model become these. It returns the model's next mark.
// What is zero does not count.
func (s *Sharer) hash(at unsafe.Pointer, p *plan, m model) (sum uint64, next int) {
	sum = p.salt
	for n := p.filled(at, m.at, 0); n < len(p.words); {
		fields, behind := p.fieldsAt(n)
		for i := range fields {
			f := &fields[i]
			here, there := unsafe.Add(at, f.offset), unsafe.Pointer(nil)
			var before *mark
			first := m.next + 1
			if m.at != nil {
				there = unsafe.Add(m.at, f.offset)
				if f.marked(there) {
					if before = s.markOf(m.next, f, there); before == nil {
						m.at = nil
					} else {
						m.next = before.next
					}
				}
			}
			if h := s.hashField(here, f, there, before, first); h != 0 {
				sum = mix(sum+uint64(f.offset), h)
			}
		}
		n = p.filled(at, m.at, behind)
	}
	return sum, m.next
}

// markOf returns mark n of the object before if it is that of the field at at:
// nil if somebody has written to that object.
func (s *Sharer) markOf(n int, f *field, at unsafe.Pointer) *mark {
	if n >= len(s.before) {
		return nil
	}
	m, held := &s.before[n], mark{kind: f.kind, length: 1}
	switch f.kind {
	case text:
		held.length = len(*(*string)(at))
	case list:
		held.plan, held.length = f.to, (*header)(at).len
	case pointer:
		held.plan = f.to
	default:
		held.length = length(*(*unsafe.Pointer)(at))
	}
	if m.kind != held.kind || m.plan != held.plan || m.length != held.length {
		return nil
	}
	return m
}

// marked tells whether the field at at has a mark.
func (f *field) marked(at unsafe.Pointer) bool {
	switch f.kind {
	case text:
		return !f.alone && *(*string)(at) != ""
	case list:
		return (*header)(at).len > 0
	case pointer:
		return *(*unsafe.Pointer)(at) != nil
	case stringMap, bytesMap, quantityMap:
		return length(*(*unsafe.Pointer)(at)) > 0
	default:
		return false
	}
}

// hashField hashes one field: 0 if that is zero or empty. If before is not nil, it is the mark of the
// model's field, which is at there, and the marks of what is within that begin
// at first.
func (s *Sharer) hashField(here unsafe.Pointer, f *field, there unsafe.Pointer, before *mark, first int) uint64 {
	if before != nil && before.known && f.marked(here) && equalField(here, there, f) {
		s.follow(here, there, f, before, first)
		return before.hash
	}
	switch f.kind {
	case raw, instant:
		return s.hashRaw(here, f.size)
	case text:
		return s.hashText(*(*string)(here), f.alone)
	case list:
		h, m := (*header)(here), model{}
		if before != nil && !before.bare {
			m = model{(*header)(there).data, first}
		}
		return s.hashList(h, f.to, m, (*header)(there))
	case pointer:
		to := *(*unsafe.Pointer)(here)
		if to == nil {
			return 0
		}
		m := model{}
		if before != nil && !before.bare {
			m = model{*(*unsafe.Pointer)(there), first}
		}
		n := s.open(pointer, f.to, 1, to)
		sum, _ := s.hash(to, f.to, m)
		return s.shut(n, sum)
	case opaque:
		if zero(here, f.size) {
			return 0
		}
		s.opaques++ // equal to nothing: what holds it is never known
		return s.opaques
	case dynamic:
		if *(*any)(here) == nil {
			return 0
		}
		return s.hashAny(*(*any)(here))
	case dynamicMap:
		if len(*(*map[string]any)(here)) == 0 {
			return 0
		}
		return s.hashAnyMap(*(*map[string]any)(here))
	default:
		return s.hashMap(here, f.kind)
	}
}

// follow makes the field at here the equal one at there, with its mark.
func (s *Sharer) follow(here, there unsafe.Pointer, f *field, before *mark, first int) {
	at := *(*unsafe.Pointer)(there) // of whatever kind, the pointer comes first
	*(*unsafe.Pointer)(here) = at
	if f.kind == list {
		h := (*header)(here)
		h.cap = h.len
	}
	m := *before
	m.at, m.next, m.bare = at, len(s.marks)+1, before.bare || before.next > first
	s.marks = append(s.marks, m)
}

// open makes the mark of a part whose own parts come next.
func (s *Sharer) open(k kind, p *plan, length int, at unsafe.Pointer) int {
	s.marks = append(s.marks, mark{at: at, plan: p, length: length, kind: k})
	return len(s.marks) - 1
}

// shut completes the mark of a part.
func (s *Sharer) shut(n int, hash uint64) uint64 {
	s.marks[n].hash, s.marks[n].next = hash, len(s.marks)
	return hash
}

func (s *Sharer) hashRaw(at unsafe.Pointer, size uintptr) uint64 {
	switch size {
	case 1:
		return uint64(*(*uint8)(at))
	case 4:
		return uint64(*(*uint32)(at))
	case 8:
		return *(*uint64)(at)
	default:
		if zero(at, size) {
			return 0
		}
		return maphash.Bytes(s.seed, unsafe.Slice((*byte)(at), size))
	}
}

func (s *Sharer) hashText(t string, alone bool) uint64 {
	if t == "" {
		return 0
	}
	sum := maphash.String(s.seed, t)
	if !alone {
		s.shut(s.open(text, nil, len(t), unsafe.Pointer(unsafe.StringData(t))), sum)
	}
	return sum
}

// hashList hashes a list. If m has a place, it is that of the elements of there.
func (s *Sharer) hashList(h *header, elem *plan, m model, there *header) uint64 {
	if h.len == 0 {
		return 0
	}
	n := s.open(list, elem, h.len, h.data)
	sum := uint64(h.len)
	if elem.plain {
		return s.shut(n, mix(elem.salt, s.dataHash(unsafe.Slice((*byte)(h.data), uintptr(h.len)*elem.size))))
	}
	for i := range h.len {
		var next uint64
		next, m.next = s.hash(unsafe.Add(h.data, uintptr(i)*elem.size), elem, m)
		sum = mix(sum, next)
		switch {
		case m.at == nil:
		case i+1 < there.len:
			m.at = unsafe.Add(m.at, elem.size)
		default:
			m.at = nil
		}
	}
	return s.shut(n, sum)
}

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
}

// header is how a slice lies in memory.
type header struct {
	data     unsafe.Pointer
	len, cap int
}

func mix(sum, next uint64) uint64 {
	return bits.RotateLeft64(sum, 23)*0x9e3779b97f4a7c15 ^ next
}

// hash returns the hash of the value at at, and marks its parts.
func (s *Sharer) hash(at unsafe.Pointer, p *plan) uint64 {
	sum := p.salt
	for n := range p.fields {
		f := &p.fields[n]
		here := unsafe.Add(at, f.offset)
		var next uint64
		switch f.kind {
		case raw, instant:
			next = s.hashRaw(here, f.size)
		case text:
			next = s.hashText(*(*string)(here), f.alone)
		case list:
			next = s.hashList((*header)(here), f.to)
		case pointer:
			if to := *(*unsafe.Pointer)(here); to != nil {
				n := s.open(pointer, f.to, 1, to)
				next = s.shut(n, s.hash(to, f.to))
			}
		case opaque:
			if !zero(here, f.size) { // equal to nothing: what holds it is never known
				s.opaques++
				next = s.opaques
			}
		case dynamic:
			next = s.hashAny(*(*any)(here))
		case dynamicMap:
			next = s.hashAnyMap(*(*map[string]any)(here))
		default:
			next = s.hashMap(here, f.kind)
		}
		sum = mix(sum, next)
	}
	return sum
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

func (s *Sharer) hashList(h *header, elem *plan) uint64 {
	if h.len == 0 {
		return 1
	}
	n := s.open(list, elem, h.len, h.data)
	sum := uint64(h.len)
	if elem.plain {
		return s.shut(n, mix(elem.salt, s.dataHash(unsafe.Slice((*byte)(h.data), uintptr(h.len)*elem.size))))
	}
	for i := range h.len {
		sum = mix(sum, s.hash(unsafe.Add(h.data, uintptr(i)*elem.size), elem))
	}
	return s.shut(n, sum)
}

package share

import (
	"reflect"
	"runtime"
	"unsafe"
)

// Update shares what obj, a pointer, points to with old, an earlier state of the
// same object: nearly all of it has stayed as it was, and needs no look into the
// table. Parts that are new are shared as Object does. From now on nobody may
// write to obj; old is only read.
func (s *Sharer) Update(obj, old any) {
	at, p := pointee(obj)
	before := (*eface)(unsafe.Pointer(&old)).data
	if p == nil || before == nil || reflect.TypeOf(obj) != reflect.TypeOf(old) {
		s.Object(obj)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.memo)
	s.objects++
	s.update(at, before, p)
	for n := range s.marks {
		s.marks[n].at = nil // what has been shared is garbage
	}
	s.marks = s.marks[:0]
	runtime.KeepAlive(obj)
	runtime.KeepAlive(old)
}

// update makes the parts of the value at at those of the value at old, where they
// are equal, shares the others, and tells whether all are equal: then at may give
// way to old.
func (s *Sharer) update(at, old unsafe.Pointer, p *plan) (same bool) {
	if at == old {
		return true
	}
	same = true
	for n := p.differs(at, old, 0); n < len(p.words); {
		fields, next := p.fieldsAt(n)
		for i := range fields {
			f := &fields[i]
			same = s.updateField(unsafe.Add(at, f.offset), unsafe.Add(old, f.offset), f) && same
		}
		n = p.differs(at, old, next)
	}
	return same
}

func (s *Sharer) updateField(at, old unsafe.Pointer, f *field) (same bool) {
	switch f.kind {
	case list:
		return s.updateList((*header)(at), (*header)(old), f)
	case pointer:
		x, y := (*unsafe.Pointer)(at), *(*unsafe.Pointer)(old)
		switch {
		case *x == y:
			return true
		case *x == nil || y == nil:
			s.fresh(at, f)
			return false
		}
		if same = s.update(*x, y, f.to); same {
			*x = y
		}
		return same
	case dynamic:
		*(*any)(at), same = s.updateAny(*(*any)(at), *(*any)(old))
		return same
	case dynamicMap:
		x, y := (*map[string]any)(at), *(*map[string]any)(old)
		if same = s.updateAnyMap(*x, y); same {
			*x = y
		}
		return same
	}
	if same = equalField(at, old, f); !same {
		s.fresh(at, f)
		return false
	}
	switch f.kind {
	case text:
		*(*string)(at) = *(*string)(old)
	case stringMap, bytesMap, quantityMap:
		*(*unsafe.Pointer)(at) = *(*unsafe.Pointer)(old)
	}
	return true
}

// fresh shares a field that the earlier state does not have.
func (s *Sharer) fresh(at unsafe.Pointer, f *field) {
	if f.alone {
		return
	}
	first := len(s.marks)
	s.hashField(at, f, nil, nil, 0)
	s.shareField(at, f, first)
}

func (s *Sharer) updateList(h, old *header, f *field) (same bool) {
	size := f.to.size
	switch {
	case h.data == old.data && h.len == old.len:
		return true
	case h.len == 0 || old.len == 0 || f.to.plain:
		if same = equalField(unsafe.Pointer(h), unsafe.Pointer(old), f); !same {
			s.fresh(unsafe.Pointer(h), f)
			return false
		}
	default:
		same = h.len == old.len
		for n := range uintptr(min(h.len, old.len)) {
			same = s.update(unsafe.Add(h.data, n*size), unsafe.Add(old.data, n*size), f.to) && same
		}
	}
	if same {
		h.data, h.cap = old.data, h.len
		return true
	}
	for n := old.len; n < h.len; n++ {
		first, elem := len(s.marks), unsafe.Add(h.data, uintptr(n)*size)
		s.hash(elem, f.to, model{})
		s.share(elem, f.to, first)
	}
	if uintptr(h.cap-h.len)*size >= worthCompacting {
		h.data, h.cap = cloned(h.data, h.len, f.to), h.len
	}
	return false
}

// updateAny returns old if v equals it, or v with shared parts.
func (s *Sharer) updateAny(v, old any) (updated any, same bool) {
	switch x := v.(type) {
	case map[string]any:
		if y, ok := old.(map[string]any); ok {
			if s.updateAnyMap(x, y) {
				return old, true
			}
			return v, false
		}
	case []any:
		if y, ok := old.([]any); ok {
			if s.updateAnyList(x, y) {
				return old, true
			}
			return v, false
		}
	default:
		if equalAny(v, old) {
			return old, true
		}
	}
	return s.freshAny(v), false
}

func (s *Sharer) freshAny(v any) any {
	s.hashAny(v)
	return s.shareAny(v)
}

func (s *Sharer) updateAnyMap(m, old map[string]any) (same bool) {
	same = len(m) == len(old) && (m == nil) == (old == nil)
	for key, value := range m {
		before, ok := old[key]
		if !ok {
			m[s.sharedText(key)] = s.freshAny(value)
			same = false
			continue
		}
		updated, equal := s.updateAny(value, before)
		m[key] = updated
		same = same && equal
	}
	return same
}

func (s *Sharer) updateAnyList(l, old []any) (same bool) {
	same = len(l) == len(old) && (l == nil) == (old == nil)
	for n := range l {
		if n >= len(old) {
			l[n] = s.freshAny(l[n])
			continue
		}
		var equal bool
		l[n], equal = s.updateAny(l[n], old[n])
		same = same && equal
	}
	return same
}

package share

import (
	"bytes"
	"hash/maphash"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
)

// share replaces the parts of the value at at by known ones. next is the first
// mark of the value; the one after it is returned.
func (s *Sharer) share(at unsafe.Pointer, p *plan, next int) int {
	for n := p.filled(at, nil, 0); n < len(p.words); {
		fields, behind := p.fieldsAt(n)
		for i := range fields {
			next = s.shareField(unsafe.Add(at, fields[i].offset), &fields[i], next)
		}
		n = p.filled(at, nil, behind)
	}
	return next
}

func (s *Sharer) shareField(here unsafe.Pointer, f *field, next int) int {
	switch f.kind {
	case text:
		if t := (*string)(here); *t != "" && !f.alone {
			s.shareMarked(t, &s.marks[next])
			next++
		}
	case list:
		if h := (*header)(here); h.len > 0 {
			next = s.shareList(h, f.to, next)
		}
	case pointer:
		if to := (*unsafe.Pointer)(here); *to != nil {
			next = s.sharePointer(to, f.to, next)
		}
	case dynamic:
		*(*any)(here) = s.shareAny(*(*any)(here))
	case dynamicMap:
		s.shareAnyMap(*(*map[string]any)(here))
	case stringMap, bytesMap, quantityMap:
		if to := (*unsafe.Pointer)(here); length(*to) > 0 {
			s.shareMap(to, f.kind, &s.marks[next])
			next = s.marks[next].next
		}
	}
	return next
}

func (s *Sharer) shareMarked(t *string, m *mark) {
	if !m.known {
		*t, m.known = s.shareText(*t, m.hash)
	}
}

// shareText returns t or what is equal to it, and whether that is a known part.
func (s *Sharer) shareText(t string, hash uint64) (shared string, known bool) {
	at, add := s.find(hash, text, nil, len(t))
	if at != nil {
		if known := unsafe.String((*byte)(at), len(t)); known == t {
			return known, s.hit
		}
	}
	if add {
		t = strings.Clone(t) // for sure on the heap, and nothing else with it
		s.add(hash, text, nil, len(t), unsafe.Pointer(unsafe.StringData(t)))
	}
	return t, add
}

// sharedText is shareText for who does not ask.
func (s *Sharer) sharedText(t string) string {
	t, _ = s.shareText(t, s.textHash(t))
	return t
}

// worthCompacting is how many bytes a slice must have to spare for a copy
// without them. Decoders append, and leave much.
const worthCompacting = 64

func (s *Sharer) shareList(h *header, elem *plan, next int) int {
	m := s.marks[next]
	if m.known {
		return m.next
	}
	at, add := s.find(m.hash, list, elem, h.len)
	if at != nil && equalElements(at, h.data, h.len, elem) {
		h.data, h.cap = at, h.len
		s.marks[next].known = s.hit
		return m.next
	}
	s.marks[next].known = add
	if add || uintptr(h.cap-h.len)*elem.size >= worthCompacting {
		h.data, h.cap = cloned(h.data, h.len, elem), h.len
		s.marks[next].at = h.data // if the object has it once more, it is this one
	}
	if add {
		s.add(m.hash, list, elem, h.len, h.data)
	}
	if next++; next == m.next { // nothing within
		return next
	}
	for n := range h.len {
		next = s.share(unsafe.Add(h.data, uintptr(n)*elem.size), elem, next)
	}
	return next
}

func (s *Sharer) sharePointer(to *unsafe.Pointer, p *plan, next int) int {
	m := s.marks[next]
	if m.known {
		return m.next
	}
	at, add := s.find(m.hash, pointer, p, 1)
	if at != nil && equal(at, *to, p) {
		*to = at
		s.marks[next].known = s.hit
		return m.next
	}
	s.marks[next].known = add
	if add {
		*to = cloned(*to, 1, p)
		s.add(m.hash, pointer, p, 1, *to)
	}
	return s.share(*to, p, next+1)
}

// cloned returns a copy, for sure on the heap, of length values of p at at.
func cloned(at unsafe.Pointer, length int, p *plan) unsafe.Pointer {
	from := header{at, length, length}
	fresh := reflect.MakeSlice(p.list, length, length)
	reflect.Copy(fresh, valueAt(p.listAt, unsafe.Pointer(&from)))
	return fresh.UnsafePointer()
}

// length is the length of a map.
func length(m unsafe.Pointer) int {
	// The type of the values does not matter for the length.
	return len(*(*map[string]string)(unsafe.Pointer(&m)))
}

func (s *Sharer) hashMap(at unsafe.Pointer, k kind) uint64 {
	m := *(*unsafe.Pointer)(at)
	if length(m) == 0 {
		return 0
	}
	n := s.open(k, nil, length(m), m)
	sum := uint64(k)
	switch k {
	case stringMap:
		for key, value := range *(*map[string]string)(at) {
			sum += mix(s.textHash(key), s.textHash(value))
		}
	case bytesMap:
		for key, value := range *(*map[string][]byte)(at) {
			sum += mix(s.textHash(key), s.dataHash(value))
		}
	case quantityMap:
		for key, value := range *(*map[string]resource.Quantity)(at) {
			s.value = value // a variable of the loop would move to the heap
			amount, _ := s.hash(unsafe.Pointer(&s.value), s.quantity, model{})
			sum += mix(s.textHash(key), amount)
		}
	}
	s.marks = s.marks[:n+1] // the order of a map is another each time
	return s.shut(n, mix(sum, uint64(k)))
}

func (s *Sharer) shareMap(to *unsafe.Pointer, k kind, m *mark) {
	if m.known {
		return
	}
	n := length(*to)
	at, add := s.find(m.hash, k, nil, n)
	if at != nil && equalMaps(at, *to, k) {
		*to, m.known = at, s.hit
		return
	}
	switch k {
	case stringMap:
		s.shareStrings((*map[string]string)(unsafe.Pointer(to)), add)
	case bytesMap:
		s.shareBytes((*map[string][]byte)(unsafe.Pointer(to)), add)
	case quantityMap:
		if add {
			amounts := (*map[string]resource.Quantity)(unsafe.Pointer(to))
			*amounts = maps.Clone(*amounts)
		}
	}
	if add {
		s.add(m.hash, k, nil, n, *to)
	}
	m.known = add
}

func (s *Sharer) shareStrings(m *map[string]string, clone bool) {
	if clone {
		*m = maps.Clone(*m)
	}
	for key, value := range *m {
		// An assignment replaces the key, too: equal strings may differ in
		// where they are.
		(*m)[s.sharedText(key)] = s.sharedText(value)
	}
}

func (s *Sharer) shareBytes(m *map[string][]byte, clone bool) {
	if clone {
		*m = maps.Clone(*m)
	}
	for key, value := range *m {
		if len(value) > 0 {
			value = s.shareData(value)
		}
		(*m)[s.sharedText(key)] = value
	}
}

func (s *Sharer) shareData(value []byte) []byte {
	hash := mix(s.bytes.salt, s.dataHash(value))
	at, add := s.find(hash, list, s.bytes, len(value))
	if at != nil {
		if known := unsafe.Slice((*byte)(at), len(value)); bytes.Equal(known, value) {
			return known
		}
	}
	if add {
		value = slices.Clip(bytes.Clone(value))
		s.add(hash, list, s.bytes, len(value), unsafe.Pointer(unsafe.SliceData(value)))
	}
	return value
}

func (s *Sharer) textHash(t string) uint64 {
	if t == "" {
		return 0
	}
	return maphash.String(s.seed, t)
}

func (s *Sharer) dataHash(data []byte) uint64 { return maphash.Bytes(s.seed, data) }

// valueAt is the value at at, whose type is that of a pointer word.
func valueAt(word, at unsafe.Pointer) reflect.Value {
	e := eface{word, at}
	return reflect.ValueOf(*(*any)(unsafe.Pointer(&e))).Elem()
}

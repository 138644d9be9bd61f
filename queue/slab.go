package queue

// Slabs grow by chunks. So growing copies nothing, and pointers stay valid.
const (
	chunkBits = 8
	chunkSize = 1 << chunkBits
	// keptChunks is the number of chunks that an empty slab keeps for the next
	// burst.
	keptChunks = 16
	// blockChunks is the number of chunks that a slab allocates at once if it
	// has at least that many already. For a single chunk, the allocator wastes
	// an eighth of the memory.
	blockChunks = 4
)

// slab stores values under small numbers. Numbers start at 1, because 0 stands
// for no value. They are used again after drop.
type slab[T any] struct {
	chunks []*[chunkSize]T
	free   []uint32
	top    uint32 // the highest number used since the slab was last empty
	live   int
}

// value returns the value with number i. The number must have been taken.
func (s *slab[T]) value(i uint32) *T {
	return &s.chunks[i>>chunkBits][i&(chunkSize-1)]
}

// contains reports whether value may be called with i.
func (s *slab[T]) contains(i uint32) bool {
	return int(i>>chunkBits) < len(s.chunks)
}

// take allocates a zero value and returns its number.
func (s *slab[T]) take() uint32 {
	s.live++
	if n := len(s.free); n > 0 {
		i := s.free[n-1]
		s.free = s.free[:n-1]
		return i
	}
	s.top++
	if !s.contains(s.top) {
		s.grow()
	}
	return s.top
}

func (s *slab[T]) grow() {
	if len(s.chunks) < blockChunks {
		s.chunks = append(s.chunks, new([chunkSize]T))
		return
	}
	block := new([blockChunks][chunkSize]T)
	for i := range block {
		s.chunks = append(s.chunks, &block[i])
	}
}

// drop frees number i. A slab that becomes empty returns most of its memory.
func (s *slab[T]) drop(i uint32) {
	var zero T
	*s.value(i) = zero
	s.live--
	if s.live > 0 {
		s.free = append(s.free, i)
		return
	}
	s.top = 0
	s.free = s.free[:0]
	if len(s.chunks) > keptChunks {
		s.chunks = append([]*[chunkSize]T(nil), s.chunks[:keptChunks]...)
		s.free = nil
	}
}

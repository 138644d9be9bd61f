package wire

import (
	"io"
	"sync"
)

const (
	// little is the size of the buffer of a calm watch: what most events fit in. A program may have thousands of them.
	little = 4 << 10
	// readAhead is how much is read at once when more comes: HTTP/2 answers each read of more than 4 KiB with an update
	// of its window, which is a write to the connection.
	readAhead = 32 << 10
)

// Buffers that all watches share, so that a calm one has none but that which it waits with.
var (
	littles = sync.Pool{New: func() any { return new([little]byte) }}
	larges  = sync.Pool{New: func() any { return new([readAhead]byte) }}
)

// buffer returns one of at least n bytes.
func buffer(n int) []byte {
	switch {
	case n <= little:
		return littles.Get().(*[little]byte)[:]
	case n <= readAhead:
		return larges.Get().(*[readAhead]byte)[:]
	default:
		return make([]byte, n+little)
	}
}

// release makes a buffer available again.
func release(used []byte) {
	switch cap(used) {
	case little:
		littles.Put((*[little]byte)(used[:little]))
	case readAhead:
		larges.Put((*[readAhead]byte)(used[:readAhead]))
	}
}

// input reads from a body, as much at once as comes.
type input struct {
	below    io.Reader
	buffer   []byte
	from, to int   // of the unused bytes
	full     bool  // the last read has filled the buffer, so that more is there
	err      error // of below; it follows the unused bytes
}

// fetch reads until n bytes are there, and reports whether they are.
func (i *input) fetch(n int) bool {
	for i.to-i.from < n && i.err == nil {
		i.makeRoom(n)
		var read int
		read, i.err = i.below.Read(i.buffer[i.to:])
		i.to += read
		i.full = i.to == len(i.buffer)
	}
	return i.to-i.from >= n
}

// makeRoom makes room for n bytes, of which some are there: for many more if more is there, and for few if not.
func (i *input) makeRoom(n int) {
	if i.full {
		n = max(n, readAhead)
	}
	there := i.unused()
	if before := i.buffer; len(before) < n || len(there) == 0 && len(before) > max(n, little) {
		i.buffer = buffer(n)
		defer release(before)
	}
	i.from, i.to = 0, copy(i.buffer, there)
}

// unused returns what was fetched, until the next fetch.
func (i *input) unused() []byte { return i.buffer[i.from:i.to] }

// take returns what was fetched, n bytes at most, until the next fetch.
func (i *input) take(n int) []byte {
	n = min(n, i.to-i.from)
	i.from += n
	return i.buffer[i.from-n : i.from]
}

// more reports whether more is there, which need not be whole.
func (i *input) more() bool { return i.to > i.from || i.full && i.err == nil }

// ended returns the error of the body once all before it has been used.
func (i *input) ended() error {
	if i.to > i.from {
		return nil
	}
	return i.err
}

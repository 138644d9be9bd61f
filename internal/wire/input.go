package wire

import (
	"io"
	"sync"
)

const (
	// smallBuffer is the size of the buffer of a calm watch. Most events fit in
	// it. A program may have thousands of watches.
	smallBuffer = 4 << 10
	// largeBuffer is how much is read at once while more input is available.
	// HTTP/2 answers each read of more than 4 KiB with an update of its window,
	// and so with a write to the connection.
	largeBuffer = 32 << 10
)

// All watches share these buffers. So a calm one holds only the buffer that it
// waits with.
var (
	smallBuffers = sync.Pool{New: func() any { return new([smallBuffer]byte) }}
	largeBuffers = sync.Pool{New: func() any { return new([largeBuffer]byte) }}
)

// buffer returns a buffer of at least n bytes.
func buffer(n int) []byte {
	switch {
	case n <= smallBuffer:
		return smallBuffers.Get().(*[smallBuffer]byte)[:]
	case n <= largeBuffer:
		return largeBuffers.Get().(*[largeBuffer]byte)[:]
	default:
		return make([]byte, n+smallBuffer)
	}
}

// release makes a buffer available to other watches.
func release(used []byte) {
	switch cap(used) {
	case smallBuffer:
		smallBuffers.Put((*[smallBuffer]byte)(used[:smallBuffer]))
	case largeBuffer:
		largeBuffers.Put((*[largeBuffer]byte)(used[:largeBuffer]))
	}
}

// input is a buffered reader of a body. It reads as much at once as is
// available.
type input struct {
	source     io.Reader
	buffer     []byte
	start, end int   // the bounds of the unused bytes
	full       bool  // the last read has filled the buffer, so more input may be available
	err        error // the error of source after the unused bytes
}

// fetch reads until n bytes are buffered, and reports whether it has read that
// many.
func (i *input) fetch(n int) bool {
	for i.end-i.start < n && i.err == nil {
		i.makeRoom(n)
		var read int
		read, i.err = i.source.Read(i.buffer[i.end:])
		i.end += read
		i.full = i.end == len(i.buffer)
	}
	return i.end-i.start >= n
}

// makeRoom makes room for n bytes in total. It takes a large buffer if the last
// read has filled the buffer, and otherwise a small one.
func (i *input) makeRoom(n int) {
	if i.full {
		n = max(n, largeBuffer)
	}
	unread := i.unused()
	if old := i.buffer; len(old) < n || len(unread) == 0 && len(old) > max(n, smallBuffer) {
		i.buffer = buffer(n)
		defer release(old)
	}
	i.start, i.end = 0, copy(i.buffer, unread)
}

// unused returns the fetched bytes. They are valid until the next fetch.
func (i *input) unused() []byte { return i.buffer[i.start:i.end] }

// take returns and consumes up to n fetched bytes. They are valid until the
// next fetch.
func (i *input) take(n int) []byte {
	n = min(n, i.end-i.start)
	i.start += n
	return i.buffer[i.start-n : i.start]
}

// hasMore reports whether more input is buffered or may be available. It need
// not be a whole event.
func (i *input) hasMore() bool { return i.end > i.start || i.full && i.err == nil }

// pendingErr returns the error of the body, once all bytes before it have been
// consumed.
func (i *input) pendingErr() error {
	if i.end > i.start {
		return nil
	}
	return i.err
}

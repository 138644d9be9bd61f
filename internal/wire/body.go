package wire

import (
	"bufio"
	"encoding/binary"
	"io"
	"net/http"
	"sync"
)

const (
	// maxFrame is the size of the largest event that is parsed, twice that of the
	// largest object that a server stores by default. Larger ones pass through in
	// pieces: the client has its own limit.
	maxFrame = 4 << 20
	// maxPiece is the size of the largest such piece.
	maxPiece = 32 << 10
	// ahead is how many events are decoded before the client asks for them, so that
	// decoding and storing do not wait for each other at every event.
	ahead = 16
	// readAhead is how much is read at once: HTTP/2 answers each read of more than 4 KiB with an update of its window,
	// which is a write to the connection.
	readAhead = 32 << 10
	// maxKept is the size of the largest buffer that is reused.
	maxKept = 4 << 10
)

// body is the body of a watch in protobuf, with placeholders for objects. It ends as
// the one below does, with the same error after the same bytes of an incomplete
// frame.
//
// A goroutine decodes ahead of the reader, from the first Read to Close or the end.
type body struct {
	below       io.ReadCloser
	start, stop sync.Once
	closed      chan struct{}
	pieces      chan piece
	free        chan []byte // buffers to reuse

	current piece  // of the reader
	ready   []byte // what is left of it

	in    *bufio.Reader // this and the following belong to the goroutine
	specs *Specs        // nil if all specs are decoded
	keep  Keep          // nil if all objects are wanted
	frame []byte        // as received, with its length in front
	large int           // bytes left of a frame that passes through
	err   error         // of in
}

// piece replaces a frame, or a part of a large one; err follows it.
type piece struct {
	bytes []byte
	err   error
}

func newBody(of io.ReadCloser, s *Specs, keep Keep) *body {
	return &body{
		below: of, in: bufio.NewReaderSize(of, readAhead), specs: s, keep: keep,
		closed: make(chan struct{}), pieces: make(chan piece, ahead), free: make(chan []byte, ahead),
	}
}

// Read implements [io.Reader].
func (b *body) Read(p []byte) (n int, err error) {
	b.start.Do(func() { go b.decode() })
	for len(b.ready) == 0 {
		if b.current.err != nil {
			return 0, b.current.err
		}
		b.release(b.current.bytes)
		next, ok := <-b.pieces
		if !ok {
			next.err = http.ErrBodyReadAfterClose
		}
		b.current, b.ready = next, next.bytes
	}
	n = copy(p, b.ready)
	b.ready = b.ready[n:]
	return n, nil
}

// Close implements [io.Closer].
func (b *body) Close() error {
	b.stop.Do(func() { close(b.closed) })
	return b.below.Close()
}

// decode sends pieces until the body ends or is closed.
func (b *body) decode() {
	defer close(b.pieces)
	for b.err == nil {
		p := piece{bytes: b.next(b.buffer())}
		if p.err = b.err; p.err == nil && len(p.bytes) == 0 { // left out
			b.release(p.bytes)
			continue
		}
		select {
		case b.pieces <- p:
		case <-b.closed:
			return
		}
	}
}

// next reads a frame, or a part of a large one, and appends what replaces it: nothing
// if its object is not wanted.
func (b *body) next(to []byte) []byte {
	if b.large > 0 {
		b.read(0, min(b.large, maxPiece))
		b.large -= len(b.frame)
		return append(to, b.frame...)
	}
	const head = 4
	if b.read(0, head) {
		if size := int(binary.BigEndian.Uint32(b.frame)); size > maxFrame {
			b.large = size
		} else if b.read(head, head+size) {
			if b.keep != nil && !b.keep.wants(b.frame[head:]) {
				return to
			}
			if made, ok := b.specs.replace(to, b.frame[head:]); ok {
				return made
			}
		}
	}
	return append(to, b.frame...)
}

// read reads the bytes of the frame between from and to, and reports whether it has
// all of them: if not, b.err says why.
func (b *body) read(from, to int) bool {
	if to > cap(b.frame) {
		b.frame = append(make([]byte, 0, to+to/4), b.frame[:from]...)
	}
	b.frame = b.frame[:to]
	for from < to && b.err == nil {
		var n int
		n, b.err = b.in.Read(b.frame[from:])
		from += n
	}
	b.frame = b.frame[:from]
	return from == to
}

// buffer returns an empty one.
func (b *body) buffer() []byte {
	select {
	case used := <-b.free:
		return used[:0]
	default:
		return nil
	}
}

// release makes a buffer available again.
func (b *body) release(used []byte) {
	if cap(used) == 0 || cap(used) > maxKept {
		return
	}
	select {
	case b.free <- used:
	default:
	}
}

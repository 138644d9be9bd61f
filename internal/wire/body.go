package wire

import (
	"bufio"
	"encoding/binary"
	"io"
)

// maxFrame is the size of the largest event that is looked into, twice that of
// the largest object that a server stores by default. Larger ones pass through
// in pieces: how large one may be is for the client to decide.
const maxFrame = 4 << 20

// A body is that of a watch in protobuf, with placeholders for objects. It ends as the one
// below ends, with the same error after the same bytes of a frame that is not
// complete.
type body struct {
	io.Closer
	in    *bufio.Reader
	specs *Specs

	frame []byte // as it came, its length in front
	made  []byte // in its place
	ready []byte // of these, what has not been read yet
	large int    // bytes to come of a frame that passes through
	err   error  // after what is ready
}

func newBody(of io.ReadCloser, s *Specs) *body {
	return &body{Closer: of, in: bufio.NewReader(of), specs: s}
}

// Read implements [io.Reader].
func (b *body) Read(p []byte) (n int, err error) {
	for len(b.ready) == 0 {
		switch {
		case b.err != nil:
			return 0, b.err
		case b.large > 0:
			n, err = b.in.Read(p[:min(len(p), b.large)])
			b.large -= n
			return n, err
		}
		b.next()
	}
	n = copy(p, b.ready)
	b.ready = b.ready[n:]
	return n, nil
}

// next reads a frame.
func (b *body) next() {
	const head = 4
	if b.ready = b.read(0, head); b.err != nil {
		return
	}
	size := binary.BigEndian.Uint32(b.ready)
	if size > maxFrame {
		b.large = int(size)
		return
	}
	if b.ready = b.read(head, head+int(size)); b.err != nil {
		return
	}
	if made, ok := b.specs.replace(b.made[:0], b.frame[head:]); ok {
		b.made, b.ready = made, made
	}
}

// read reads the bytes of the frame between from and to, and returns what there is of it.
func (b *body) read(from, to int) []byte {
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
	return b.frame
}

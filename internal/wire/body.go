package wire

import (
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
	// maxMark is more than a mark makes an event longer.
	maxMark = 64
)

// body is the body of a watch in protobuf, with placeholders for objects. It ends as
// the one below does, with the same error after the same bytes of an incomplete
// frame.
//
// The reader decodes an event that comes alone. While more are there, a goroutine decodes
// ahead of it: until they are decoded, or Close.
type body struct {
	below  io.ReadCloser
	specs  *Specs // nil if all specs are decoded
	keep   Keep   // nil if all objects are wanted
	stop   sync.Once
	closed chan struct{}

	current piece      // of the reader
	ready   []byte     // what is left of it
	pieces  chan piece // of the goroutine; nil until there is one
	behind  bool       // the reader is: there is a goroutine, to which the following belongs

	in    input
	large int // bytes left of a frame that passes through
}

// piece replaces a frame, or a part of a large one; err follows it.
type piece struct {
	bytes []byte
	err   error
	last  bool // of the goroutine
}

func newBody(of io.ReadCloser, s *Specs, keep Keep) *body {
	return &body{below: of, specs: s, keep: keep, closed: make(chan struct{}), in: input{below: of}}
}

// Read implements [io.Reader].
func (b *body) Read(p []byte) (n int, err error) {
	for len(b.ready) == 0 {
		if b.current.err != nil {
			return 0, b.current.err
		}
		release(b.current.bytes)
		b.current, b.ready = piece{}, nil // while it waits, it holds nothing
		b.current = b.receive()
		b.ready = b.current.bytes
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

// receive returns the next piece.
func (b *body) receive() piece {
	if b.behind {
		p, ok := <-b.pieces
		if !ok {
			p.err = http.ErrBodyReadAfterClose
		}
		b.behind = !p.last
		return p
	}
	p := b.decode()
	if b.behind = b.specs != nil && p.err == nil && b.in.more(); b.behind { // without specs there is little to do
		if b.pieces == nil {
			b.pieces = make(chan piece, ahead)
		}
		go b.decodeAhead()
	}
	return p
}

// decodeAhead sends pieces while more is there, until the body is closed.
func (b *body) decodeAhead() {
	for last := false; !last; {
		p := b.decode()
		last = p.err != nil || !b.in.more()
		p.last = last
		select {
		case b.pieces <- p:
		case <-b.closed:
			close(b.pieces)
			return
		}
	}
}

// decode returns the next piece, which it waits for.
func (b *body) decode() piece {
	for {
		p := piece{bytes: b.next()}
		if p.err = b.in.ended(); p.err != nil || len(p.bytes) > 0 { // it is not left out
			return p
		}
	}
}

// next reads a frame, or a part of a large one, and returns what replaces it: nothing
// if its object is not wanted.
func (b *body) next() []byte {
	if b.large > 0 {
		b.in.fetch(1)
		part := b.in.take(min(b.large, maxPiece))
		b.large -= len(part)
		return append(buffer(len(part))[:0], part...)
	}
	const head = 4
	size := head
	if b.in.fetch(head) {
		if size += int(binary.BigEndian.Uint32(b.in.unused())); size > head+maxFrame {
			b.large, size = size-head, head
		} else if b.in.fetch(size) {
			return b.replace(b.in.take(size), head)
		}
	}
	part := b.in.take(size)
	return append(buffer(len(part))[:0], part...)
}

// replace returns what replaces a frame, whose event follows its head.
func (b *body) replace(frame []byte, head int) []byte {
	if b.keep != nil && !b.keep.wants(frame[head:]) {
		return nil
	}
	to := buffer(len(frame) + maxMark)[:0]
	if replaced, ok := b.specs.replace(to, frame[head:]); ok {
		return replaced
	}
	return append(to, frame...)
}

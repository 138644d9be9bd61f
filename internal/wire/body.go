package wire

import (
	"encoding/binary"
	"io"
	"net/http"
	"sync"
)

const (
	// maxFrame is the size of the largest event that is parsed. It is more than
	// twice the size of the largest object that a server stores by default,
	// which is 1.5 MiB. Larger events pass through in pieces without being
	// parsed, and the client's own limit decides about them.
	maxFrame = 4 << 20
	// maxPiece is the size of the largest piece of an event larger than
	// maxFrame.
	maxPiece = 32 << 10
	// decodeAheadLimit is how many events are decoded before the client
	// asks for them. Without a reserve, decoding and storing would wait for
	// each other at every event.
	decodeAheadLimit = 16
	// maxMark is an upper bound of the length that a mark adds to an event.
	maxMark = 64
)

// body is the body of a watch in protobuf, with placeholders for objects. It
// ends like source does: with the same error, after the same bytes of an
// incomplete frame.
//
// The reader itself decodes an event that arrives alone. While more events are
// buffered, a goroutine decodes ahead of the reader, unless all specs are
// decoded. The goroutine ends when these events are decoded, or at Close.
type body struct {
	source io.ReadCloser
	specs  func() *Specs // returns nil while all specs are decoded
	keep   Keep          // nil if all objects are wanted
	stop   sync.Once
	closed chan struct{}

	current piece  // the piece that the reader has reached
	ready   []byte // the rest of current
	// pieces carries the pieces from the goroutine to the reader. It is nil
	// before the first goroutine is started.
	pieces   chan piece
	decoding bool // a goroutine is decoding, and owns the fields below

	input input
	large int // number of bytes left of a frame that passes through
}

// piece replaces a frame, or a part of a large one. The reader returns err
// after bytes.
type piece struct {
	bytes []byte
	err   error
	final bool // whether this is the last piece of the goroutine
}

func newBody(source io.ReadCloser, s *Specs, keep Keep) *body {
	return newBodyOf(source, func() *Specs { return s }, keep)
}

// newOfferedBody returns a body that delivers whole objects until o is
// accepted, and placeholders after that.
func newOfferedBody(source io.ReadCloser, o *Offer) *body { return newBodyOf(source, o.current, nil) }

func newBodyOf(source io.ReadCloser, specs func() *Specs, keep Keep) *body {
	return &body{source: source, specs: specs, keep: keep, closed: make(chan struct{}), input: input{source: source}}
}

// Read implements [io.Reader].
func (b *body) Read(p []byte) (n int, err error) {
	for len(b.ready) == 0 {
		if b.current.err != nil {
			return 0, b.current.err
		}
		release(b.current.bytes)
		b.current, b.ready = piece{}, nil // a waiting body holds no buffer
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
	return b.source.Close()
}

// receive returns the next piece. It starts the goroutine if more input is
// buffered, unless all specs are decoded.
func (b *body) receive() piece {
	if b.decoding {
		p, ok := <-b.pieces
		if !ok {
			p.err = http.ErrBodyReadAfterClose
		}
		b.decoding = !p.final
		return p
	}
	p := b.decode()
	// Without specs there is little work.
	if b.decoding = b.specs() != nil && p.err == nil && b.input.hasMore(); b.decoding {
		if b.pieces == nil {
			b.pieces = make(chan piece, decodeAheadLimit)
		}
		go b.decodeAhead()
	}
	return p
}

// decodeAhead sends pieces while more input is buffered, until the body is
// closed.
func (b *body) decodeAhead() {
	for final := false; !final; {
		p := b.decode()
		final = p.err != nil || !b.input.hasMore()
		p.final = final
		select {
		case b.pieces <- p:
		case <-b.closed:
			close(b.pieces)
			return
		}
	}
}

// decode reads until it has a piece for the reader, and returns it. It skips
// events whose objects are not wanted.
func (b *body) decode() piece {
	for {
		p := piece{bytes: b.readFrame()}
		if p.err = b.input.pendingErr(); p.err != nil || len(p.bytes) > 0 { // the object is wanted
			return p
		}
	}
}

// readFrame reads a frame, or a part of a large one, and returns its
// replacement. It returns no bytes if the object of the frame is not wanted.
func (b *body) readFrame() []byte {
	if b.large > 0 {
		b.input.fetch(1)
		part := b.input.take(min(b.large, maxPiece))
		b.large -= len(part)
		return append(buffer(len(part))[:0], part...)
	}
	const head = 4
	size := head
	if b.input.fetch(head) {
		if size += int(binary.BigEndian.Uint32(b.input.unused())); size > head+maxFrame {
			b.large, size = size-head, head
		} else if b.input.fetch(size) {
			return b.replace(b.input.take(size), head)
		}
	}
	part := b.input.take(size)
	return append(buffer(len(part))[:0], part...)
}

// replace returns the replacement for a frame, whose event follows its head. It
// returns nil if the object is not wanted, and a copy of the frame if the event
// must remain unchanged.
func (b *body) replace(frame []byte, head int) []byte {
	if b.keep != nil && !b.keep.wants(frame[head:]) {
		return nil
	}
	dst := buffer(len(frame) + maxMark)[:0]
	if replaced, ok := b.specs().replace(dst, frame[head:]); ok {
		return replaced
	}
	return append(dst, frame...)
}

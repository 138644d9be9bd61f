package wire

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"sync"
)

// A Fingerprint stands for the bytes of a spec: 128 bits of SHA-256 with a key of
// this process before them. That of no spec is zero.
type Fingerprint [2]uint64

// secret fills a block of SHA-256.
var secret = func() []byte {
	b := make([]byte, sha256.BlockSize)
	_, _ = rand.Read(b) // never fails
	return b
}()

var hashes = sync.Pool{New: func() any { return sha256.New() }}

func fingerprint(spec []byte) (f Fingerprint) {
	h := hashes.Get().(hash.Hash)
	defer hashes.Put(h)
	h.Reset()
	_, _ = h.Write(secret)
	_, _ = h.Write(spec)
	var space [sha256.Size]byte
	sum := h.Sum(space[:0])
	f = Fingerprint{binary.LittleEndian.Uint64(sum), binary.LittleEndian.Uint64(sum[8:])}
	if f == (Fingerprint{}) {
		f[0] = 1
	}
	return f
}

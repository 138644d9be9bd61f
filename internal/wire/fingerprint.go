package wire

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
)

// Fingerprint stands for the bytes of a spec: 128 bits of GMAC with a random key of
// this process, which never leaves it. That of no spec is zero.
type Fingerprint [2]uint64

// authenticator makes fingerprints. It is nil, and refused says why, where the
// program allows only what FIPS 140 does: there, each nonce must be different.
var authenticator, refused = newAuthenticator()

// nonce is the same for all specs, so that equal specs have equal fingerprints. Two of
// them would reveal the key to a reader, but they never leave the process.
var nonce [12]byte

func newAuthenticator() (cipher.AEAD, error) {
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// fingerprint uses the spare capacity of scratch, if it has any.
func fingerprint(scratch, spec []byte) (f Fingerprint) {
	sum := authenticator.Seal(scratch[len(scratch):], nonce[:], nil, spec)
	f = Fingerprint{binary.LittleEndian.Uint64(sum), binary.LittleEndian.Uint64(sum[8:])}
	if f == (Fingerprint{}) {
		f[0] = 1
	}
	return f
}

package wire

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// State is a cached object and the fingerprint of its spec.
type State struct {
	Object Object
	Spec   Fingerprint
}

// Spec is the origin of an object's spec.
type Spec struct {
	Fingerprint Fingerprint // the fingerprint of the spec; zero if it is unknown
	SharedWith  Object      // the cached object whose spec it shares; nil if it was decoded
}

// Specs decodes the objects of one watch, except for specs that the cache has.
// It is safe for concurrent use.
type Specs struct {
	kind   Kind
	known  func(types.NamespacedName) State
	prefix string // the prefix of marks, which is different for each watch

	mu      sync.Mutex // guards the fields below
	count   uint64
	decoded map[string]decoded // the decoded objects by their marks, until they are taken
	reason  string
}

type decoded struct {
	object Object // nil if the client decodes the object itself
	spec   Spec
}

// NewSpecs returns the Specs for a watch of objects of kind k. known returns
// the cached object of a key, or the zero State if the cache does not have it.
func NewSpecs(k Kind, known func(types.NamespacedName) State) *Specs {
	return &Specs{kind: k, known: known, prefix: "decoded:" + rand.Text() + "/", decoded: map[string]decoded{}}
}

// errNotDecoded should never be returned, because an object is recorded before
// its mark is sent.
var errNotDecoded = errors.New("the watch sent a placeholder for an unknown object")

// Take returns the object that a placeholder stands for and the origin of its
// spec. It does so once for each placeholder. If o was decoded by the client
// and has only a mark, Take removes the mark. It returns any other object
// unchanged with the zero Spec.
func (s *Specs) Take(o Object) (Object, Spec, error) {
	if s == nil {
		return o, Spec{}, nil
	}
	mark := o.GetSelfLink()
	if !strings.HasPrefix(mark, s.prefix) {
		return o, Spec{}, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d, ok := s.decoded[mark]
	if !ok {
		return nil, Spec{}, errNotDecoded
	}
	delete(s.decoded, mark)
	if d.object == nil {
		metadata, ok := o.GetObjectMeta().(*metav1.ObjectMeta)
		if !ok {
			return nil, Spec{}, fmt.Errorf("the watch sent a %T that does not embed its metadata", o)
		}
		// A call of SetSelfLink would link the method of every kind.
		metadata.SelfLink = "" //nolint:staticcheck // servers no longer use the field, so that it holds the mark
		return o, d.spec, nil
	}
	return d.object, d.spec, nil
}

// CopySpec replaces the spec of dst with a shallow copy of the spec of src. The
// two specs must be equal.
func (s *Specs) CopySpec(dst, src Object) { s.kind.copySpec(dst, src) }

// Reason returns the reason why all specs are decoded, such as "the server
// sends application/json". It returns "" if no such reason is known. Specs that
// the cache has are then not decoded, once the watch has been opened and its
// Offer, if it has one, has been accepted.
func (s *Specs) Reason() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reason
}

func (s *Specs) setReason(reason string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reason = reason
}

// replace decodes the object of an event, and appends the event with a
// placeholder instead of the object. If the cache does not have the object,
// replace appends the event with the object, and marks the object instead of
// decoding it. ok is false if the event must remain unchanged.
func (s *Specs) replace(dst, event []byte) (replaced []byte, ok bool) {
	if s == nil {
		return nil, false
	}
	f, ok := parse(event, s.kind)
	if !ok {
		return nil, false
	}
	spec := Spec{Fingerprint: fingerprint(dst, f.spec.content)}
	state := s.known(f.key)
	if state.Object == nil {
		return f.appendMarked(dst, s.remember(decoded{spec: spec})), true
	}
	if state.Spec == spec.Fingerprint && state.Object.GetUID() == f.uid {
		spec.SharedWith = state.Object
	}
	object, err := f.decode(s.kind, state.Object, spec.SharedWith != nil)
	if err != nil { // the client reports it
		return nil, false
	}
	return f.appendPlaceholder(dst, s.remember(decoded{object, spec})), true
}

// remember records an object and returns its mark.
func (s *Specs) remember(d decoded) (mark string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count++
	mark = s.prefix + strconv.FormatUint(s.count, 36)
	s.decoded[mark] = d
	return mark
}

// Fingerprint represents the bytes of a spec by 128 bits of GMAC. Its key is
// random and never leaves this process. The zero Fingerprint represents no
// spec.
type Fingerprint [2]uint64

// authenticator makes fingerprints. It is nil if the program is limited to FIPS
// 140, where each nonce must be different. Then authenticatorErr is the reason.
var authenticator, authenticatorErr = newAuthenticator()

// nonce is the same for all specs, because equal specs must have equal
// fingerprints. Two fingerprints with one nonce would reveal the key to a
// reader, but they never leave the process.
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

// fingerprint returns the fingerprint of a spec. It uses the spare capacity of
// scratch, if any.
func fingerprint(scratch, spec []byte) (f Fingerprint) {
	sum := authenticator.Seal(scratch[len(scratch):], nonce[:], nil, spec)
	f = Fingerprint{binary.LittleEndian.Uint64(sum), binary.LittleEndian.Uint64(sum[8:])}
	if f == (Fingerprint{}) {
		f[0] = 1
	}
	return f
}

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
	Fingerprint Fingerprint // zero if it is unknown
	Of          Object      // the cached object with which it shares memory; nil if it was decoded
}

// Specs decodes the objects of one watch, except for specs that the cache has. It is
// safe for concurrent use.
type Specs struct {
	kind   Kind
	known  func(types.NamespacedName) State
	prefix string // of marks; different for each watch

	mu      sync.Mutex // guards the fields below
	last    uint64
	decoded map[string]decoded // by the mark; until they are taken
	why     string
}

type decoded struct {
	object Object // nil if the client decodes it
	spec   Spec
}

// NewSpecs returns the Specs of a watch of objects of kind k. known returns the cached
// object of a key: the zero State if there is none.
func NewSpecs(k Kind, known func(types.NamespacedName) State) *Specs {
	return &Specs{kind: k, known: known, prefix: "decoded:" + rand.Text() + "/", decoded: map[string]decoded{}}
}

// errNotDecoded cannot happen: an object is noted before its mark is sent.
var errNotDecoded = errors.New("a placeholder came whose object is not known")

// Take returns the object that a placeholder stands for, once, and the origin of its
// spec. It removes the mark of an object that has one. Any other object is returned as
// it is, with the zero Spec.
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
			return nil, Spec{}, fmt.Errorf("a %T came that does not embed its metadata", o)
		}
		// Not by SetSelfLink: then that of every kind would be linked.
		metadata.SelfLink = "" //nolint:staticcheck // it has the mark because servers no longer use it
		return o, d.spec, nil
	}
	return d.object, d.spec, nil
}

// CopySpec replaces the spec of to by the equal one of from: a shallow copy.
func (s *Specs) CopySpec(to, from Object) { s.kind.copySpec(to, from) }

// Why says why all specs are decoded, such as "the server sends application/json". It
// is empty if known specs are not decoded.
func (s *Specs) Why() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.why
}

func (s *Specs) because(why string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.why = why
}

// replace decodes the object of an event and appends the event with a placeholder. An
// object that the cache does not have is not decoded, but marked. It reports false if the
// event must stay as it is.
func (s *Specs) replace(to, event []byte) (replaced []byte, ok bool) {
	if s == nil {
		return nil, false
	}
	f, ok := parse(event, s.kind)
	if !ok {
		return nil, false
	}
	spec := Spec{Fingerprint: fingerprint(to, f.spec.content)}
	state := s.known(f.key)
	if state.Object == nil {
		return f.appendMarked(to, s.note(decoded{spec: spec})), true
	}
	if state.Spec == spec.Fingerprint && state.Object.GetUID() == f.uid {
		spec.Of = state.Object
	}
	object, err := f.decode(s.kind, state.Object, spec.Of != nil)
	if err != nil { // the client reports it
		return nil, false
	}
	return f.appendPlaceholder(to, s.note(decoded{object, spec})), true
}

// note remembers an object and returns its mark.
func (s *Specs) note(d decoded) (mark string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	mark = s.prefix + strconv.FormatUint(s.last, 36)
	s.decoded[mark] = d
	return mark
}

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

package wire

import (
	"crypto/rand"
	"errors"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// A State is what a cache has of an object, and the fingerprint of its spec.
type State struct {
	Object Object
	Spec   Fingerprint
}

// A Spec is that of an object which a watch has brought.
type Spec struct {
	Fingerprint Fingerprint // zero if it is not known
	Of          Object      // the state whose spec it is, if the object came without; else nil
}

// Specs are those of the objects of one watch: which of them were left out, and
// what their fingerprints are. It is safe for concurrent use.
type Specs struct {
	kind   Kind
	known  func(types.NamespacedName) State
	prefix string // of marks: no server and no other watch has it

	mu    sync.Mutex // guards what follows
	last  uint64
	noted map[uint64]Spec // by the number in the mark, until it is taken
	why   string
}

// NewSpecs returns the Specs of a watch whose objects are of kind k. known returns
// what the cache has under a key: the zero State if nothing.
func NewSpecs(k Kind, known func(types.NamespacedName) State) *Specs {
	return &Specs{kind: k, known: known, prefix: "left-out:" + rand.Text() + "/", noted: map[uint64]Spec{}}
}

// errNotNoted cannot happen: every mark is noted before it is sent, and taken once.
var errNotNoted = errors.New("the object came without its spec, and what that is has not been noted")

// Take returns the spec of an object that the watch has brought and takes off its
// mark. An object without a mark, or of another watch, is whole: the zero Spec.
func (s *Specs) Take(o Object) (Spec, error) {
	if s == nil {
		return Spec{}, nil
	}
	text, marked := strings.CutPrefix(o.GetSelfLink(), s.prefix)
	if !marked {
		return Spec{}, nil
	}
	o.SetSelfLink("")
	number, err := strconv.ParseUint(text, 36, 64)
	if err != nil {
		return Spec{}, errNotNoted
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	spec, ok := s.noted[number]
	if !ok {
		return Spec{}, errNotNoted
	}
	delete(s.noted, number)
	return spec, nil
}

// CopySpec makes the spec of from that of to: a shallow copy.
func (s *Specs) CopySpec(to, from Object) { s.kind.copySpec(to, from) }

// Why says why no spec is left out, such as "the server sends application/json".
// It is empty if specs are.
func (s *Specs) Why() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.why
}

func (s *Specs) because(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.why = why
}

// mark appends an event with a mark on its object, and without its spec if the
// cache has that: false if it has to stay as it is.
func (s *Specs) mark(to, event []byte) (marked []byte, ok bool) {
	f, ok := parse(event, s.kind)
	if !ok {
		return nil, false
	}
	spec := Spec{Fingerprint: fingerprint(f.spec.content)}
	state := s.known(f.key)
	if state.Object != nil && state.Spec == spec.Fingerprint && state.Object.GetUID() == f.uid {
		spec.Of = state.Object
	}
	return f.appendMarked(to, s.prefix+strconv.FormatUint(s.note(spec), 36), spec.Of != nil), true
}

// note remembers a spec and returns its number.
func (s *Specs) note(spec Spec) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	s.noted[s.last] = spec
	return s.last
}

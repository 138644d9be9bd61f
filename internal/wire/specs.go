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

// A Spec is where that of an object comes from.
type Spec struct {
	Fingerprint Fingerprint // zero if it is not known
	Of          Object      // the state of the cache whose very memory it is; nil if it was decoded
}

// Specs are those of the objects of one watch, which it decodes, but for specs
// that the cache has. It is safe for concurrent use.
type Specs struct {
	kind   Kind
	known  func(types.NamespacedName) State
	prefix string // of marks: no server and no other watch has it

	mu      sync.Mutex // guards what follows
	last    uint64
	decoded map[uint64]decoded // by the number in the mark, until it is taken
	why     string
}

type decoded struct {
	object Object
	spec   Spec
}

// NewSpecs returns the Specs of a watch whose objects are of kind k. known returns
// what the cache has under a key: the zero State if nothing.
func NewSpecs(k Kind, known func(types.NamespacedName) State) *Specs {
	return &Specs{kind: k, known: known, prefix: "decoded:" + rand.Text() + "/", decoded: map[uint64]decoded{}}
}

// errNotDecoded cannot happen: what a mark stands for is noted before it is sent.
var errNotDecoded = errors.New("a placeholder came whose object is not known")

// Take returns the object that a placeholder stands for, once, and where its spec
// comes from. Any other object is returned as it is, with the zero Spec.
func (s *Specs) Take(o Object) (Object, Spec, error) {
	if s == nil {
		return o, Spec{}, nil
	}
	text, marked := strings.CutPrefix(o.GetSelfLink(), s.prefix)
	if !marked {
		return o, Spec{}, nil
	}
	number, err := strconv.ParseUint(text, 36, 64)
	if err != nil {
		return nil, Spec{}, errNotDecoded
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d, ok := s.decoded[number]
	if !ok {
		return nil, Spec{}, errNotDecoded
	}
	delete(s.decoded, number)
	return d.object, d.spec, nil
}

// CopySpec makes the spec of from that of to, which has the same one: a shallow copy.
func (s *Specs) CopySpec(to, from Object) { s.kind.copySpec(to, from) }

// Why says why all specs are decoded, such as "the server sends application/json".
// It is empty if known ones are not.
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

// replace appends an event with a placeholder for its object, which it decodes:
// false if the event has to stay as it is.
func (s *Specs) replace(to, event []byte) (replaced []byte, ok bool) {
	f, ok := parse(event, s.kind)
	if !ok {
		return nil, false
	}
	spec := Spec{Fingerprint: fingerprint(to, f.spec.content)}
	state := s.known(f.key)
	if state.Object != nil && state.Spec == spec.Fingerprint && state.Object.GetUID() == f.uid {
		spec.Of = state.Object
	}
	object, err := f.decode(s.kind, state.Object, spec.Of != nil)
	if err != nil { // the client says so
		return nil, false
	}
	return f.appendPlaceholder(to, s.prefix+strconv.FormatUint(s.note(decoded{object, spec}), 36)), true
}

// note remembers an object and returns its number.
func (s *Specs) note(d decoded) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	s.decoded[s.last] = d
	return s.last
}

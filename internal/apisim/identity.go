package apisim

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
)

// identities makes UIDs and names.
type identities struct {
	seed   uint64
	counts map[string]uint64 // of the objects of each name, and the names of each prefix
}

// newUID returns the UID of the next object of a count: the first of that resource and name, the second, and so
// on. It depends on nothing else, so names made from a UID do not change with other writes.
func (s *identities) newUID(count string) string {
	r := s.drawn(count)
	return fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", r.Uint32(), r.Uint32()&0xffff, r.Uint32()&0xfff,
		r.Uint32()&0xfff, r.Uint64()&0xffff_ffff_ffff)
}

const suffixLetters = "bcdfghjklmnpqrstvwxz2456789"

// newSuffix ends the next name that is made from that prefix. That depends on nothing else, either.
func (s *identities) newSuffix(t *table, namespace, prefix string) string {
	count := "name " + t.name + " " + namespace + "/" + prefix
	r := s.drawn(count)
	s.counts[count]++
	b := make([]byte, 5)
	for i := range b {
		b[i] = suffixLetters[r.IntN(len(suffixLetters))]
	}
	return string(b)
}

// drawn is the source of chance for the next one of a count.
func (s *identities) drawn(count string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(count))
	return rand.New(rand.NewPCG(h.Sum64()+s.seed, s.counts[count]))
}

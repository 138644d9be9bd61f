package apisim

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
)

// identities generates UIDs and names.
type identities struct {
	seed   uint64
	counts map[string]uint64 // the number of UIDs or suffixes that were made, by the count of newUID or newSuffix
}

// newUID returns the UID of the next object. count names the resource, the
// namespace and the name of the object, such as "uid pods default/web". The UID
// depends only on the seed, on count, and on the number of earlier objects with
// the same count. So names that are derived from a UID do not depend on other
// writes.
func (s *identities) newUID(count string) string {
	r := s.source(count)
	return fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", r.Uint32(), r.Uint32()&0xffff, r.Uint32()&0xfff,
		r.Uint32()&0xfff, r.Uint64()&0xffff_ffff_ffff)
}

const suffixLetters = "bcdfghjklmnpqrstvwxz2456789"

// newSuffix returns the suffix of the next name that is made from a prefix. It
// depends only on the seed, on the resource, the namespace and the prefix, and
// on the number of earlier names with the same three.
func (s *identities) newSuffix(t *table, namespace, prefix string) string {
	count := "name " + t.name + " " + namespace + "/" + prefix
	r := s.source(count)
	s.counts[count]++
	b := make([]byte, 5)
	for i := range b {
		b[i] = suffixLetters[r.IntN(len(suffixLetters))]
	}
	return string(b)
}

// source returns the random source for the next UID or suffix that is counted
// by count.
func (s *identities) source(count string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(count))
	return rand.New(rand.NewPCG(h.Sum64()+s.seed, s.counts[count]))
}

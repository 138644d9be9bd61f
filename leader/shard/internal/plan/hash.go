// Package plan has what replicas decide about slots, as pure functions: the slot of a key, the intended owner of each
// slot, and ranges of namespaces. All replicas get the same results from the same records.
package plan

import (
	"strconv"
	"strings"

	"github.com/homeostat/homeostat/internal/keyspace"
)

// Unowned is the owner of a slot that may be taken.
const Unowned = ""

// HashName is recorded: replicas must have the same hash.
const HashName = "fnv1a-64+fmix64"

// IdentityOf returns the identity in the name of a holder.
func IdentityOf(holder string) string {
	if i := strings.LastIndexByte(holder, '_'); i >= 0 {
		return holder[:i]
	}
	return holder
}

// SlotOf returns the slot of a text, which is a part of a key. All replicas must agree on it.
func SlotOf(text string, slots int) int { return int(mix(keyspace.Of(text)) % uint64(slots)) }

// preference returns the rendezvous score of a member for a slot.
func preference(identity string, slot int) uint64 {
	return mix(keyspace.Of(identity + "/" + strconv.Itoa(slot)))
}

// mix is the finalizer of MurmurHash3. The replicas agree on it. Without it, similar
// names have similar hashes.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// Package plan holds the decisions of replicas about slots as pure functions:
// the slot of a key, the intended owner of each slot, and ranges of namespaces.
// All replicas get the same results from the same records.
package plan

import (
	"strconv"
	"strings"

	"github.com/homeostat/homeostat/internal/keyspace"
)

// Unowned is the owner of a slot on which no member may work.
const Unowned = ""

// HashName is the recorded name of the hash function. Replicas share slots only
// if they use the same hash function.
const HashName = "fnv1a-64+fmix64"

// IdentityOf returns the identity that is part of a holder's name.
func IdentityOf(holder string) string {
	if i := strings.LastIndexByte(holder, '_'); i >= 0 {
		return holder[:i]
	}
	return holder
}

// SlotOf returns the slot of a text, from 0 to slots - 1. The text is a key or
// a part of a key. All replicas must get the same result.
func SlotOf(text string, slots int) int { return int(mix(keyspace.Of(text)) % uint64(slots)) }

// preference returns the rendezvous score of a member for a slot.
func preference(identity string, slot int) uint64 {
	return mix(keyspace.Of(identity + "/" + strconv.Itoa(slot)))
}

// mix is the finalizer of MurmurHash3. Without it, similar names would have
// similar hashes. All replicas must get the same result.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

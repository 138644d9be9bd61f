package shard

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"k8s.io/utils/ptr"

	"github.com/homeostat/homeostat/internal/option"
	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/leader/shard/internal/fleet"
	"github.com/homeostat/homeostat/leader/shard/internal/plan"
)

const (
	defaultSlots = 64
	maxSlots     = 1024 // bounds the number of records in the API server
)

// KeyPart is the part of a key that determines its slot.
type KeyPart uint8

const (
	// ByNamespace keeps the objects of a namespace together.
	ByNamespace KeyPart = iota
	// ByKey divides by namespace and name. Pass [Shards.Slot] the key of the
	// root owner, to keep an object and the objects it owns together.
	ByKey
)

// String returns the name used in the API server's records.
func (p KeyPart) String() string {
	switch p {
	case ByNamespace:
		return "namespace"
	case ByKey:
		return "namespace/name"
	default:
		return fmt.Sprintf("KeyPart(%d)", uint8(p))
	}
}

// Options configures [Shards]. Nil and zero fields mean the defaults. Slots and
// By must be the same in all replicas; otherwise Run ends with [ErrConfig].
type Options struct {
	// Slots is the number of slots that the keys are divided into, from 1 to
	// 1024. Defaults to 64.
	Slots int
	// By is the part of a key that determines its slot. Defaults to
	// [ByNamespace].
	By KeyPart
	// Settle is how long the set of members must be unchanged before slots move
	// from one live member to another. For example, a replica that joins for
	// less than Settle gets no slots of other members. Defaults to a third of
	// the lease duration.
	Settle time.Duration
	// Member contains the durations of a replica's membership, such as the
	// lease duration. Each replica holds a Lease of its own for its membership,
	// and renews it as a leader renews its Lease.
	Member leader.Options
}

func (o *Options) withDefaults() Options {
	set := ptr.Deref(o, Options{})
	set.Slots = cmp.Or(set.Slots, defaultSlots)
	return set
}

func (o Options) validate() error {
	check := option.Of("shard.Options")
	check.That(o.Slots >= 1 && o.Slots <= maxSlots, "Slots", o.Slots, "must be from 1 to %d", maxSlots)
	check.That(o.By <= ByKey, "By", o.By, "must be ByNamespace or ByKey")
	check.That(o.Settle >= 0, "Settle", o.Settle, option.Negative)
	return check.Err()
}

// settings returns the annotations of the configuration's record, on which all
// replicas must agree.
func (o Options) settings() map[string]string {
	return map[string]string{
		fleet.SlotsAnnotation: strconv.Itoa(o.Slots), fleet.HashAnnotation: plan.HashName, fleet.ByAnnotation: o.By.String(),
	}
}

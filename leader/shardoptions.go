package leader

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// DefaultSlots is what a zero [ShardOptions.Slots] means.
const DefaultSlots = 64

// maxSlots bounds the number of records in the API server.
const maxSlots = 1024

// By says which part of a key decides on its slot.
type By uint8

const (
	// ByNamespace keeps the objects of a namespace together.
	ByNamespace By = iota
	// ByKey divides by namespace and name. Give [Shards.Slot] the key of the
	// root owner, so that an object and what it owns stay together.
	ByKey
)

// String is what is written down in the API server.
func (b By) String() string {
	switch b {
	case ByNamespace:
		return "namespace"
	case ByKey:
		return "namespace/name"
	default:
		return fmt.Sprintf("By(%d)", uint8(b))
	}
}

// ShardOptions of [Shards]. Nil and zero fields mean the defaults. Slots and By
// must be the same in all replicas.
type ShardOptions struct {
	// Slots is how many parts the keys are divided into; [DefaultSlots].
	Slots int
	// By is the part of a key that decides; [ByNamespace].
	By By
	// Settle is how long the members must have been the same before slots move
	// from one living member to another; a third of the lease duration.
	Settle time.Duration
	// Member are the durations of the membership; see [Options].
	Member Options
}

func (o *ShardOptions) withDefaults() ShardOptions {
	var set ShardOptions
	if o != nil {
		set = *o
	}
	set.Slots = cmp.Or(set.Slots, DefaultSlots)
	set.Member = set.Member.withDefaults()
	set.Settle = cmp.Or(set.Settle, set.Member.LeaseDuration/3)
	return set
}

// patience is how long a free slot is left to the member whose turn it is to
// take it: until it has looked again, and one request more.
func (o ShardOptions) patience() time.Duration { return o.Member.RetryPeriod + o.Member.RequestTimeout }

func (o ShardOptions) validate() error {
	faults := []error{o.Member.validate()}
	if o.Slots < 1 || o.Slots > maxSlots {
		faults = append(faults, fmt.Errorf("%s is %d: must be from 1 to %d", "ShardOptions.Slots", o.Slots, maxSlots))
	}
	if o.By > ByKey {
		faults = append(faults, fmt.Errorf("%s is %v: must be ByNamespace or ByKey", "ShardOptions.By", o.By))
	}
	if o.Settle < 0 {
		faults = append(faults, fmt.Errorf("%s is %v: must not be negative", "ShardOptions.Settle", o.Settle))
	}
	return errors.Join(faults...)
}

// validateNames checks what the names of the records are made of.
func (l Lease) validateNames() error {
	var faults []error
	for _, fault := range validation.IsValidLabelValue(l.Name) {
		faults = append(faults, fmt.Errorf("%s is %q: %s", "Lease.Name", l.Name, fault))
	}
	for _, fault := range validation.IsDNS1123Subdomain(l.memberName(l.Identity)) {
		faults = append(faults, fmt.Errorf("%s is %q: as part of the name %q it is not valid: %s",
			"Lease.Identity", l.Identity, l.memberName(l.Identity), fault))
	}
	return errors.Join(faults...)
}

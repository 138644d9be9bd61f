package intern

import "sync/atomic"

// chances records for each field with parts whether looking up its part is
// worth the time. Many parts are in one object only, for example the random
// bytes of a Secret or the times of a condition.
type chances [64]atomic.Pointer[chunk]

// chunk contains the chances of 256 fields. It is created when one of them is
// first used.
type chunk [256]chance

// chance returns the chance of the field with this number. Two fields may share
// a chance if their numbers are far apart.
func (c *chances) chance(number uint32) *chance {
	place := &c[number/uint32(len(chunk{}))%uint32(len(c))]
	known := place.Load()
	if known == nil {
		place.CompareAndSwap(nil, &chunk{})
		known = place.Load()
	}
	return &known[number%uint32(len(known))]
}

// chance counts how often in a row a part of one field was not found in another
// object. The highest bit is set when a part is found for the first time.
type chance struct{ misses atomic.Uint32 }

const (
	// hopeless is the number of misses in a row after which a part is
	// looked up in only one of 16 objects; see the constant sparse.
	hopeless = 128
	sparse   = 16

	everFound = 1 << 31
)

// isGood reports whether to look up the part in this object.
func (c *chance) isGood(object uint32) bool {
	return c.misses.Load()&^everFound < hopeless || object%sparse == 0
}

// isNone reports whether the part was looked up in many objects, and was never
// found in a different object.
func (c *chance) isNone() bool {
	n := c.misses.Load()
	return n >= hopeless && n < everFound
}

// found records that the part is in another object, too.
func (c *chance) found() {
	if c.misses.Load() != everFound {
		c.misses.Store(everFound)
	}
}

// missed records that the part was looked up, and is in no other object.
func (c *chance) missed() {
	if c.misses.Load()&^everFound < hopeless {
		c.misses.Add(1)
	}
}

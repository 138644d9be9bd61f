package reconcile

import (
	"maps"
	"slices"
	"time"
)

// passing keeps keys for a while: two generations, of which the older one is
// dropped when the younger has lasted for the time, or is full.
type passing struct {
	young, old map[Key]bool
	since      time.Time // of young
}

// add keeps a key for the time, and for up to twice as long.
func (p *passing) add(key Key, now time.Time, keep time.Duration) {
	if p.young == nil || now.Sub(p.since) >= keep || len(p.young) >= passingKeys {
		if now.Sub(p.since) >= 2*keep {
			p.young = nil
		}
		p.young, p.old, p.since = map[Key]bool{}, p.young, now
	}
	p.young[key] = true
}

// keys returns the keys that are kept, each once.
func (p *passing) keys() []Key {
	all := maps.Clone(p.young)
	if all == nil {
		return nil
	}
	maps.Copy(all, p.old)
	return slices.Collect(maps.Keys(all))
}

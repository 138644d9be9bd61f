package plan

import (
	"slices"

	"github.com/homeostat/homeostat/internal/apisim"
)

// These list faults from the weakest to the strongest.
var (
	callStrength = []apisim.Fault{
		apisim.Conflict, apisim.Internal, apisim.Throttled, apisim.Unreachable, apisim.Expired, apisim.LostReply,
		apisim.Late, apisim.CrashBefore, apisim.CrashAfter,
	}
	// misleading begins with a failure that does not mislead. The 404s
	// follow, and the last one is most like the answer of a server that
	// does not have the object. A fault of another kind is never replaced
	// by a 404, because taking a 404 for a deletion is a different bug of
	// the program.
	misleading = []apisim.Fault{
		apisim.Internal, apisim.ProxyNotFound, apisim.NotServed, apisim.OtherNotFound,
	}
	deliveryStrength = []apisim.Fault{apisim.Duplicated, Hold, apisim.Dropped, apisim.Expired}
)

// These list the values of N for an Outage, and of Index for Skewed, from the
// weakest to the strongest.
var (
	outageStrength = []int{SlowWrites, Busy, HalfHour, Unknown}
	skewStrength   = []int{Ahead, Behind, FarAhead, LoneAhead, LoneBehind}
)

// weaker maps each kind to a function that returns the weaker deviations that
// [Deviation.Weaker] describes. For the kinds that map to onlyItself, no other
// deviation disturbs the same place less.
var weaker = map[byte]func(d Deviation) []Deviation{
	AtCall: func(d Deviation) []Deviation {
		if slices.Contains(misleading[1:], d.Fault) {
			return d.withFaults(preceding(misleading, d.Fault))
		}
		return d.withFaults(preceding(callStrength, d.Fault))
	},
	AtDelivery: func(d Deviation) []Deviation { return d.withFaults(preceding(deliveryStrength, d.Fault)) },
	Outage: func(d Deviation) []Deviation {
		short := []Deviation{{Kind: Refused, Index: d.Index}}
		for _, n := range preceding(outageStrength, d.N) {
			short = append(short, Deviation{Kind: Outage, Index: d.Index, N: n})
		}
		return short
	},
	Skewed: func(d Deviation) (smaller []Deviation) {
		for _, way := range preceding(skewStrength, d.Index) {
			smaller = append(smaller, Deviation{Kind: Skewed, Index: way})
		}
		return smaller
	},
	Restarted: func(d Deviation) []Deviation {
		if d.N == 0 {
			return nil
		}
		return plainRestart(d)
	},
	Unsynced: plainRestart,
	Restored: plainRestart,
	Detained: func(d Deviation) []Deviation { return []Deviation{{Kind: Deleted, Index: d.Index}} },

	Early: onlyItself, Parted: onlyItself, Stopped: onlyItself, Halted: onlyItself, Paused: onlyItself,
	Rivalled: onlyItself, Deleted: onlyItself, Edited: onlyItself, Held: onlyItself, Altered: onlyItself,
	Replaced: onlyItself, Marked: onlyItself, Offline: onlyItself, Asleep: onlyItself, Shuffled: onlyItself,
	Lagging: onlyItself, Refused: onlyItself, Mutated: onlyItself, Unserved: onlyItself, Reborn: onlyItself,
	Silent: onlyItself, Rollout: onlyItself, Garbled: onlyItself, Barred: onlyItself,
	Poisoned: onlyItself,
}

// Weaker returns the deviations that disturb the program at the same place, but
// less than d, from the weakest to the strongest. A failure under one of them
// is easier to understand. For example, for a crash after a call they are a
// 409, a 500 and so on, and for a restart with old caches a plain restart.
//
// Not every call can suffer every fault: the caller has to leave out the
// deviations that are not possible.
func (d Deviation) Weaker() []Deviation { return weaker[d.Kind](d) }

func onlyItself(Deviation) []Deviation { return nil }

func plainRestart(d Deviation) []Deviation { return []Deviation{{Kind: Restarted, Index: d.Index}} }

// withFaults returns a copy of d with each of faults.
func (d Deviation) withFaults(faults []apisim.Fault) []Deviation {
	var copies []Deviation
	for _, f := range faults {
		d.Fault = f
		copies = append(copies, d)
	}
	return copies
}

// preceding returns the part of a list before v, or nothing if the list does
// not contain v.
func preceding[T comparable](list []T, v T) []T { return list[:max(slices.Index(list, v), 0)] }

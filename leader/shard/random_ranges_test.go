package shard_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/internal/keyspace"
	"github.com/homeostat/homeostat/leader/shard"
)

const (
	rangedSlots  = 24
	rangedPlaces = 120
	// longestUnranged is for how long no replica may work on a namespace, although an owner dies while ranges
	// change, and then the one that was to take its slot.
	longestUnranged = 6 * leaseDuration
)

// changingRanges are the ranges of a world, which change at random moments.
type changingRanges struct{ names []string }

func newChangingRanges() *changingRanges {
	c := &changingRanges{}
	for n := range rangedPlaces {
		c.names = append(c.names, fmt.Sprintf("%x", uint64(n+1)*0x9e3779b97f4a7c15))
	}
	return c
}

// placesOf returns the namespaces that a replica has in a slot.
func (c *changingRanges) placesOf(s *shard.Shards, slot int) (places []int) {
	for n, name := range c.names {
		if s.Slot(types.NamespacedName{Namespace: name}) == slot {
			places = append(places, n)
		}
	}
	return places
}

// written is a range as it is recorded, in the order of their bounds.
type written struct {
	bound       uint64
	weight      string
	slot, since int
}

func parseWritten(t interface{ Fatal(args ...any) }, text string) (all []written) {
	for n, field := range strings.Fields(text) {
		parts := strings.Split(field, ":")
		if len(parts) == 2 {
			parts = append(parts, strconv.Itoa(n), "1")
		}
		bound, err := strconv.ParseUint(parts[0], 16, 64)
		slot, err2 := strconv.Atoi(parts[2])
		since, err3 := strconv.Atoi(parts[3])
		if err != nil || err2 != nil || err3 != nil {
			t.Fatal(field)
		}
		all = append(all, written{bound, parts[1], slot, since})
	}
	return all
}

func formatWritten(all []written) string {
	var texts []string
	for _, w := range all {
		texts = append(texts, fmt.Sprintf("%x:%s:%d:%d", w.bound, w.weight, w.slot, w.since))
	}
	return strings.Join(texts, " ")
}

// ends returns the last hash of each range, by slot.
func ends(all []written) map[int]keyspace.Range {
	ranges := map[int]keyspace.Range{}
	for n, w := range all {
		r := keyspace.Range{First: w.bound, Last: math.MaxUint64}
		if n+1 < len(all) {
			r.Last = all[n+1].bound - 1
		}
		ranges[w.slot] = r
	}
	return ranges
}

// changed returns other ranges: as often as times says two of them become one, at random, and another is halved.
func changed(all []written, times int, random func(n int) int) []written {
	before, version := ends(all), 0
	for _, w := range all {
		version = max(version, w.since)
	}
	next := slices.Clone(all)
	for range times {
		merged := random(len(next) - 1)
		free := next[merged+1].slot
		if random(2) == 0 { // the one that stays gets the other's slot
			next[merged].slot, free = free, next[merged].slot
		}
		next = slices.Delete(next, merged+1, merged+2)
		split := random(len(next))
		r := ends(next)[next[split].slot]
		half := written{r.First + (r.Last-r.First)/8*uint64(1+random(7)), "1", free, 1}
		if half.bound > r.First {
			next = slices.Insert(next, split+1, half)
		}
	}
	after := ends(next)
	for n, w := range next {
		if after[w.slot] != before[w.slot] {
			next[n].since = version + 1
		} else {
			next[n].since = all[slices.IndexFunc(all, func(o written) bool { return o.slot == w.slot })].since
		}
	}
	return next
}

// live changes the ranges now and then until ctx ends, when no record is of older ones, or sometimes although some are, as
// another client can.
func (c *changingRanges) live(ctx context.Context, w *world) {
	for ctx.Err() == nil {
		r := &resident{world: w}
		r.sleep(ctx, time.Second+w.chance(time.Minute))
		config, err := w.api.Get("test")
		if err != nil {
			continue
		}
		all := parseWritten(panics{}, config.Annotations["leader.homeostat.dev/ranges"])
		if !c.raised(w, all) {
			if w.chance(4*time.Millisecond) > time.Millisecond {
				w.step("changes that wait")
				continue
			}
			w.step("changes that do not wait")
		}
		times := int(w.chance(8*time.Millisecond) / time.Millisecond)
		w.mu.Lock()
		next := changed(all, times, w.rand.Intn)
		w.mu.Unlock()
		config.Annotations["leader.homeostat.dev/ranges"] = formatWritten(next)
		if _, err := w.api.Update(config); err == nil {
			w.step("changes of ranges")
		}
	}
}

type panics struct{}

func (panics) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

// raised reports whether the records of all slots are of these ranges.
func (c *changingRanges) raised(w *world, all []written) bool {
	for _, of := range all {
		version := 0
		if record, err := w.api.Get("test-slot-" + strconv.Itoa(of.slot)); err == nil {
			version = 1
			if text := record.Annotations["leader.homeostat.dev/division"]; text != "" {
				text, _, _ = strings.Cut(text, "/")
				version, _ = strconv.Atoi(text)
			}
		}
		if version < of.since {
			return false
		}
	}
	return true
}

// TestRangesThatChangeKeepThePromisesOfShards is the world of slots, whose ranges change all the time.
func TestRangesThatChangeKeepThePromisesOfShards(t *testing.T) {
	worlds(t, newChangingRanges, "changes of ranges", "changes that wait", "changes that do not wait")
}
